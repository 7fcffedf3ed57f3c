"""STAMP test packets read and written whole, as `wire.stamp` lays them out: a second opinion on what goes by bytes."""

from __future__ import annotations

import msgspec

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.stamp import (
    AUTH_REFLECTOR,
    AUTH_SENDER,
    NO_HMAC,
    OPEN_REFLECTOR,
    OPEN_SENDER,
    SenderPacket,
    base_bytes,
)
from meshwatchd.wire.tlv import Tlv, decode_tlvs, encode_tlvs


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


def decode_sender(data: bytes, mode: StampMode) -> SenderPacket:
    """Read a session-sender packet."""
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
    """Read a session-reflector packet."""
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
    assert len(data) >= base_bytes(mode), f"{len(data)} bytes are no {mode} packet of at least {base_bytes(mode)}"
