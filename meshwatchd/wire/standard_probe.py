"""The session-sender towards reflectors of other makers: its packets, and what may be believed of the answers."""

from __future__ import annotations

from typing import Final

import msgspec

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.ntp import UNSYNCHRONIZED, ErrorEstimate
from meshwatchd.wire.parse import RejectReason
from meshwatchd.wire.stamp import (
    AUTH_BASE_BYTES,
    AUTH_REFLECTOR,
    HMAC_BYTES,
    HMAC_OFFSET,
    OPEN_BASE_BYTES,
    OPEN_REFLECTOR,
    TWAMP_BYTES,
    SenderPacket,
    base_bytes,
    encode_sender,
)
from meshwatchd.wire.standard_seal import is_signature_needed, is_tlv_tag_valid, sign_base, tlv_tag
from meshwatchd.wire.standard_tlv import DIRECT_MEASUREMENT_BYTES, DirectMeasurement
from meshwatchd.wire.tlv import HEADER_BYTES, INTEGRITY_FAILED, Scan, Span, Tlv, TlvType, encode_tlvs, scan

LEAST_REPLY_BYTES: Final = 36
"""Where the last field ends that a measurement needs: there are TWAMP Light reflectors that stop before the TTL."""
_HMAC_TLV_BYTES: Final = HEADER_BYTES + HMAC_BYTES
_TAG_FLAGS: Final = frozenset({0, INTEGRITY_FAILED})
"""An answered HMAC TLV was understood, or refused; any other flag was set on the way."""


class StandardProbe(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of packet.

    Attributes:
        key: needed in authenticated mode; in open mode it signs the TLVs.
        ssid: session identifier, 0 for none.
        tlvs: questions to the reflector, in this order.
        payload_bytes: wanted length of the UDP payload, reached by Extra Padding; 0 for no padding.
    """

    mode: StampMode = StampMode.OPEN
    key: MacKey | None = None
    ssid: int = 0
    tlvs: tuple[Tlv, ...] = ()
    payload_bytes: int = 0

    def least_bytes(self) -> int:
        """Length without padding."""
        carried = sum(HEADER_BYTES + len(tlv.value) for tlv in self.tlvs)
        return base_bytes(self.mode) + carried + (_HMAC_TLV_BYTES if self.is_signing_tlvs else 0)

    def is_size_possible(self) -> bool:
        """Whether Extra Padding, at least a header long, can make up the difference."""
        missing = self.payload_bytes - self.least_bytes()
        return not self.payload_bytes or missing == 0 or missing >= HEADER_BYTES

    def encode(self, sequence: int, timestamp_ntp: int, error_estimate: ErrorEstimate = UNSYNCHRONIZED) -> bytes:
        """The packet with this number and time, signed."""
        base = SenderPacket(
            sequence=sequence, timestamp_ntp=timestamp_ntp, error_estimate=error_estimate, ssid=self.ssid
        )
        packet = bytearray(encode_sender(base, self.mode))
        if self.key is not None and self.mode is StampMode.AUTHENTICATED:
            sign_base(packet, self.key)
        start = len(packet)
        packet += encode_tlvs(_counted(tlv, sequence) for tlv in (*self.tlvs, *self._padding()))
        if self.key is not None and self.is_signing_tlvs:
            tag = self.key.tag(packet[:4], packet[start:])
            packet += Tlv(type=TlvType.HMAC, value=tag).encode()
        return bytes(packet)

    @property
    def is_signing_tlvs(self) -> bool:
        """Padding alone needs no signature; with one, nobody can turn it into something else on the way."""
        return self.key is not None and (bool(self.tlvs) or self.payload_bytes > base_bytes(self.mode))

    def _padding(self) -> tuple[Tlv, ...]:
        missing = self.payload_bytes - self.least_bytes()
        return (Tlv(type=TlvType.EXTRA_PADDING, value=bytes(missing - HEADER_BYTES)),) if missing > 0 else ()


def _counted(tlv: Tlv, sequence: int) -> Tlv:
    """Direct Measurement says how many packets were sent, this one included."""
    if tlv.type == TlvType.DIRECT_MEASUREMENT and len(tlv.value) == DIRECT_MEASUREMENT_BYTES:
        return DirectMeasurement(sender_tx=(sequence + 1) & 0xFFFF_FFFF).to_tlv()
    return tlv


class StandardReply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose base packet is believed.

    Attributes:
        sequence: the reflector's own count (stateful) or the sender's number (stateless).
        timestamp_ntp, receive_ntp: when the reflector sent it, and when the request had arrived there.
        error_estimate: of the reflector's clock.
        sender_sequence, sender_timestamp_ntp: as in the request.
        sender_ttl: with which the request arrived; 0 when the reflector does not say.
        tlvs: with the flags the reflector has set; empty when they do not verify.
        is_integrity_failed: the TLVs do not verify here, or the reflector says that ours did not there.
        is_malformed: the TLVs end in the middle of one, or are too many.
    """

    sequence: int
    timestamp_ntp: int
    receive_ntp: int
    error_estimate: ErrorEstimate
    ssid: int
    sender_sequence: int
    sender_timestamp_ntp: int
    sender_ttl: int
    tlvs: tuple[Tlv, ...]
    is_integrity_failed: bool
    is_malformed: bool


def read_reply(data: bytes, probe: StandardProbe) -> StandardReply | RejectReason:
    """Read an answer to a probe of this kind; never raises.

    An answer of less than 44 bytes in open mode is that of a TWAMP Light reflector (RFC 8762 section 4.6). So is one
    with padding in bytes 41 to 43, which a STAMP reflector leaves zero; what follows there is padding and no TLVs.
    """
    if len(data) < (LEAST_REPLY_BYTES if probe.mode is StampMode.OPEN else AUTH_BASE_BYTES):
        return RejectReason.WRONG_LENGTH
    if probe.mode is StampMode.OPEN:
        fields = OPEN_REFLECTOR.unpack_from(data[:OPEN_BASE_BYTES].ljust(OPEN_BASE_BYTES, b"\0"))
    else:
        fields = AUTH_REFLECTOR.unpack_from(data)[:-1]
        if probe.key is None or not probe.key.is_tag_of(data[HMAC_OFFSET:AUTH_BASE_BYTES], data[:HMAC_OFFSET]):
            return RejectReason.BAD_BASE_TAG
    sequence, timestamp, error, ssid, received, sender_sequence, sender_timestamp, _sender_error, ttl = fields
    is_padded = probe.mode is StampMode.OPEN and any(data[TWAMP_BYTES:OPEN_BASE_BYTES])
    found = scan(data, len(data) if is_padded else base_bytes(probe.mode))
    is_failed = _is_integrity_failed(data, found, probe)
    return StandardReply(
        sequence=sequence,
        timestamp_ntp=timestamp,
        receive_ntp=received,
        error_estimate=ErrorEstimate.decode(error),
        ssid=ssid,
        sender_sequence=sender_sequence,
        sender_timestamp_ntp=sender_timestamp,
        sender_ttl=ttl,
        tlvs=() if is_failed else tuple(_tlv(data, span) for span in found.spans),
        is_integrity_failed=is_failed,
        is_malformed=found.is_malformed,
    )


def _tlv(data: bytes, span: Span) -> Tlv:
    return Tlv(type=span.type, value=data[span.value_offset : span.end], flags=data[span.offset])


def _is_integrity_failed(data: bytes, found: Scan, probe: StandardProbe) -> bool:
    """RFC 8972 section 4: one TLV with I, and none is read."""
    if any(data[span.offset] & INTEGRITY_FAILED for span in found.spans):
        return True
    tag = tlv_tag(found)
    if tag is None or probe.key is None:
        # TLVs were signed, and the answer's are not: somebody has taken the signature away.
        return (probe.is_signing_tlvs and bool(found.spans)) or is_signature_needed(found, probe.mode)
    start = base_bytes(probe.mode)
    return data[tag.offset] not in _TAG_FLAGS or not is_tlv_tag_valid(data, found, tag, probe.key, start=start)
