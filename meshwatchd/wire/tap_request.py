"""One node asks another to watch for its probes: four small datagrams, signed as their probes are.

    asker                                   asked
      --- BEGIN(nonce, ssid) ----------------->   opens its taps
      <-- READY(nonce) ------------------------
      === probes of that session ============>   counts what passes
      --- COLLECT(nonce) --------------------->
      <-- COUNTS(nonce, what passed) ----------   closes them

    offset  bytes  content, big endian
    0       4      magic
    4       1      version
    5       1      kind
    6       1      key id of what it is signed with (see `auth`)
    7       1      reserved, zero
    8       8      nonce, chosen by the asker, repeated in each datagram of one exchange
    16      8      id of the sender (`auth.node_id`)
    24      m      sender, target and content in MessagePack
    end-16  16     tag over all before (HMAC-SHA-256, truncated)

The key is one of the pair of nodes for this purpose alone, with their own secret where both hold each other's identity:
then nobody asks in another node's name, or answers for it. An answer is signed with what its question was signed with.
A BEGIN that is replayed opens no taps again, but for one from before the asked daemon's start, which no packet notices.
Answers go by the nonce: none is believed that was not asked for.
"""

from __future__ import annotations

import struct
from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from meshwatchd.model.bisection import PeerCounts
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import TAG_BYTES, MeshKeys, PairKey, node_id

MAGIC: Final = b"MWTP"
VERSION: Final = 2
MAX_BYTES: Final = 1200
"""Crosses every tunnel in one piece."""

_HEADER: Final = struct.Struct("> 4s B B B x Q Q")
LEAST_BYTES: Final = _HEADER.size + TAG_BYTES


class TapKind(IntEnum):
    """The four datagrams of an exchange."""

    BEGIN = 1
    READY = 2
    COLLECT = 3
    COUNTS = 4


class TapRejection(StrEnum):
    """Why a datagram is none of ours."""

    WRONG_LENGTH = "wrong-length"
    NOT_OURS = "not-ours"
    UNKNOWN_KEY = "unknown-key"
    BAD_TAG = "bad-tag"
    MALFORMED = "malformed"


class TapContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a datagram says beside its kind.

    Attributes:
        sender, target: names; a datagram for another node is refused.
        ssid: BEGIN: the session whose probes are to be counted.
        counts: COUNTS: what was seen of them.
    """

    sender: NodeName
    target: NodeName
    ssid: int = 0
    counts: tuple[PeerCounts, ...] = ()


class TapMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One datagram."""

    kind: TapKind
    nonce: int
    content: TapContent


_DOOR: Final = Door("tap request", "a node with our key is of another version: meshwatchctl version on each")
_DECODER: Final = msgspec.msgpack.Decoder(TapContent)


def encode(message: TapMessage, pair: PairKey) -> bytes:
    """The datagram, signed for the node at the other end of the pair."""
    header = _HEADER.pack(MAGIC, VERSION, message.kind, pair.key_id, message.nonce, node_id(message.content.sender))
    text = header + msgspec.msgpack.encode(message.content)
    assert len(text) + TAG_BYTES <= MAX_BYTES, "five series and two names are some 600 bytes"
    return text + pair.send.tag(text)


def find_pair(datagram: bytes, keys: MeshKeys) -> PairKey | TapRejection:
    """The keys that a datagram claims to be signed with, of purpose `auth.Purpose.TAPS`."""
    if not LEAST_BYTES <= len(datagram) <= MAX_BYTES:
        return TapRejection.WRONG_LENGTH
    magic, version, _kind, number, _nonce, sender_id = _HEADER.unpack_from(datagram)
    if magic != MAGIC or version != VERSION:
        return TapRejection.NOT_OURS
    return keys.receiving(sender_id, number) or TapRejection.UNKNOWN_KEY


def decode(datagram: bytes, pair: PairKey) -> TapMessage | TapRejection:
    """What a datagram says, or why it is none of the pair's; nothing is believed before the tag."""
    if not pair.receive.is_tag_of(datagram[-TAG_BYTES:], datagram[:-TAG_BYTES]):
        return TapRejection.BAD_TAG
    _, _, kind, _, nonce, _ = _HEADER.unpack_from(datagram)
    try:
        with _DOOR:
            content = _DECODER.decode(datagram[_HEADER.size : -TAG_BYTES])
            message = TapMessage(kind=TapKind(kind), nonce=nonce, content=content)
    except DecodeError:
        return TapRejection.MALFORMED
    return message if content.sender == pair.peer else TapRejection.MALFORMED
