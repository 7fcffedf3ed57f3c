"""The two private TLVs: what a node says of itself in each probe, and the words by which two relays agree.

Both begin with an enterprise number, as RFC 8972 section 4 demands of types 252 to 254. Unused bytes are zero, all
fields are in network byte order. Offsets are from the start of the value.

Type 252, mesh, 54 or 96 bytes, with room for one gossip entry or for eight:

    offset  bytes  field
    0       4      enterprise number
    4       1      version
    5       1      key id of the secret both tags were made with
    6       2      flags, FLAG_*
    8       8      boot epoch of the node that sent this packet
    16      1      layer id (model.ids.Layer)
    17      1      diagnostic (RFC 5880 section 4.1); always 0 of this version
    18      2      path number
    20      8      node id of the node that sent this packet
    28      8      the first 8 bytes of the base packet's HMAC
    36      4      bitmap "heard": bit i = the sender hears entry i of its table of peers and layers
    40      4      bitmap "known": bit i = entry i exists; not known and not heard is no statement
    44      1      count of gossip entries, 0..8
    45      1      0, or one more than the place of the six pairs that bitmaps and entries are about
    46      1      bit i = the sender has seen that something is wrong with the pair of gossip entry i
    47      1      reserved
    48      6, 48  gossip entries of 6 bytes: pair (1), active rank (1), fingerprint of the pair's relays
                   (1, 0 = none), generation (3)

Whoever has more than one entry to send, or does not know yet that its peer reads the shorter one (FLAG_BRIEF), sends
the longer one. An answer is as long as its request.

The tag at offset 28 ties the TLVs to their base packet. STAMP signs the two separately and the signature of
the TLVs covers only the sequence number of the base, so without it a base and TLVs of two packets with
equal numbers, say of two sessions, could be joined into a third packet that verifies.

Type 253, coordination, 32 bytes:

    offset  bytes  field
    0       4      enterprise number
    4       1      kind: 1 propose, 2 grant, 3 refuse, 4 commit, 5 revert, 6 notice
    5       1      reason code
    6       1      pair index
    7       1      rank
    8       4      fingerprint of the pair's relays (1, 0 = none), generation (3)
    12      8      nonce
    20      2      evidence: log-likelihood in hundredths, saturated
    22      2      reserved
    24      8      node id of the addressee
"""

from __future__ import annotations

import functools
import struct
from enum import IntEnum
from typing import Final

import msgspec

from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.tlv import Tlv, TlvType

ENTERPRISE: Final = 32473
"""Owner of the private types. 32473 is the number of nobody (RFC 5612): the project has none registered."""

MESH_VERSION: Final = 1

FLAG_ADMIN_DOWN: Final = 0x0001
"""The sending node is drained on purpose; silence from it is no fault."""
FLAG_CONFIRM_BURST: Final = 0x0002
FLAG_FRESH: Final = 0x0004
"""The flow was never used before; clear means the pinned control flow."""
FLAG_EFFECTIVE: Final = 0x0008
"""The probe follows whatever real traffic follows instead of a chosen path."""
FLAG_REPLY: Final = 0x0010
"""A reflector made this packet; STAMP itself does not say."""
FLAG_SIZE: Final = 0x0020
"""The probe measures what size the path carries; how long it is is what it says."""
FLAG_FRAGMENTS: Final = 0x0040
"""The answer may be fragmented, as the probe was; that of every other probe has DF set."""
FLAG_MISFIT: Final = 0x0080
"""The sending node's verdict on itself: a device has a greater MTU than what is below it carries."""

FLAG_BRIEF: Final = 0x0100
"""The sending node reads a mesh TLV of 54 bytes; those before it drop it."""

SESSION_FLAGS: Final = FLAG_CONFIRM_BURST | FLAG_FRESH | FLAG_EFFECTIVE | FLAG_SIZE | FLAG_FRAGMENTS
"""Flags that describe the probe; a reflector repeats them. The others describe the sender of a packet."""
NODE_FLAGS: Final = FLAG_ADMIN_DOWN | FLAG_MISFIT | FLAG_BRIEF

BASE_TAG_BYTES: Final = 8
MAX_GOSSIP: Final = 8

MESH: Final = struct.Struct(">I BBH Q BBH Q 8s II")
"""All fields in front of the count of gossip entries."""
_GOSSIP_ENTRY: Final = struct.Struct(">BBI")
_GOSSIP_HEAD_BYTES: Final = 4
_ALARMS_PLACE: Final = 2
GOSSIP_BLOCK_BYTES: Final = _GOSSIP_HEAD_BYTES + MAX_GOSSIP * _GOSSIP_ENTRY.size
"""Count, window, alarms, the reserved byte and the area of eight entries."""
BRIEF_BLOCK_BYTES: Final = _GOSSIP_HEAD_BYTES + _GOSSIP_ENTRY.size
MESH_BYTES: Final = MESH.size + GOSSIP_BLOCK_BYTES
BRIEF_MESH_BYTES: Final = MESH.size + BRIEF_BLOCK_BYTES
MESH_SIZES: Final = frozenset({BRIEF_MESH_BYTES, MESH_BYTES})

COORDINATION: Final = struct.Struct(">I BBBB I Q H 2x Q")
COORDINATION_BYTES: Final = COORDINATION.size


class CoordinationKind(IntEnum):
    """The words of an agreement between the two relays of a path."""

    PROPOSE = 1
    GRANT = 2
    REFUSE = 3
    COMMIT = 4
    REVERT = 5
    NOTICE = 6


class GossipEntry(msgspec.Struct, frozen=True, gc=False):
    """The path a pair of locations uses, as the sender knows it; the higher generation is the newer."""

    pair: int
    rank: int
    generation: int
    is_alarmed: bool = False


class MeshFields(msgspec.Struct, frozen=True, gc=False):
    """A decoded mesh TLV; constructed by position because one is made for each packet received."""

    key_id: int
    flags: int
    epoch: int
    layer: int
    diagnostic: int
    path: int
    node_id: int
    heard: int
    known: int
    gossip: tuple[GossipEntry, ...]
    window: int = 0


class Coordination(msgspec.Struct, frozen=True, kw_only=True):
    """One coordination message.

    Attributes:
        reason: a code whose meaning belongs to the core.
        generation: of the decision; counts up for each decision on the pair.
        nonce: ties an answer to its question.
        evidence_hundredths: log-likelihood of the fault, saturated.
        target_node_id: whom it is for; relays pass others' messages on.
    """

    kind: CoordinationKind
    reason: int = 0
    pair: int
    rank: int
    generation: int
    nonce: int
    evidence_hundredths: int = 0
    target_node_id: int

    def to_tlv(self) -> Tlv:
        """As sent."""
        value = COORDINATION.pack(
            ENTERPRISE,
            self.kind,
            self.reason,
            self.pair,
            self.rank,
            self.generation,
            self.nonce,
            self.evidence_hundredths,
            self.target_node_id,
        )
        return Tlv(type=TlvType.COORDINATION, value=value)


@functools.lru_cache(maxsize=64)
def encode_gossip(entries: tuple[GossipEntry, ...], window: int = 0) -> bytes:
    """The 10 or 52 bytes from the count to the end of the mesh TLV; at most 8 entries, `window` below 256."""
    assert len(entries) <= MAX_GOSSIP
    room = BRIEF_BLOCK_BYTES if len(entries) <= 1 else GOSSIP_BLOCK_BYTES
    area = b"".join(_GOSSIP_ENTRY.pack(entry.pair, entry.rank, entry.generation) for entry in entries)
    alarms = sum(entry.is_alarmed << place for place, entry in enumerate(entries))
    return (bytes((len(entries), window, alarms, 0)) + area).ljust(room, b"\0")


@functools.lru_cache(maxsize=64)
def fit_gossip(block: bytes, room: int) -> bytes:
    """The same entries in a block of 10 or 52 bytes; into the former goes the first of them."""
    if len(block) <= room:
        return block.ljust(room, b"\0")
    return bytes((min(block[0], 1), block[1], block[_ALARMS_PLACE] & 1, 0)) + block[_GOSSIP_HEAD_BYTES:room]


# Gossip changes when a path is switched, which is rare, and is read from each packet, which is often.
@functools.lru_cache(maxsize=1024)
def decode_gossip(block: bytes) -> tuple[GossipEntry, ...]:
    """Read the bytes that `encode_gossip` wrote; no entry is behind their end, whatever the count says."""
    count = min(block[0], (len(block) - _GOSSIP_HEAD_BYTES) // _GOSSIP_ENTRY.size)
    area = block[_GOSSIP_HEAD_BYTES : _GOSSIP_HEAD_BYTES + count * _GOSSIP_ENTRY.size]
    alarms = block[_ALARMS_PLACE]
    return tuple(
        GossipEntry(pair, rank, generation, bool(alarms >> place & 1))
        for place, (pair, rank, generation) in enumerate(_GOSSIP_ENTRY.iter_unpack(area))
    )


EMPTY_GOSSIP: Final = encode_gossip(())


def decode_coordination(value: bytes) -> Coordination:
    """Read the value of a coordination TLV.

    Raises:
        DecodeError: not 32 bytes, another enterprise, or a kind this version does not know.
    """
    if len(value) != COORDINATION_BYTES:
        raise DecodeError("coordination", f"{len(value)} bytes instead of {COORDINATION_BYTES}")
    enterprise, kind, reason, pair, rank, generation, nonce, evidence, target = COORDINATION.unpack(value)
    if enterprise != ENTERPRISE or kind not in _KINDS:
        raise DecodeError("coordination", f"kind {kind} of enterprise {enterprise}")
    return Coordination(
        kind=_KINDS[kind],
        reason=reason,
        pair=pair,
        rank=rank,
        generation=generation,
        nonce=nonce,
        evidence_hundredths=evidence,
        target_node_id=target,
    )


_KINDS: Final = {int(kind): kind for kind in CoordinationKind}


class OwnState(msgspec.Struct, frozen=True, kw_only=True):
    """What this node says of itself in each packet, request and answer alike.

    Attributes:
        node_id: see `auth.node_id`.
        epoch: drawn at start, larger than that of any earlier start where the clock allows.
        flags: any of NODE_FLAGS.
        heard, known: 32-bit bitmaps over this node's table of peers and layers.
        gossip_block: see `encode_gossip`.
    """

    node_id: int
    epoch: int
    flags: int = 0
    heard: int = 0
    known: int = 0
    gossip_block: bytes = EMPTY_GOSSIP
