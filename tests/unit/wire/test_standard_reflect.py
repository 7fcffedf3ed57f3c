"""Answers to senders of other makers, in both modes, by the letter of the RFCs."""

from __future__ import annotations

import pytest
from scapy.contrib import stamp as oracle

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.answer import Arrival, Reflector
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.parse import RejectReason
from meshwatchd.wire.stamp import SenderPacket, encode_sender
from meshwatchd.wire.standard_probe import StandardProbe
from meshwatchd.wire.standard_reflect import StandardRequest, answer_request, is_answer_to_us, read_request
from meshwatchd.wire.standard_tlv import Location
from meshwatchd.wire.tlv import INTEGRITY_FAILED, MALFORMED, MAX_TLVS, UNRECOGNIZED, Tlv, decode_tlvs, encode_tlvs
from tests.support.stamp_codec import ReflectorPacket, decode_reflector
from tests.support.wire_pair import B1_ADDRESS, REFLECTOR, RX_NTP, TX_NTP

ESTIMATE = ErrorEstimate(is_synchronized=True, scale=10, multiplier=3)
KEY = MacKey(b"shared with the other maker")


def _open(packet: bytes, *, reflector: Reflector = REFLECTOR, tlv_key: MacKey | None = None) -> bytes:
    read = read_request(packet, mode=StampMode.OPEN)
    assert isinstance(read, StandardRequest), read
    reply = answer_request(
        packet,
        read,
        mode=StampMode.OPEN,
        key=tlv_key,
        reflector=reflector,
        reflector_sequence=12,
        rx_ntp=RX_NTP,
        tx_ntp=TX_NTP,
        ttl=64,
        error_estimate=ESTIMATE.encode(),
    )
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


@pytest.mark.parametrize("mode", StampMode)
def test_a_short_request_gets_nothing(mode):
    """The RFC would answer 44 bytes to any: an amplifier. From 41 on a TWAMP reflector's answer fits."""
    least = 41 if mode is StampMode.OPEN else 112
    verdicts = {read_request(bytes(length), mode=mode, key=MacKey(b"")) for length in range(least)}

    assert {RejectReason.WRONG_LENGTH} == verdicts


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


def test_flags_that_no_sender_sets_end_the_reading():
    """RFC 8972 section 4: M and I stop whoever receives them, and what is behind comes back as it was."""
    for flag in (MALFORMED, INTEGRITY_FAILED):
        packet = _sender(Tlv(type=4, value=bytes(4), flags=flag), Tlv(type=3, value=bytes(4)))

        assert packet[44:] == _open(packet)[44:]


def test_more_tlvs_than_there_are_types_are_malformed():
    """Each costs time, and a packet has room for thousands: the reading ends with M at the first too many."""
    packet = _sender(*(Tlv(type=200, value=b"", flags=0) for _ in range(2_000)))
    reply = _open(packet)

    flags = {offset: reply[offset] for offset in range(44, len(reply), 4) if reply[offset]}
    assert {**{44 + 4 * index: UNRECOGNIZED for index in range(MAX_TLVS)}, 44 + 4 * MAX_TLVS: MALFORMED} == flags


def test_scapys_question_of_each_type_is_answered():
    """All types of RFC 8972 and RFC 9503, written and read by scapy."""
    sizes = {1: 8, 2: 4, 3: 4, 4: 4, 5: 12, 6: 4, 7: 16, 9: 4, 10: 8}
    asked = [oracle.STAMPTestTLV(type=kind, len=size, value=bytes(size)) for kind, size in sizes.items()]
    theirs = oracle.STAMPSessionSenderTestUnauthenticated(seq=3, ts=4, ssid=5, tlv_objects=asked)

    reply = oracle.STAMPSessionReflectorTestUnauthenticated(_open(bytes(theirs)))

    refused = {9: UNRECOGNIZED, 10: UNRECOGNIZED}
    assert [(kind, refused.get(kind, 0)) for kind in sizes] == [(tlv.type, int(tlv.flags)) for tlv in reply.tlv_objects]


def _signed_answer(packet: bytes, *, number: int | None = 12) -> bytes:
    read = read_request(packet, mode=StampMode.AUTHENTICATED, key=KEY)
    assert isinstance(read, StandardRequest), read
    return answer_request(
        packet,
        read,
        mode=StampMode.AUTHENTICATED,
        key=KEY,
        reflector=REFLECTOR,
        reflector_sequence=number,
        rx_ntp=RX_NTP,
        tx_ntp=TX_NTP,
    )


def test_a_signed_request_gets_a_signed_answer():
    """RFC 8762 section 4.3.2, both tags."""
    probe = StandardProbe(
        mode=StampMode.AUTHENTICATED, key=KEY, ssid=5, tlvs=(Tlv(type=9, value=B1_ADDRESS),), payload_bytes=300
    )
    reply = _signed_answer(probe.encode(3, 4))
    read = decode_reflector(reply, StampMode.AUTHENTICATED)

    assert (12, 3, 4, 5) == (read.sequence, read.sender_sequence, read.sender_timestamp_ntp, read.ssid)
    assert KEY.is_tag_of(read.hmac, reply[:96])
    assert [(9, 0), (1, 0), (8, 0)] == [(tlv.type, tlv.flags) for tlv in read.tlvs]
    assert KEY.is_tag_of(reply[-16:], reply[:4], reply[112:-20])
    assert 300 == len(reply)


def test_a_stateless_answer_repeats_the_number():
    """And does not understand what only a count can answer."""
    probe = StandardProbe(mode=StampMode.AUTHENTICATED, key=KEY, tlvs=(Tlv(type=5, value=bytes(12)),))
    read = decode_reflector(_signed_answer(probe.encode(3, 4), number=None), StampMode.AUTHENTICATED)

    assert (3, UNRECOGNIZED) == (read.sequence, read.tlvs[0].flags)


@pytest.mark.parametrize("key", [None, MacKey(b"?")])
def test_a_request_under_another_key_is_refused(key):
    """Or under none."""
    packet = StandardProbe(mode=StampMode.AUTHENTICATED, key=KEY).encode(1, 2)

    assert RejectReason.BAD_BASE_TAG is read_request(packet, mode=StampMode.AUTHENTICATED, key=key)


@pytest.mark.parametrize("mode", StampMode)
def test_an_answer_to_our_answer_is_known_by_our_time_in_it(mode):
    """The era may have ended in between; zeros and random padding are no such time."""
    size, echo = (44, 28) if mode is StampMode.OPEN else (112, 64)

    def is_answer(time: int, now: int) -> bool:
        packet = bytes(echo) + (time % (1 << 64)).to_bytes(8, "big") + bytes(size)
        return is_answer_to_us(packet[:size], mode=mode, now_ntp=now)

    assert is_answer(0xEC00_0000_0000_0000, 0xEC00_0000_0000_0000)
    assert is_answer(-1, 5)
    assert not is_answer(0, 5)
    assert not is_answer(0xEC00_0000_0000_0001, 0xEC00_0000_0000_0000)
    assert not is_answer(0xEC00_0000_0000_0000, 0xEC00_003D_0000_0000)


def test_bytes_behind_the_ssid_that_are_not_zero_are_a_twamp_senders_padding():
    """Each of the 28 alone; a STAMP sender leaves them zero (RFC 8972 section 3)."""
    packet = _sender(Tlv(type=4, value=bytes(4)))
    for offset in range(14, 52):
        read = read_request(packet[:offset] + b"\1" + packet[offset + 1 :], mode=StampMode.OPEN)
        assert isinstance(read, StandardRequest)
        assert (16 <= offset < 44) == read.is_twamp
        assert (0 if read.is_twamp else {14: 0x105, 15: 1}.get(offset, 5)) == read.ssid
    short = read_request(packet[:41], mode=StampMode.OPEN)
    assert isinstance(short, StandardRequest)
    assert (True, 0) == (short.is_twamp, short.ssid)
