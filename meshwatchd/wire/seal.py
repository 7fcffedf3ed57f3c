"""The outer shape of an authenticated mesh packet, and how it is signed.

    offset  bytes  content
    0       96     base packet (see `stamp`)
    96      16     tag over bytes 0..95                                         RFC 8762 section 4.4
    112     4      header of the mesh TLV, always the first
    116     54, 96 its value (see `mesh_tlv`); the first half of the tag above again at 144..151
            n      other TLVs
    end-20  4      header of the HMAC TLV, always the last
    end-16  16     tag over bytes 0..3 and 112..end-21                          RFC 8972 section 4.8

RFC 8972 lets Extra Padding follow the HMAC TLV, uncovered by it. Mesh packets put it before: then no bit of
a packet is unsigned but the flags of the HMAC TLV itself, and these are compared with the one value they
may have.
"""

from __future__ import annotations

import struct
from typing import Final

from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.mesh_tlv import BASE_TAG_BYTES, BRIEF_MESH_BYTES, ENTERPRISE, MESH_SIZES, MESH_VERSION
from meshwatchd.wire.stamp import AUTH_BASE_BYTES, HMAC_BYTES, HMAC_OFFSET
from meshwatchd.wire.tlv import HEADER, HEADER_BYTES, UNRECOGNIZED, TlvType

SEQUENCE_BYTES: Final = 4
MESH_OFFSET: Final = AUTH_BASE_BYTES
MESH_VALUE_OFFSET: Final = MESH_OFFSET + HEADER_BYTES
BASE_TAG_OFFSET: Final = MESH_VALUE_OFFSET + 28
BASE_TAG_END: Final = BASE_TAG_OFFSET + BASE_TAG_BYTES
HMAC_TLV_BYTES: Final = HEADER_BYTES + HMAC_BYTES
MIN_PACKET_BYTES: Final = MESH_VALUE_OFFSET + BRIEF_MESH_BYTES + HMAC_TLV_BYTES
MAX_PACKET_BYTES: Final = 65_507
"""The largest UDP payload over IPv4."""

REQUEST_HMAC_HEADER: Final = HEADER.pack(UNRECOGNIZED, TlvType.HMAC, HMAC_BYTES)
REPLY_HMAC_HEADER: Final = HEADER.pack(0, TlvType.HMAC, HMAC_BYTES)

_PEEK: Final = struct.Struct(">x B H I B B 14x Q")


def peek(packet: bytes | bytearray) -> tuple[int, int] | None:
    """Who claims to have signed this packet, and with which secret.

    Returns:
        (node id, key id), both unverified, to find the key for `verify_and_parse`; None when the packet is
        none of ours: too short, no mesh TLV in the first place, another version.
    """
    if not MIN_PACKET_BYTES <= len(packet) <= MAX_PACKET_BYTES:
        return None
    type_, length, enterprise, version, key_id, node_id = _PEEK.unpack_from(packet, MESH_OFFSET)
    if (type_, enterprise, version) != (TlvType.MESH, ENTERPRISE, MESH_VERSION) or length not in MESH_SIZES:
        return None
    return node_id, key_id


def mesh_end(packet: bytes | bytearray) -> int:
    """Where the mesh TLV of a packet that `peek` knows ends, and other TLVs begin."""
    return MESH_VALUE_OFFSET + int.from_bytes(packet[MESH_OFFSET + 2 : MESH_VALUE_OFFSET], "big")


def sign(packet: bytearray, key: MacKey) -> None:
    """Write both tags, and the copy of the first, into a packet that is otherwise complete."""
    end = len(packet)
    tag = key.tag(packet[:HMAC_OFFSET])
    packet[HMAC_OFFSET:AUTH_BASE_BYTES] = tag
    packet[BASE_TAG_OFFSET : BASE_TAG_OFFSET + BASE_TAG_BYTES] = tag[:BASE_TAG_BYTES]
    packet[end - HMAC_BYTES :] = key.tag(packet[:SEQUENCE_BYTES], packet[MESH_OFFSET : end - HMAC_TLV_BYTES])
