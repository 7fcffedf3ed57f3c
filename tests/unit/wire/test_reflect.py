"""Answers: same length, both signatures, the reflector's own words; and the open mode as strangers expect it."""

from __future__ import annotations

import dataclasses

import pytest
from scapy.contrib import stamp as oracle

from meshwatchd.wire import FLAG_FRESH, FLAG_REPLY, Arrival, Reflector, RejectReason, reflect, reflect_open
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.stamp import (
    ReflectorPacket,
    SenderPacket,
    StampMode,
    decode_reflector,
    encode_sender,
)
from meshwatchd.wire.standard_tlv import ClassOfService, DestinationNodeAddress, Location
from meshwatchd.wire.tlv import INTEGRITY_FAILED, MALFORMED, UNRECOGNIZED, Tlv, decode_tlvs, encode_tlvs
from tests.support.wire_pair import (
    A1_STATE,
    B1_ADDRESS,
    B1_STATE,
    COORDINATION,
    GOSSIP,
    REFLECTOR,
    RX_NTP,
    SPEC,
    TO_B1,
    TX_NTP,
    answer,
    answered,
    request,
)

ESTIMATE = ErrorEstimate(is_synchronized=True, scale=10, multiplier=3)


def test_an_answer_carries_the_request_and_the_reflectors_own_words():
    """RFC 8762 section 4.3.2, and the mesh TLV overwritten."""
    parsed = answered(answer(request(dataclasses.replace(SPEC, coordination=COORDINATION), sequence=41)))

    assert parsed.is_reply
    assert (1000, 41, 0xEC00_0000_0000_0001, 9, 63) == (
        parsed.sequence,
        parsed.sender_sequence,
        parsed.sender_timestamp_ntp,
        parsed.ssid,
        parsed.sender_ttl,
    )
    assert (RX_NTP, TX_NTP, 0x2001) == (
        parsed.receive_ntp,
        parsed.timestamp_ntp,
        parsed.sender_error_estimate,
    )
    mesh = parsed.mesh
    assert (B1_STATE.node_id, B1_STATE.epoch, B1_STATE.heard, B1_STATE.known, GOSSIP) == (
        mesh.node_id,
        mesh.epoch,
        mesh.heard,
        mesh.known,
        mesh.gossip,
    )
    assert (1, 5, 1, FLAG_FRESH | FLAG_REPLY) == (mesh.path, mesh.layer, mesh.diagnostic, mesh.flags)
    assert COORDINATION == parsed.coordination
    assert A1_STATE.node_id != mesh.node_id


@pytest.mark.parametrize("payload_bytes", [0, 244, 1392])
def test_an_answer_has_the_length_of_its_request(payload_bytes):
    """No amplification, and the same size is tried on the way back."""
    packet = request(dataclasses.replace(SPEC, payload_bytes=payload_bytes))

    assert len(packet) == len(answer(packet))


def test_flags_of_an_answer_tell_what_was_understood():
    """U, set by the sender, is cleared but for the unknown type; padding and tag included."""
    extra = (Tlv(type=200, value=b"??"), Location.request().to_tlv(), ClassOfService(dscp1=0).to_tlv())
    spec = dataclasses.replace(SPEC, extra_tlvs=extra, coordination=COORDINATION, payload_bytes=400)

    tlvs = decode_tlvs(answer(request(spec)), 112)

    assert [(252, 0), (9, 0), (253, 0), (200, UNRECOGNIZED), (2, 0), (4, 0), (1, 0), (8, 0)] == [
        (tlv.type, tlv.flags) for tlv in tlvs
    ]


def test_a_peers_malformed_value_is_answered_with_m():
    """A newer or broken peer is told, and the answer still verifies."""
    packet = request(dataclasses.replace(SPEC, extra_tlvs=(Tlv(type=5, value=b"short"),)))

    reply = answer(packet)

    assert answered(reply).destination == B1_ADDRESS
    assert [MALFORMED] == [tlv.flags for tlv in decode_tlvs(reply, 112) if tlv.type == 5]


def test_an_answer_is_never_answered():
    """Two reflectors would play ping-pong."""
    reply = answer(request())

    with pytest.raises(AssertionError):
        reflect(
            reply,
            answered(reply),
            key=TO_B1,
            own=A1_STATE,
            reflector=REFLECTOR,
            reflector_sequence=1,
            rx_ntp=1,
            tx_ntp=2,
        )


def _open(packet: bytes, *, reflector: Reflector = REFLECTOR, tlv_key: MacKey | None = None) -> bytes:
    reply = reflect_open(
        packet,
        reflector=reflector,
        reflector_sequence=12,
        rx_ntp=RX_NTP,
        tx_ntp=TX_NTP,
        ttl=64,
        error_estimate=ESTIMATE.encode(),
        tlv_key=tlv_key,
    )
    assert isinstance(reply, bytes), reply
    assert len(packet) == len(reply)
    return reply


def _sender(*tlvs: Tlv) -> bytes:
    packet = SenderPacket(sequence=3, timestamp_ntp=4, error_estimate=ErrorEstimate(), ssid=5, tlvs=tlvs)
    return encode_sender(packet, StampMode.OPEN)


def test_a_stranger_in_open_mode_gets_a_plain_answer():
    """RFC 8762 section 4.3.1."""
    assert ReflectorPacket(
        sequence=12,
        timestamp_ntp=TX_NTP,
        error_estimate=ESTIMATE,
        receive_ntp=RX_NTP,
        sender_sequence=3,
        sender_timestamp_ntp=4,
        sender_error_estimate=ErrorEstimate(),
        sender_ttl=64,
        ssid=5,
    ) == decode_reflector(_open(_sender()), StampMode.OPEN)


def test_scapys_sender_understands_our_open_answer():
    """A third-party sender, a third-party reader."""
    theirs = oracle.STAMPSessionSenderTestUnauthenticated(
        seq=3, ts=4, ssid=5, tlv_objects=[oracle.STAMPTestTLV(type=9, len=4, value=B1_ADDRESS)]
    )

    reply = oracle.STAMPSessionReflectorTestUnauthenticated(_open(bytes(theirs)))

    assert (12, 3, 64, 5) == (reply.seq, reply.seq_sender, reply.ttl_sender, reply.ssid)
    assert theirs.fields["ts"] == reply.fields["ts_sender"]
    assert [(0, 9, B1_ADDRESS)] == [(int(tlv.flags), tlv.type, tlv.value) for tlv in reply.tlv_objects]


def test_open_mode_answers_the_rfcs_tlvs_and_knows_no_mesh():
    """Private types are unknown there."""
    arrival = Arrival(source=bytes(4), source_port=1, destination=bytes(4), destination_port=862, dscp=0)
    reflector = Reflector(addresses=frozenset({B1_ADDRESS}), arrival=arrival)
    packet = _sender(
        Tlv(type=252, value=bytes(96)), Location.request().to_tlv(), Tlv(type=9, value=bytes(4)), Tlv(type=1, value=b"")
    )

    tlvs = decode_tlvs(_open(packet, reflector=reflector), 44)

    assert [(252, 0x80), (2, 0), (9, 0x80), (1, 0)] == [(tlv.type, tlv.flags) for tlv in tlvs]
    assert 862 == Location.from_tlv(tlvs[1]).destination_port
    assert DestinationNodeAddress.from_tlv(tlvs[2]).is_refused


@pytest.mark.parametrize("length", range(44))
def test_a_short_open_request_gets_nothing(length):
    """The RFC would allow 44 bytes for one: an amplifier."""
    verdict = reflect_open(bytes(length), reflector=REFLECTOR, reflector_sequence=1, rx_ntp=1, tx_ntp=2)

    assert RejectReason.WRONG_LENGTH is verdict


def test_zero_padding_of_an_old_sender_comes_back_as_zeros():
    """RFC 8762 section 4.6, TWAMP Light."""
    assert bytes(60) == _open(_sender() + bytes(60))[44:]


def _signed(key: MacKey, *tlvs: Tlv, behind: tuple[Tlv, ...] = ()) -> bytes:
    area = encode_tlvs(tlvs)
    tag = Tlv(type=8, value=key.tag(_sender()[:4], area))
    return _sender() + area + encode_tlvs((tag, *behind))


def test_signed_tlvs_in_open_mode_are_verified_and_signed_again():
    """RFC 8972 section 4.8, Extra Padding behind the tag included; the answer's own number is what is signed."""
    key = MacKey(b"shared with the other maker")
    packet = _signed(key, Tlv(type=9, value=B1_ADDRESS), behind=(Tlv(type=1, value=b"pad"),))

    reply = _open(packet, tlv_key=key)

    destination, tag, padding = decode_tlvs(reply, 44)
    assert (0, 0, 0) == (destination.flags, tag.flags, padding.flags)
    assert key.is_tag_of(tag.value, reply[:4], reply[44:52])


@pytest.mark.parametrize("case", ["no key", "wrong key", "not last", "wrong size", "behind is cut"])
def test_tlvs_that_do_not_verify_come_back_with_i(case):
    """Each TLV is copied and marked, none is answered."""
    key = MacKey(b"shared with the other maker")
    packet = _signed(key, Tlv(type=9, value=B1_ADDRESS))
    if case == "not last":
        packet = _signed(key, Tlv(type=9, value=B1_ADDRESS), behind=(Tlv(type=4, value=bytes(4)),))
    elif case == "wrong size":
        packet = _sender(Tlv(type=9, value=B1_ADDRESS), Tlv(type=8, value=bytes(15)))
    elif case == "behind is cut":
        packet += b"\x80\x01\x00\x09"
    mine = {"no key": None, "wrong key": MacKey(b"?")}.get(case, key)

    reply = _open(packet, tlv_key=mine)

    assert reply[44] == UNRECOGNIZED | INTEGRITY_FAILED
    without_flags = bytearray(reply)
    for offset in (44, 52, 72):
        if offset < len(reply):
            without_flags[offset] &= ~INTEGRITY_FAILED
    assert packet[44:] == without_flags[44:]


def test_plain_requests_are_answered_by_each_node_for_itself():
    """What is remembered of the answer to one node's request says nothing for a node of another address."""
    packet = request(dataclasses.replace(SPEC, coordination=COORDINATION))
    elsewhere = Reflector(addresses=frozenset({bytes(4)}))
    refused = [answered(answer(packet, reflector=each)).is_destination_refused for each in (REFLECTOR, elsewhere) * 2]

    assert [False, True, False, True] == refused
    assert COORDINATION == answered(answer(packet)).coordination
