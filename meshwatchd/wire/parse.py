"""From received bytes to a verified probe, or to the reason for which they count as garbage.

Anybody can send bytes here, so the order is: length, shape, version, claimed signer, and only then the two
tags; bytes of strangers cost no hashing. After the tags the packet is a peer's, and nothing here raises
even so.
"""

from __future__ import annotations

import functools
import struct
from enum import StrEnum
from typing import Final

import msgspec

from meshwatchd.model.digest import compare_digest
from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.auth import PairKey
from meshwatchd.wire.mesh_tlv import (
    BASE_TAG_BYTES,
    ENTERPRISE,
    FLAG_REPLY,
    MESH,
    MESH_SIZES,
    MESH_VERSION,
    Coordination,
    MeshFields,
    decode_coordination,
    decode_gossip,
)
from meshwatchd.wire.seal import (
    BASE_TAG_OFFSET,
    HMAC_TLV_BYTES,
    MAX_PACKET_BYTES,
    MESH_OFFSET,
    MESH_VALUE_OFFSET,
    MIN_PACKET_BYTES,
    REPLY_HMAC_HEADER,
    REQUEST_HMAC_HEADER,
    SEQUENCE_BYTES,
)
from meshwatchd.wire.stamp import AUTH_BASE_BYTES, HMAC_BYTES, HMAC_OFFSET
from meshwatchd.wire.standard_tlv import ADDRESS_BYTES
from meshwatchd.wire.tlv import HEADER, HEADER_BYTES, MALFORMED, UNRECOGNIZED, TlvType

_TAG_GAP: Final = BASE_TAG_OFFSET - AUTH_BASE_BYTES
_BASE_TAGS: Final = struct.Struct(f">{HMAC_OFFSET}s {HMAC_BYTES}s {_TAG_GAP}x {BASE_TAG_BYTES}s")
"""The base packet, its tag, and the first half of that tag in the mesh TLV."""

# The reflector's authenticated base packet, its tag, the mesh TLV's header and value: one unpack for all. A
# sender's packet is the same with zeros where the reflector would answer.
_HEAD: Final = struct.Struct(
    ">I 12x Q HH 4x Q 8x I 12x Q H 6x B 15x 16x"  # base
    "x B H"  # header of the mesh TLV
    "I BBH Q BBH Q 8x II"  # its value, but for the gossip entries
)
_GOSSIP_OFFSET: Final = MESH_VALUE_OFFSET + MESH.size
_MESH_TYPE: Final = int(TlvType.MESH)
_ADDRESS_TYPE: Final = int(TlvType.DESTINATION_NODE_ADDRESS)
_COORDINATION_TYPE: Final = int(TlvType.COORDINATION)
_HMAC_TYPE: Final = int(TlvType.HMAC)


LONGEST_KEPT_BYTES: Final = 512
"""Packets up to here are most of all, and alike: how their extensions read is kept. Size probes are neither."""


class RejectReason(StrEnum):
    """Why a packet is dropped; the label of a counter.

    The last two are decided by the receiver, which knows the peers and their `replay.ReplayGuard`.
    """

    WRONG_LENGTH = "wrong-length"
    NOT_MESH = "not-mesh"
    WRONG_VERSION = "wrong-version"
    WRONG_KEY_ID = "wrong-key-id"
    WRONG_SENDER = "wrong-sender"
    BAD_BASE_TAG = "bad-base-tag"
    BAD_TLV_TAG = "bad-tlv-tag"
    SPLICED = "spliced"
    MALFORMED_TLV = "malformed-tlv"


class ParsedProbe(msgspec.Struct, frozen=True, gc=False):
    """A verified packet; constructed by position because one is made for each packet received.

    Attributes:
        is_reply: a reflector made it. The fields from `receive_ntp` to `sender_ttl` mean nothing in requests.
        sequence: of whoever sent this packet: sender's number in a request, reflector's own count in an
            answer.
        timestamp_ntp: when this packet was sent, by its sender's clock.
        error_estimate: the 16-bit field (see `ntp.ErrorEstimate`).
        receive_ntp: when the reflector received the request.
        sender_sequence, sender_timestamp_ntp: as in the request; together they prove that the answer is
            fresh.
        destination: packed address (4 or 16 bytes) of the node the request was meant for.
        is_destination_refused: the answering reflector says that `destination` is none of its addresses.
        has_questions: it carries other TLVs than destination and coordination, to which an answer needs more than the
            packet itself.
    """

    is_reply: bool
    sequence: int
    timestamp_ntp: int
    error_estimate: int
    ssid: int
    receive_ntp: int
    sender_sequence: int
    sender_timestamp_ntp: int
    sender_error_estimate: int
    sender_ttl: int
    mesh: MeshFields
    destination: bytes | None
    is_destination_refused: bool
    coordination: Coordination | None
    has_questions: bool = False


class _Extensions(msgspec.Struct, frozen=True):
    """What the TLVs between the mesh TLV and the HMAC TLV say."""

    destination: bytes | None
    is_destination_refused: bool
    coordination: Coordination | None
    has_questions: bool


def verify_and_parse(packet: bytes | bytearray, key: PairKey) -> ParsedProbe | RejectReason:
    """Check a packet against the key it claims (see `seal.peek`) and read it; never raises.

    An answer of an RFC 8972 reflector with the I flag set cannot occur: mesh reflectors drop what does not
    verify.
    """
    length = len(packet)
    if not MIN_PACKET_BYTES <= length <= MAX_PACKET_BYTES:
        return RejectReason.WRONG_LENGTH
    (
        sequence, timestamp, error, ssid, received,
        sender_sequence, sender_timestamp, sender_error, ttl,
        type_, size,
        enterprise, version, key_id, flags, epoch, layer, diagnostic, path, node_id,
        heard, known,
    ) = _HEAD.unpack_from(packet)  # fmt: skip
    if type_ != _MESH_TYPE or size not in MESH_SIZES or enterprise != ENTERPRISE:
        return RejectReason.NOT_MESH
    if version != MESH_VERSION:
        return RejectReason.WRONG_VERSION
    if key_id != key.key_id:
        return RejectReason.WRONG_KEY_ID
    if node_id != key.peer_id:
        return RejectReason.WRONG_SENDER
    is_reply = flags & FLAG_REPLY != 0
    hmac_offset = length - HMAC_TLV_BYTES
    if packet[hmac_offset : length - HMAC_BYTES] != (REPLY_HMAC_HEADER if is_reply else REQUEST_HMAC_HEADER):
        return RejectReason.NOT_MESH
    reason = check_tags(packet, key)
    if reason is not None:
        return reason
    mesh_end = MESH_VALUE_OFFSET + size
    if mesh_end > hmac_offset:
        return RejectReason.NOT_MESH
    gossip, area = bytes(packet[_GOSSIP_OFFSET:mesh_end]), bytes(packet[mesh_end:hmac_offset])
    extensions = _read_extensions(area) if length <= LONGEST_KEPT_BYTES else _read_extensions.__wrapped__(area)
    if extensions is None:
        return RejectReason.MALFORMED_TLV
    return ParsedProbe(
        is_reply, sequence, timestamp, error, ssid, received,
        sender_sequence, sender_timestamp, sender_error, ttl,
        MeshFields(
            key_id, flags, epoch, layer, diagnostic, path, node_id, heard, known, decode_gossip(gossip), gossip[1]
        ),
        extensions.destination, is_reply and extensions.is_destination_refused, extensions.coordination,
        extensions.has_questions,
    )  # fmt: skip


def check_tags(packet: bytes | bytearray, key: PairKey) -> RejectReason | None:
    """Verify the tags of a packet that is otherwise known to be this peer's; None when they are right."""
    digest = key.receive.digest
    base, base_tag, copy = _BASE_TAGS.unpack_from(packet)
    if not compare_digest(digest(base)[:HMAC_BYTES], base_tag):
        return RejectReason.BAD_BASE_TAG
    tlv_tag = digest(packet[:SEQUENCE_BYTES] + packet[MESH_OFFSET:-HMAC_TLV_BYTES])[:HMAC_BYTES]
    if not compare_digest(tlv_tag, packet[-HMAC_BYTES:]):
        return RejectReason.BAD_TLV_TAG
    if not base_tag.startswith(copy):
        return RejectReason.SPLICED
    return None


# All probes of a session carry the same ones, but for the few that carry a message.
@functools.lru_cache(maxsize=1024)
def _read_extensions(area: bytes) -> _Extensions | None:
    """Read the signed TLVs; None when their lengths do not add up.

    A value of the wrong length is skipped here and answered with the M flag by the reflector; in an answer,
    M ends the reading (RFC 8972 section 4).
    """
    destination, is_refused, coordination, has_questions = None, False, None, False
    offset, end = 0, len(area)
    while offset + HEADER_BYTES <= end:
        flags, type_, length = HEADER.unpack_from(area, offset)
        value_end = offset + HEADER_BYTES + length
        if value_end > end or type_ == _HMAC_TYPE:
            return None
        if flags & MALFORMED:
            offset = end
            break
        if type_ == _ADDRESS_TYPE and length in ADDRESS_BYTES:
            destination = area[offset + HEADER_BYTES : value_end]
            is_refused = flags & UNRECOGNIZED != 0
        elif type_ == _COORDINATION_TYPE:
            coordination = _coordination(area[offset + HEADER_BYTES : value_end])
        else:
            has_questions = True
        offset = value_end
    return _Extensions(destination, is_refused, coordination, has_questions) if offset == end else None


def _coordination(value: bytes) -> Coordination | None:
    try:
        return decode_coordination(value)
    except DecodeError:
        return None
