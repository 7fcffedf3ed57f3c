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

from meshwatchd.model.errors import DecodeError
from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.tlv import Tlv, decode_tlvs, encode_tlvs

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


class ReflectorPacket(msgspec.Struct, frozen=True, kw_only=True):
    """A session-reflector test packet: the reflector's own fields and copies of the sender's.

    Attributes:
        sequence: the reflector's own count (stateful) or the sender's number (stateless).
        timestamp_ntp: when the reflector sent it.
        receive_ntp: when the reflector received the sender's packet.
        sender_ttl: TTL or hop limit with which the sender's packet arrived; 0 when unknown.
    """

    sequence: int
    timestamp_ntp: int
    error_estimate: ErrorEstimate
    receive_ntp: int
    sender_sequence: int
    sender_timestamp_ntp: int
    sender_error_estimate: ErrorEstimate
    sender_ttl: int
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


def decode_sender(data: bytes, mode: StampMode) -> SenderPacket:
    """Read a session-sender packet.

    Raises:
        DecodeError: shorter than the base packet, or a TLV is cut short.
    """
    _require_base(data, mode)
    hmac = NO_HMAC
    if mode is StampMode.OPEN:
        sequence, timestamp, error, ssid = OPEN_SENDER.unpack_from(data)
    else:
        sequence, timestamp, error, ssid, hmac = AUTH_SENDER.unpack_from(data)
    return SenderPacket(
        sequence=sequence,
        timestamp_ntp=timestamp,
        error_estimate=ErrorEstimate.decode(error),
        ssid=ssid,
        hmac=hmac,
        tlvs=decode_tlvs(data, base_bytes(mode)),
    )


def encode_reflector(packet: ReflectorPacket, mode: StampMode) -> bytes:
    """Write a session-reflector packet and its TLVs; nothing is signed here (see `seal`)."""
    fields = (
        packet.sequence,
        packet.timestamp_ntp,
        packet.error_estimate.encode(),
        packet.ssid,
        packet.receive_ntp,
        packet.sender_sequence,
        packet.sender_timestamp_ntp,
        packet.sender_error_estimate.encode(),
        packet.sender_ttl,
    )
    if mode is StampMode.OPEN:
        return OPEN_REFLECTOR.pack(*fields) + encode_tlvs(packet.tlvs)
    return AUTH_REFLECTOR.pack(*fields, packet.hmac) + encode_tlvs(packet.tlvs)


def decode_reflector(data: bytes, mode: StampMode) -> ReflectorPacket:
    """Read a session-reflector packet.

    Raises:
        DecodeError: shorter than the base packet, or a TLV is cut short.
    """
    _require_base(data, mode)
    if mode is StampMode.OPEN:
        fields = (*OPEN_REFLECTOR.unpack_from(data), NO_HMAC)
    else:
        fields = AUTH_REFLECTOR.unpack_from(data)
    sequence, timestamp, error, ssid, received, sender_sequence, sender_timestamp, sender_error, ttl, hmac = fields
    return ReflectorPacket(
        sequence=sequence,
        timestamp_ntp=timestamp,
        error_estimate=ErrorEstimate.decode(error),
        receive_ntp=received,
        sender_sequence=sender_sequence,
        sender_timestamp_ntp=sender_timestamp,
        sender_error_estimate=ErrorEstimate.decode(sender_error),
        sender_ttl=ttl,
        ssid=ssid,
        hmac=hmac,
        tlvs=decode_tlvs(data, base_bytes(mode)),
    )


def _require_base(data: bytes, mode: StampMode) -> None:
    if len(data) < base_bytes(mode):
        raise DecodeError("stamp", f"{len(data)} bytes are no {mode} packet of at least {base_bytes(mode)}")
