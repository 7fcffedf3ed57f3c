"""The RFCs' TLVs: bytes as the figures show them, round trips, wrong lengths refused."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.standard_tlv import (
    DirectMeasurement,
    Location,
    LocationType,
    class_of_service,
    destination_node_address,
)
from meshwatchd.wire.tlv import UNRECOGNIZED, Tlv

SAMPLES = [
    (DirectMeasurement(sender_tx=1, reflector_rx=2, reflector_tx=3), "8005000c 00000001 00000002 00000003"),
    (Location(destination_port=862, source_port=9), "80020004 035e0009"),
    (
        Location(sub_tlvs=(Tlv(type=LocationType.SOURCE_MAC, value=bytes(8)),)),
        "80020010 00000000 80010008 00000000 00000000",
    ),
]


def _words(text):
    return bytes.fromhex(text.replace(" ", ""))


@pytest.mark.parametrize(("value", "text"), SAMPLES, ids=lambda item: type(item).__name__)
def test_bytes_are_as_in_the_figures(value, text):
    """RFC 8972 figures 4, 5, 12 and 13; RFC 9503 figure 2; with the sender's flags."""
    assert _words(text) == value.to_tlv().encode()
    assert value == type(value).from_tlv(Tlv(type=value.to_tlv().type, value=value.to_tlv().value, flags=0))


def test_what_a_sender_asks_for_is_as_in_the_figures():
    """RFC 8972 figure 12, RFC 9503 figure 2."""
    v4, v6 = ip_address("10.2.0.11"), ip_address("fd00::1")

    assert _words("80040004 b8000000") == class_of_service(46).encode()
    assert _words("80090004 0a02000b") == destination_node_address(v4).encode()
    assert _words("80090010 fd000000 00000000 00000000 00000001") == destination_node_address(v6).encode()


@pytest.mark.parametrize(
    ("kind", "type_", "lengths"),
    [
        (Location, 2, (0, 3, 6)),
        (DirectMeasurement, 5, (0, 11, 13)),
    ],
)
def test_wrong_lengths_and_types_are_refused(kind, type_, lengths):
    """A value is read only when its length is what the type demands."""
    for length in lengths:
        with pytest.raises(DecodeError):
            kind.from_tlv(Tlv(type=type_, value=b"\1" * length))
    with pytest.raises(DecodeError):
        kind.from_tlv(Tlv(type=type_ + 100, value=bytes(16)))


def test_a_location_answer_gives_both_addresses():
    """Type 8 is the source in IPv4, padded to 16 bytes; type 6 the destination in IPv6."""
    v4, v6 = ip_address("192.0.2.1"), ip_address("2001:db8::1")
    answer = Location(
        sub_tlvs=(
            Tlv(type=LocationType.SOURCE_IPV4, value=v4.packed + bytes(12), flags=0),
            Tlv(type=LocationType.DESTINATION_IPV6, value=v6.packed, flags=0),
        )
    )

    assert v4 == answer.address(LocationType.SOURCE_IPV4, LocationType.SOURCE_IPV6)
    assert v6 == answer.address(LocationType.DESTINATION_IPV4, LocationType.DESTINATION_IPV6)
    assert answer.address(LocationType.SOURCE_EUI48) is None


def test_a_location_request_asks_with_zeros():
    """RFC 8972 section 4.2: the sender fills flags, types and lengths only."""
    (destination, source) = Location.request().sub_tlvs

    assert [(4, bytes(16), UNRECOGNIZED), (7, bytes(16), UNRECOGNIZED)] == [
        (sub.type, sub.value, sub.flags) for sub in (destination, source)
    ]
