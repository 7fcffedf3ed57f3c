"""Type-length-value extensions of STAMP packets, as a frame: flags, type, length, opaque value.

What the values mean is in `standard_tlv` (the RFCs') and `mesh_tlv` (ours). Layout, network byte order:

    offset  bytes  field
    0       1      flags: U (0x80) unrecognized, M (0x40) malformed, I (0x20) integrity failed, others zero
    1       1      type
    2       2      length of the value in bytes
    4       n      value

A session-sender transmits U=1, M=0, I=0; a reflector that understood the TLV clears U in its answer, so that
an answer from a reflector without any TLV support is told apart from an answer of one with it.

Source: RFC 8972 section 4, registries in section 5.1 and 5.2; RFC 9503 sections 3 and 4 for types 9 and 10.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from meshwatchd.model.errors import DecodeError

UNRECOGNIZED: Final = 0x80
MALFORMED: Final = 0x40
INTEGRITY_FAILED: Final = 0x20

HEADER: Final = struct.Struct(">BBH")
HEADER_BYTES: Final = HEADER.size
MAX_TLVS: Final = 32
"""In one packet: all types there are, three times over. Answering one costs microseconds; there is room for 16 000."""


class TlvType(IntEnum):
    """Types this implementation knows by name; 240-251 are experimental, 252-254 private."""

    RESERVED = 0
    EXTRA_PADDING = 1
    LOCATION = 2
    TIMESTAMP_INFORMATION = 3
    CLASS_OF_SERVICE = 4
    DIRECT_MEASUREMENT = 5
    ACCESS_REPORT = 6
    FOLLOW_UP_TELEMETRY = 7
    HMAC = 8
    DESTINATION_NODE_ADDRESS = 9
    RETURN_PATH = 10
    MESH = 252
    COORDINATION = 253


class Tlv(msgspec.Struct, frozen=True, kw_only=True):
    """One TLV whose value is not interpreted.

    Attributes:
        type: 0..255; one of `TlvType` or a type this implementation only carries.
        value: at most 65 535 bytes.
        flags: as on the wire; the default is what a session-sender must send.
    """

    type: int
    value: bytes
    flags: int = UNRECOGNIZED

    def encode(self) -> bytes:
        """The header and the value."""
        return HEADER.pack(self.flags, self.type, len(self.value)) + self.value


class Span(NamedTuple):
    """Where one well-framed TLV lies in a packet."""

    offset: int
    """Of the header, from the start of the packet."""
    type: int
    length: int
    """Of the value, in bytes."""

    @property
    def value_offset(self) -> int:
        """Of the first byte of the value."""
        return self.offset + HEADER_BYTES

    @property
    def end(self) -> int:
        """Of the first byte behind this TLV."""
        return self.offset + HEADER_BYTES + self.length


class Scan(NamedTuple):
    """The frame of an extension area.

    Attributes:
        spans: the well-framed TLVs in wire order.
        rest: offset where framing ended: the end of the area, trailing zero padding, a malformed TLV or one too many.
        is_malformed: the bytes at `rest` claim to be a TLV and are none, or follow MAX_TLVS others.
    """

    spans: list[Span]
    rest: int
    is_malformed: bool


def scan(packet: bytes | bytearray, start: int, end: int | None = None, *, most: int = MAX_TLVS) -> Scan:
    """Find the TLVs of packet[start:end] without looking into them; never raises, whatever the bytes are.

    An all-zero remainder is the packet padding of a TWAMP Light sender, not a TLV of the reserved type 0
    (RFC 8762 section 4.6).

    Args:
        packet: whose bytes from `start` to `end` are TLVs.
        start: offset of the first header.
        end: offset behind the last value, that of the packet when not given.
        most: how many TLVs are followed.
    """
    limit = len(packet) if end is None else end
    spans: list[Span] = []
    offset, padding = start, -1
    while offset + HEADER_BYTES <= limit and len(spans) < most:
        _flags, type_, length = HEADER.unpack_from(packet, offset)
        if type_ == TlvType.RESERVED:
            # Looked for once: a long row of TLVs of type 0 would be searched to its end for each of them.
            padding = _zeros_from(packet, start, limit) if padding < 0 else padding
            if offset >= padding:
                return Scan(spans, offset, is_malformed=False)
        if offset + HEADER_BYTES + length > limit:
            return Scan(spans, offset, is_malformed=True)
        spans.append(Span(offset, type_, length))
        offset += HEADER_BYTES + length
    return Scan(spans, offset, is_malformed=offset < limit and offset < _zeros_from(packet, start, limit))


def _zeros_from(packet: bytes | bytearray, start: int, limit: int) -> int:
    """Where the zeros at the end of packet[start:limit] begin."""
    return start + len(packet[start:limit].rstrip(b"\0"))


def decode_tlvs(packet: bytes | bytearray, start: int = 0) -> tuple[Tlv, ...]:
    """Read the extension area that begins at `start` and ends with the packet.

    Trailing zero padding is dropped: it carries nothing.

    Raises:
        DecodeError: a TLV is cut short, or there are too many.
    """
    found = scan(packet, start)
    if found.is_malformed:
        raise DecodeError("stamp", f"TLV at byte {found.rest} is cut short or one too many")
    return tuple(
        Tlv(type=span.type, value=bytes(packet[span.value_offset : span.end]), flags=packet[span.offset])
        for span in found.spans
    )


def encode_tlvs(tlvs: Iterable[Tlv]) -> bytes:
    """The TLVs one behind the other; STAMP knows no alignment between them."""
    return b"".join(tlv.encode() for tlv in tlvs)
