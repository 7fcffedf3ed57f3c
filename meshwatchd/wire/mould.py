"""Packets that differ in base packet and tags alone: cut up once, put together and signed for each of them.

Nearly all packets are of that kind, and each is signed twice, so how its parts come together is what they cost: one
`Struct` cuts digests to tags and lays everything in place, where slices would copy each part by itself. Those that
arrive are taken apart by the same `Struct`.
"""

from __future__ import annotations

import functools
import struct
from typing import Final

from meshwatchd.model.digest import compare_digest
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.mesh_tlv import BASE_TAG_BYTES
from meshwatchd.wire.seal import BASE_TAG_END, BASE_TAG_OFFSET, MESH_OFFSET, MIN_PACKET_BYTES, SEQUENCE_BYTES
from meshwatchd.wire.stamp import HMAC_BYTES, HMAC_OFFSET
from meshwatchd.wire.tlv import HEADER_BYTES

_HEAD_BYTES: Final = BASE_TAG_OFFSET - MESH_OFFSET
_TAIL_OFFSET: Final = BASE_TAG_END + HMAC_BYTES
"""Where the tail would begin if the last tag stood before it: what is left of a packet's length is the tail's."""

LONGEST_ALIKE_BYTES: Final = 512
"""Packets up to here are most of all, and alike. Size probes are neither."""

Pieces = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""Base packet without its tag (96 bytes), its tag (16), TLVs up to the tag's copy (32), that copy (8), what is left of
the TLVs with the header of the HMAC TLV, and the tag in that (16).

Packets of one signer of which third and fifth piece are equal say the same, but for what the base says: what the first
of them was found to be, the others are. That holds for pieces of a packet that was verified, and for no other."""


def cut(packet: bytes) -> Pieces | None:
    """The pieces of a packet; None for one that is too short to be ours or too long to be like another."""
    length = len(packet)
    if not MIN_PACKET_BYTES <= length <= LONGEST_ALIKE_BYTES:
        return None
    pieces: Pieces = _layouts(length - _TAIL_OFFSET)[1].unpack(packet)
    return pieces


def is_signed(pieces: Pieces, key: MacKey) -> bool:
    """Whether the tags of a packet are right; `parse.check_tags` says what is wrong with them."""
    base, base_tag, head, copy, tail, tlv_tag = pieces
    digest = key.digest
    return (
        compare_digest(digest(base)[:HMAC_BYTES], base_tag)
        and compare_digest(digest(_layouts(len(tail))[0].pack(base, head, copy, tail))[:HMAC_BYTES], tlv_tag)
        and base_tag.startswith(copy)
    )


class Mould:
    """A packet without its base packet and its tags.

    Args:
        packet: whose TLVs are taken over, the header of the HMAC TLV included; its tags do not matter.
    """

    __slots__ = ("_head", "_signed", "_tail", "_whole")

    def __init__(self, packet: bytes | bytearray) -> None:
        # Probes that measure sizes are long, and each is made once.
        keep = shared if len(packet) <= LONGEST_ALIKE_BYTES else _as_it_is
        self._head = keep(bytes(packet[MESH_OFFSET:BASE_TAG_OFFSET]))
        self._tail = keep(bytes(packet[BASE_TAG_END:-HMAC_BYTES]))
        self._signed, self._whole = _layouts(len(self._tail))

    def __len__(self) -> int:
        return self._whole.size

    def blank(self) -> bytearray:
        """The packet with zeros for base packet and tags, to be changed and made a mould of."""
        return bytearray(self._whole.pack(b"", b"", self._head, b"", self._tail, b""))

    def cast(self, base: bytes, key: MacKey) -> bytes:
        """A packet with this base packet (without its tag: 96 bytes), signed as `seal.sign` does."""
        head, tail, digest = self._head, self._tail, key.digest
        tag = digest(base)
        return self._whole.pack(base, tag, head, tag, tail, digest(self._signed.pack(base, head, tag, tail)))


def _as_it_is(piece: bytes) -> bytes:
    return piece


@functools.lru_cache(maxsize=1024)
def shared(piece: bytes) -> bytes:
    """The same bytes, once for all that keep them: sessions of one path, or to one node, differ in one piece only."""
    return piece


@functools.lru_cache(maxsize=1024)
def _layouts(tail_bytes: int) -> tuple[struct.Struct, struct.Struct]:
    """What is signed by the HMAC TLV, and the whole packet; what is longer than its place is cut off by `pack`."""
    middle = f"{_HEAD_BYTES}s {BASE_TAG_BYTES}s"
    signed = struct.Struct(f"{SEQUENCE_BYTES}s {middle} {tail_bytes - HEADER_BYTES}s")
    return signed, struct.Struct(f"{HMAC_OFFSET}s {HMAC_BYTES}s {middle} {tail_bytes}s {HMAC_BYTES}s")
