"""Base packets: RFC offsets, round trips, and scapy's STAMP layer as a second opinion in open mode."""

from __future__ import annotations

import pytest

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.stamp import SenderPacket, encode_sender
from meshwatchd.wire.tlv import Tlv
from tests.support.stamp_codec import ReflectorPacket, decode_reflector, decode_sender, encode_reflector

OPEN, AUTHENTICATED = StampMode.OPEN, StampMode.AUTHENTICATED
TLVS = (Tlv(type=1, value=b"padding!"), Tlv(type=200, value=b""))
ESTIMATE = ErrorEstimate(is_synchronized=True, scale=17, multiplier=200)

SENDER = SenderPacket(
    sequence=0x0102_0304, timestamp_ntp=0xEC00_0000_1234_5678, error_estimate=ESTIMATE, ssid=0xABCD, tlvs=TLVS
)
REFLECTOR = ReflectorPacket(
    sequence=7,
    timestamp_ntp=0xEC00_0001_0000_0001,
    error_estimate=ErrorEstimate(scale=1),
    receive_ntp=0xEC00_0000_FFFF_FFFF,
    sender_sequence=SENDER.sequence,
    sender_timestamp_ntp=SENDER.timestamp_ntp,
    sender_error_estimate=ESTIMATE,
    sender_ttl=63,
    ssid=0xABCD,
    tlvs=TLVS,
)


@pytest.mark.parametrize("mode", StampMode)
def test_packets_survive_both_ways(mode):
    """Encoding and decoding are inverse, TLVs and the authenticated mode's tag included."""
    assert SENDER == decode_sender(encode_sender(SENDER, mode), mode)
    assert REFLECTOR == decode_reflector(encode_reflector(REFLECTOR, mode), mode)


def test_the_tag_field_is_the_end_of_the_authenticated_base():
    """Bytes 96 to 111."""
    packet = SenderPacket(sequence=1, timestamp_ntp=2, error_estimate=ESTIMATE, hmac=b"0123456789abcdef")

    assert b"0123456789abcdef" == encode_sender(packet, AUTHENTICATED)[96:]
    assert packet == decode_sender(encode_sender(packet, AUTHENTICATED), AUTHENTICATED)


def test_fields_are_at_the_offsets_of_the_rfc():
    """RFC 8762 figures 2, 4, 5 and 7, with the SSID of RFC 8972 behind the error estimate."""
    tables = {
        encode_sender(SENDER, OPEN): {0: "01020304", 4: "ec00000012345678", 12: "91c8", 14: "abcd"},
        encode_sender(SENDER, AUTHENTICATED): {0: "01020304", 16: "ec00000012345678", 24: "91c8", 26: "abcd"},
        encode_reflector(REFLECTOR, OPEN): {
            0: "00000007",
            4: "ec00000100000001",
            12: "0101",
            14: "abcd",
            16: "ec000000ffffffff",
            24: "01020304",
            28: "ec00000012345678",
            36: "91c8",
            40: "3f",
        },
        encode_reflector(REFLECTOR, AUTHENTICATED): {
            0: "00000007",
            16: "ec00000100000001",
            24: "0101",
            26: "abcd",
            32: "ec000000ffffffff",
            48: "01020304",
            64: "ec00000012345678",
            72: "91c8",
            80: "3f",
        },
    }
    for data, fields in tables.items():
        base = bytearray(data[: 44 if len(data) < 112 else 112])
        for offset, text in fields.items():
            value = bytes.fromhex(text)
            assert value == base[offset : offset + len(value)], offset
            base[offset : offset + len(value)] = bytes(len(value))
        assert not any(base), "whatever is not listed must be zero"
