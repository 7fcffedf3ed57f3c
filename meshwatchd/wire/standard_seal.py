"""The two signatures of a STAMP packet as any maker's peer expects them.

The base packet of authenticated mode ends with a tag over its first 96 bytes. TLVs are covered by a tag of
their own, the value of the HMAC TLV, over the packet's sequence number and all TLVs before that one. In
authenticated mode TLVs need it, unless there is nothing but one Extra Padding; in open mode it is a choice.
Only Extra Padding may follow the HMAC TLV, and is then unprotected; packets made here have it in front.

Source: RFC 8762 section 4.4; RFC 8972 section 4.8.
"""

from __future__ import annotations

from typing import Final

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.stamp import AUTH_BASE_BYTES, HMAC_BYTES, HMAC_OFFSET
from meshwatchd.wire.tlv import INTEGRITY_FAILED, MALFORMED, Scan, Span, TlvType

_SEQUENCE_BYTES: Final = 4


def sign_base(packet: bytearray, key: MacKey) -> None:
    """Write the tag of an authenticated base packet."""
    packet[HMAC_OFFSET:AUTH_BASE_BYTES] = key.tag(packet[:HMAC_OFFSET])


def sign_tlvs(packet: bytearray, tag: Span, key: MacKey, *, start: int) -> None:
    """Write the tag of the TLVs from `start` on and clear its flags; the packet already has its number."""
    packet[tag.offset] = 0
    packet[tag.value_offset : tag.end] = key.tag(packet[:_SEQUENCE_BYTES], packet[start : tag.offset])


def tlv_tag(found: Scan) -> Span | None:
    """The HMAC TLV, the first if there are several."""
    return next((span for span in found.spans if span.type == TlvType.HMAC), None)


def is_signature_needed(found: Scan, mode: StampMode) -> bool:
    """Whether TLVs without an HMAC TLV count as TLVs whose verification failed."""
    is_padding = len(found.spans) == 1 and found.spans[0].type == TlvType.EXTRA_PADDING and not found.is_malformed
    has_tlvs = bool(found.spans) or found.is_malformed
    return mode is StampMode.AUTHENTICATED and has_tlvs and not is_padding


def is_tlv_tag_valid(packet: bytes, found: Scan, tag: Span, key: MacKey, *, start: int) -> bool:
    """Whether the TLVs are what the holder of the key has sent, and the HMAC TLV is where it has to be."""
    behind = [span for span in found.spans if span.offset > tag.offset]
    is_last = all(span.type == TlvType.EXTRA_PADDING for span in behind) and not found.is_malformed
    # No sender sets these flags; somebody on the way has.
    is_touched = packet[tag.offset] & (MALFORMED | INTEGRITY_FAILED)
    if tag.length != HMAC_BYTES or not is_last or is_touched:
        return False
    return key.is_tag_of(packet[tag.value_offset : tag.end], packet[:_SEQUENCE_BYTES], packet[start : tag.offset])
