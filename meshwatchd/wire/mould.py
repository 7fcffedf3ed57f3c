"""Packets that differ in base packet and tags alone: cut up once, put together and signed for each of them.

Nearly all packets are of that kind, and each is signed twice, so how its parts come together is what they cost: one
`Struct` cuts digests to tags and lays everything in place, where slices would copy each part by itself.
"""

from __future__ import annotations

import functools
import struct
from typing import Final

from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.mesh_tlv import BASE_TAG_BYTES
from meshwatchd.wire.seal import BASE_TAG_END, BASE_TAG_OFFSET, MESH_OFFSET, SEQUENCE_BYTES
from meshwatchd.wire.stamp import HMAC_BYTES, HMAC_OFFSET
from meshwatchd.wire.tlv import HEADER_BYTES

_HEAD_BYTES: Final = BASE_TAG_OFFSET - MESH_OFFSET


class Mould:
    """A packet without its base packet and its tags.

    Args:
        packet: whose TLVs are taken over, the header of the HMAC TLV included; its tags do not matter.
    """

    __slots__ = ("_head", "_signed", "_tail", "_whole")

    def __init__(self, packet: bytes | bytearray) -> None:
        self._head = bytes(packet[MESH_OFFSET:BASE_TAG_OFFSET])
        self._tail = bytes(packet[BASE_TAG_END:-HMAC_BYTES])
        self._signed, self._whole = _layouts(len(self._tail))

    def cast(self, base: bytes, key: MacKey) -> bytes:
        """A packet with this base packet (without its tag: 96 bytes), signed as `seal.sign` does."""
        head, tail, digest = self._head, self._tail, key.digest
        tag = digest(base)
        return self._whole.pack(base, tag, head, tag, tail, digest(self._signed.pack(base, head, tag, tail)))


@functools.lru_cache(maxsize=1024)
def _layouts(tail_bytes: int) -> tuple[struct.Struct, struct.Struct]:
    """What is signed by the HMAC TLV, and the whole packet; what is longer than its place is cut off by `pack`."""
    middle = f"{_HEAD_BYTES}s {BASE_TAG_BYTES}s"
    signed = struct.Struct(f"{SEQUENCE_BYTES}s {middle} {tail_bytes - HEADER_BYTES}s")
    return signed, struct.Struct(f"{HMAC_OFFSET}s {HMAC_BYTES}s {middle} {tail_bytes}s {HMAC_BYTES}s")
