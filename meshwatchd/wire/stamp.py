"""STAMP test packets: the base formats of RFC 8762 with the session identifier (SSID) of RFC 8972.

All fields are in network byte order. Which of the four formats a packet has is not written in it: direction
and mode are agreed beforehand, so the caller names both and nothing here guesses. Byte offsets:

                               bytes   open mode (44)           authenticated mode (112)
                                       sender   reflector       sender   reflector
    sequence number            4       0        0               0        0
    timestamp                  8       4        4               16       16
    error estimate             2       12       12              24       24
    SSID                       2       14       14              26       26
    receive timestamp          8       -        16              -        32
    sender's sequence number   4       -        24              -        48
    sender's timestamp         8       -        28              -        64
    sender's error estimate    2       -        36              -        72
    sender's TTL               1       -        40              -        80
    HMAC over bytes 0..95      16      -        -               96       96

Bytes not listed are zero when sent and ignored when received. TLVs follow the base packet.

Source: RFC 8762 sections 4.2.1, 4.2.2, 4.3.1, 4.3.2, 4.4; RFC 8972 section 3.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.tlv import Tlv, encode_tlvs

OPEN_BASE_BYTES: Final = 44
AUTH_BASE_BYTES: Final = 112
TWAMP_BYTES: Final = 41
"""Length of a TWAMP reflector's answer without padding (RFC 5357 section 4.2.1)."""
HMAC_OFFSET: Final = 96
HMAC_BYTES: Final = 16
"""HMAC-SHA-256 truncated to 128 bits (RFC 8762 section 4.4)."""

OPEN_SENDER: Final = struct.Struct(">I Q HH 28x")
OPEN_REFLECTOR: Final = struct.Struct(">I Q HH Q I Q H 2x B 3x")
AUTH_SENDER: Final = struct.Struct(">I 12x Q HH 68x 16s")
AUTH_REFLECTOR: Final = struct.Struct(">I 12x Q HH 4x Q 8x I 12x Q H 6x B 15x 16s")

NO_HMAC: Final = bytes(HMAC_BYTES)


class SenderPacket(msgspec.Struct, frozen=True, kw_only=True):
    """A session-sender test packet.

    Attributes:
        sequence: 0..2**32-1.
        timestamp_ntp: when it was sent, 64-bit NTP format.
        ssid: session identifier; 0 means that the sender uses none.
        hmac: 16 bytes over the base packet; zero in open mode and before sealing.
    """

    sequence: int
    timestamp_ntp: int
    error_estimate: ErrorEstimate
    ssid: int = 0
    hmac: bytes = NO_HMAC
    tlvs: tuple[Tlv, ...] = ()


def base_bytes(mode: StampMode) -> int:
    """Length of the base packet, the same in both directions."""
    return OPEN_BASE_BYTES if mode is StampMode.OPEN else AUTH_BASE_BYTES


def encode_sender(packet: SenderPacket, mode: StampMode) -> bytes:
    """Write a session-sender packet and its TLVs; nothing is signed here (see `seal`)."""
    fields = (packet.sequence, packet.timestamp_ntp, packet.error_estimate.encode(), packet.ssid)
    if mode is StampMode.OPEN:
        return OPEN_SENDER.pack(*fields) + encode_tlvs(packet.tlvs)
    return AUTH_SENDER.pack(*fields, packet.hmac) + encode_tlvs(packet.tlvs)
