"""How each TLV is answered, in place: flags, contents, lengths."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from meshwatchd.wire.answer import MESH_ANSWERS, STANDARD_ANSWERS, Arrival, Reflector, answer_tlvs
from meshwatchd.wire.standard_tlv import (
    DirectMeasurement,
    Location,
    LocationType,
    class_of_service,
    destination_node_address,
)
from meshwatchd.wire.tlv import MALFORMED, UNRECOGNIZED, Tlv, decode_tlvs, encode_tlvs
from tests.support.wire_pair import COORDINATION

V4, V6 = ip_address("10.2.0.11"), ip_address("fd00::11")
ARRIVAL = Arrival(
    source=ip_address("203.0.113.11").packed,
    source_port=10_001,
    destination=V4.packed,
    destination_port=18_618,
    dscp=46,
    ecn=2,
    rx_count=2**32 + 7,
    tx_count=6,
)
REFLECTOR = Reflector(addresses=frozenset({V4.packed, V6.packed}), arrival=ARRIVAL)


def _answered(*tlvs, reflector=REFLECTOR, answers=MESH_ANSWERS):
    area = bytearray(encode_tlvs(tlvs))
    length = len(area)
    answer_tlvs(area, 0, length, reflector=reflector, answers=answers)
    assert length == len(area)
    return decode_tlvs(area)


def test_an_unknown_type_comes_back_untouched_with_u():
    """RFC 8972 section 4; what stands behind it is answered all the same."""
    (unknown, padding) = _answered(Tlv(type=200, value=b"abc"), Tlv(type=1, value=b"\5\6"))

    assert Tlv(type=200, value=b"abc", flags=UNRECOGNIZED) == unknown
    assert Tlv(type=1, value=b"\5\6", flags=0) == padding


@pytest.mark.parametrize("address", [V4, V6])
def test_a_probe_for_this_node_is_accepted(address):
    """RFC 9503 section 3, both families."""
    (tlv,) = _answered(destination_node_address(address))

    assert 0 == tlv.flags


@pytest.mark.parametrize("address", ["10.2.0.12", "fd00::12", "::ffff:10.2.0.11"])
def test_a_probe_for_another_node_comes_back_refused(address):
    """U=1; a mapped address is another address."""
    (tlv,) = _answered(destination_node_address(ip_address(address)))

    assert UNRECOGNIZED == tlv.flags


def test_class_of_service_reports_what_arrived():
    """The wish equals what arrived, so the answer meets it."""
    (tlv,) = _answered(class_of_service(46))

    assert 46 << 26 | 46 << 20 | 2 << 18 == int.from_bytes(tlv.value, "big")


@pytest.mark.parametrize("arrival", [ARRIVAL, Arrival()], ids=["known", "unknown"])
def test_a_wish_for_other_marks_is_declined(arrival):
    """RP=1: answers go out as the request came in."""
    (tlv,) = _answered(class_of_service(10), reflector=Reflector(addresses=frozenset(), arrival=arrival))

    assert 10 << 26 | (arrival.dscp or 0) << 20 | arrival.ecn << 18 | 1 << 16 == int.from_bytes(tlv.value, "big")


def test_direct_measurement_reports_both_counts():
    """Modulo 2**32; the sender's own count stays."""
    (tlv,) = _answered(DirectMeasurement(sender_tx=9, reflector_rx=99, reflector_tx=99).to_tlv())

    assert DirectMeasurement(sender_tx=9, reflector_rx=7, reflector_tx=6) == DirectMeasurement.from_tlv(tlv)


def test_location_reports_addresses_and_ports_as_seen():
    """Address translation on the way shows as a difference to what the sender used."""
    (tlv,) = _answered(Location.request().to_tlv())

    location = Location.from_tlv(tlv)
    assert (18_618, 10_001) == (location.destination_port, location.source_port)
    assert V4 == location.address(LocationType.DESTINATION_IPV4)
    assert ip_address("203.0.113.11") == location.address(LocationType.SOURCE_IPV4)


def test_location_in_ipv6_has_other_types_of_the_same_length():
    """RFC 8972 section 4.2.2."""
    arrival = Arrival(source=V6.packed, destination=V6.packed)
    (tlv,) = _answered(Location.request().to_tlv(), reflector=Reflector(addresses=frozenset(), arrival=arrival))

    assert [6, 9] == [sub.type for sub in Location.from_tlv(tlv).sub_tlvs]


def test_location_questions_without_an_answer():
    """No MAC in a UDP socket: EUI-64 of zeros. Addresses not known: the question with zeros. Others: U, or M."""
    question = Location(
        sub_tlvs=(
            Tlv(type=1, value=bytes(8)),
            Tlv(type=7, value=bytes(16)),
            Tlv(type=77, value=b"x"),
            Tlv(type=4, value=bytes(15)),
        )
    )
    (tlv,) = _answered(question.to_tlv(), reflector=Reflector(addresses=frozenset()))

    assert [(3, 0), (7, 0), (77, UNRECOGNIZED), (4, MALFORMED)] == [
        (sub.type, sub.flags) for sub in Location.from_tlv(tlv).sub_tlvs
    ]
    assert not any(Location.from_tlv(tlv).sub_tlvs[0].value)


@pytest.mark.parametrize(("type_", "length"), [(2, 3), (2, 6), (4, 3), (5, 11), (9, 5), (9, 0), (253, 31), (253, 0)])
def test_a_value_of_wrong_size_is_marked_and_ends_the_work(type_, length):
    """M=1, the rest as it came (RFC 8972 section 4)."""
    rest = Tlv(type=1, value=b"rest")

    (marked, untouched) = _answered(Tlv(type=type_, value=b"\1" * length), rest)

    assert MALFORMED == marked.flags
    assert rest == untouched


def test_a_tlv_cut_short_is_marked_where_a_header_is():
    """And left alone where there is none."""
    for tail, expected in ((b"\x80\x01\x00\x09ab", b"\x40\x01\x00\x09ab"), (b"\x80\x01", b"\x80\x01")):
        area = bytearray(tail)
        answer_tlvs(area, 0, len(area), reflector=REFLECTOR, answers=STANDARD_ANSWERS)
        assert expected == area


def test_coordination_is_understood_among_peers_only():
    """Returned unchanged; to a sender in open mode, and for another vendor's, it is unknown."""
    ours = COORDINATION.to_tlv()
    foreign = Tlv(type=253, value=bytes(32))

    assert [(0, ours.value)] == [(tlv.flags, tlv.value) for tlv in _answered(ours)]
    assert [UNRECOGNIZED] == [tlv.flags for tlv in _answered(foreign)]
    assert [UNRECOGNIZED] == [tlv.flags for tlv in _answered(ours, answers=STANDARD_ANSWERS)]
