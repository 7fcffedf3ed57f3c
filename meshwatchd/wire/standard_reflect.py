"""The session-reflector for senders of other makers, by the letter of the RFCs, in two steps.

    read_request    base packet checked and read; the caller looks at its session and its limits
    answer_request  the answer, of exactly the request's length

An answer longer than its request would help whoever sends under a false address, so the one place where the
RFC asks for more is declined: RFC 8762 section 4.6 answers any short packet with 44 bytes. Shorter packets than the 41
bytes of a TWAMP reflector's answer get nothing.

A TWAMP sender pads its packets from byte 14 on to those 41 bytes or more, with random bytes or zeros (RFC 5357 section
4.1.2), where a STAMP sender has its SSID and 28 zeros. Bytes 16 to 43 that are not zero mean TWAMP: such a packet has
no SSID and no TLVs, and its answer is 41 bytes and as much of the padding as keeps the length (RFC 5357 section 4.2.1).
With zeros for padding both answers are the same bytes.

Source: RFC 8762 section 4.3; RFC 8972 sections 3, 4 and 4.8; RFC 5357 sections 4.1.2 and 4.2.1.
"""

from __future__ import annotations

from typing import Final

import msgspec

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.answer import STANDARD_ANSWERS, STATELESS_ANSWERS, Reflector, answer_tlvs
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.ntp import UNSYNCHRONIZED
from meshwatchd.wire.parse import RejectReason
from meshwatchd.wire.stamp import (
    AUTH_BASE_BYTES,
    AUTH_REFLECTOR,
    AUTH_SENDER,
    HMAC_OFFSET,
    NO_HMAC,
    OPEN_BASE_BYTES,
    OPEN_REFLECTOR,
    OPEN_SENDER,
    TWAMP_BYTES,
    base_bytes,
)
from meshwatchd.wire.standard_seal import is_signature_needed, is_tlv_tag_valid, sign_base, sign_tlvs, tlv_tag
from meshwatchd.wire.tlv import HEADER_BYTES, INTEGRITY_FAILED, Scan, scan

_TWAMP_PADDING: Final = 14
"""Offset of the padding in a TWAMP sender's packet."""
_ZEROS: Final = slice(16, OPEN_BASE_BYTES)
"""Zero in every packet of a STAMP sender in open mode (RFC 8972 section 3, figure 1)."""
_OPEN_ECHO: Final = 28
_AUTH_ECHO: Final = 64
"""Offset of the sender's timestamp in an answer."""
_NTP_BYTES: Final = 8
_OWN_LOOP: Final = 60 << 32
"""A minute of NTP time, far more than any packet is on its way."""
_UNSYNCHRONIZED_WORD: Final = UNSYNCHRONIZED.encode()


class StandardRequest(msgspec.Struct, frozen=True, gc=False):
    """The base packet of a request, verified if it is signed; constructed by position.

    Attributes:
        timestamp_ntp: when it was sent, 64-bit NTP format.
        error_estimate: the 16-bit field.
        ssid: 0 for none, as in every packet of a TWAMP sender.
        is_twamp: the bytes behind the error estimate are padding.
    """

    sequence: int
    timestamp_ntp: int
    error_estimate: int
    ssid: int
    is_twamp: bool = False


def read_request(data: bytes, *, mode: StampMode, key: MacKey | None = None) -> StandardRequest | RejectReason:
    """Read the base packet of a request; the authenticated mode needs a key. Never raises."""
    if mode is StampMode.OPEN:
        if len(data) < TWAMP_BYTES:
            return RejectReason.WRONG_LENGTH
        return _read_open(data)
    if len(data) < AUTH_BASE_BYTES:
        return RejectReason.WRONG_LENGTH
    sequence, timestamp, error, ssid, tag = AUTH_SENDER.unpack_from(data)
    if key is None or not key.is_tag_of(tag, data[:HMAC_OFFSET]):
        return RejectReason.BAD_BASE_TAG
    return StandardRequest(sequence, timestamp, error, ssid)


def _read_open(data: bytes) -> StandardRequest:
    sequence, timestamp, error, ssid = OPEN_SENDER.unpack_from(data[:OPEN_BASE_BYTES].ljust(OPEN_BASE_BYTES, b"\0"))
    if len(data) < OPEN_BASE_BYTES or any(data[_ZEROS]):
        return StandardRequest(sequence, timestamp, error, 0, is_twamp=True)
    return StandardRequest(sequence, timestamp, error, ssid)


def is_answer_to_us(data: bytes, *, mode: StampMode, now_ntp: int) -> bool:
    """Whether a packet repeats a time of our own clock where an answer repeats that of its request.

    Two reflectors would answer each other for ever after one packet under a false address. A sender's packet has zeros
    there (RFC 8762 section 4.2), or TWAMP Light's padding, which is no time of the last minute.
    """
    start = _OPEN_ECHO if mode is StampMode.OPEN else _AUTH_ECHO
    repeated = int.from_bytes(data[start : start + _NTP_BYTES], "big")
    return repeated != 0 and (now_ntp - repeated) % (1 << 64) <= _OWN_LOOP


def answer_request(
    data: bytes,
    request: StandardRequest,
    *,
    mode: StampMode,
    key: MacKey | None = None,
    reflector: Reflector,
    reflector_sequence: int | None,
    rx_ntp: int,
    tx_ntp: int,
    ttl: int = 0,
    error_estimate: int = _UNSYNCHRONIZED_WORD,
) -> bytes:
    """Answer what `read_request` has read.

    Args:
        data: the request's bytes.
        request: what was read of them.
        mode: of both packets.
        key: shared with the sender; in open mode it protects TLVs only, and may be missing.
        reflector: what the answers to TLVs draw on.
        reflector_sequence: this reflector's count of answers in the session; None for a stateless reflector,
            which repeats the sender's number.
        rx_ntp: when the request arrived, 64-bit NTP format.
        tx_ntp: when the answer is sent.
        ttl: TTL or hop limit with which the request arrived, 0 when unknown.
        error_estimate: of this node's clock, as a 16-bit field.
    """
    number = request.sequence if reflector_sequence is None else reflector_sequence
    fields = (
        number, tx_ntp, error_estimate, request.ssid, rx_ntp,
        request.sequence, request.timestamp_ntp, request.error_estimate, ttl,
    )  # fmt: skip
    if request.is_twamp:
        padding = data[_TWAMP_PADDING : _TWAMP_PADDING + len(data) - TWAMP_BYTES]
        return OPEN_REFLECTOR.pack(*fields)[:TWAMP_BYTES] + padding
    reply = bytearray(data)
    if mode is StampMode.OPEN:
        OPEN_REFLECTOR.pack_into(reply, 0, *fields)
    else:
        AUTH_REFLECTOR.pack_into(reply, 0, *fields, NO_HMAC)
    if key is not None and mode is StampMode.AUTHENTICATED:
        sign_base(reply, key)
    _answer_extensions(data, reply, mode=mode, key=key, reflector=reflector, is_stateful=reflector_sequence is not None)
    return bytes(reply)


def _answer_extensions(
    data: bytes, reply: bytearray, *, mode: StampMode, key: MacKey | None, reflector: Reflector, is_stateful: bool
) -> None:
    start = base_bytes(mode)
    found = scan(data, start)
    tag = tlv_tag(found)
    answers = STANDARD_ANSWERS if is_stateful else STATELESS_ANSWERS
    if tag is None:
        if is_signature_needed(found, mode):
            _mark_integrity_failed(reply, found)
        else:
            answer_tlvs(reply, start, len(reply), reflector=reflector, answers=answers)
    elif key is None or not is_tlv_tag_valid(data, found, tag, key, start=start):
        _mark_integrity_failed(reply, found)
    else:
        answer_tlvs(reply, start, tag.offset, reflector=reflector, answers=answers)
        answer_tlvs(reply, tag.end, len(reply), reflector=reflector, answers=answers)
        sign_tlvs(reply, tag, key, start=start)


def _mark_integrity_failed(reply: bytearray, found: Scan) -> None:
    """Set I in each TLV and return the rest as it came (RFC 8972 section 4.8)."""
    for span in found.spans:
        reply[span.offset] |= INTEGRITY_FAILED
    if found.is_malformed and found.rest + HEADER_BYTES <= len(reply):
        reply[found.rest] |= INTEGRITY_FAILED
