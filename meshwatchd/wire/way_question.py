"""One node asks another whether it is reached on some way: a small datagram each way, signed as probes are.

    asker                                   asked
      --- ASK(nonce) ------------------------>
      <-- REACHED(nonce, source it saw) ------
      --- VOUCH(nonce, about a third) ------->   asks the third node directly and in the overlay
      <-- VOUCHED(nonce, what came of it) ----

    offset  bytes  content, big endian
    0       4      magic
    4       1      version
    5       1      kind
    6       1      key id of what it is signed with (see `auth`)
    7       1      reserved, zero
    8       8      nonce, chosen by the asker, repeated in the answer
    16      8      id of the sender (`auth.node_id`)
    24      m      sender, target and content in MessagePack
    end-16  16     tag over all before (HMAC-SHA-256, truncated)

The key is one of the pair of nodes for this purpose alone. An answer is at most as long as its question, and none is
believed that was not asked for: it repeats the nonce. An ASK that is replayed is answered again, to no effect; a VOUCH
is not, since it has another node asked.
"""

from __future__ import annotations

import struct
from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import TAG_BYTES, MeshKeys, PairKey, node_id

MAGIC: Final = b"MWWQ"
VERSION: Final = 1
MAX_BYTES: Final = 9_000
"""A packet of the largest device that is common; what a question is padded to is the device's own size."""

_HEADER: Final = struct.Struct("> 4s B B B x Q Q")
LEAST_BYTES: Final = _HEADER.size + TAG_BYTES
_PADDING_BYTES: Final = 5
"""What MessagePack needs to say how long some bytes are, at most."""


class WayKind(IntEnum):
    """The four datagrams."""

    ASK = 1
    REACHED = 2
    VOUCH = 3
    VOUCHED = 4


class WayRejection(StrEnum):
    """Why a datagram is none of ours."""

    WRONG_LENGTH = "wrong-length"
    NOT_OURS = "not-ours"
    UNKNOWN_KEY = "unknown-key"
    BAD_TAG = "bad-tag"
    MALFORMED = "malformed"


class WayContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a datagram says beside its kind.

    Attributes:
        sender, target: names; a datagram for another node is refused.
        about: VOUCH: the node that is to be asked.
        seen: answers: the source address of the question.
        is_reached, is_willing: VOUCHED: as in `model.outer_reroute.WayAnswer`.
        padding: makes the datagram as long as it is to be.
    """

    sender: NodeName
    target: NodeName
    about: NodeName = NodeName("")
    seen: str = ""
    is_reached: bool = False
    is_willing: bool = False
    padding: bytes = b""


class WayMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One datagram."""

    kind: WayKind
    nonce: int
    content: WayContent


_DOOR: Final = Door("way question", "a node with our key is of another version: meshwatchctl version on each")
_DECODER: Final = msgspec.msgpack.Decoder(WayContent)


def encode(message: WayMessage, pair: PairKey, *, size: int = 0) -> bytes:
    """The datagram, signed for the node at the other end of the pair.

    Args:
        message: what it says.
        pair: its keys.
        size: bytes that it is padded to, give or take a few; 0 for as few as possible.
    """
    header = _HEADER.pack(MAGIC, VERSION, message.kind, pair.key_id, message.nonce, node_id(message.content.sender))
    body = msgspec.msgpack.encode(message.content)
    missing = min(size, MAX_BYTES) - len(header) - len(body) - TAG_BYTES - len("padding") - _PADDING_BYTES
    if missing > 0:
        body = msgspec.msgpack.encode(msgspec.structs.replace(message.content, padding=bytes(missing)))
    text = header + body
    return text + pair.send.tag(text)


def find_pair(datagram: bytes, keys: MeshKeys) -> PairKey | WayRejection:
    """The keys that a datagram claims to be signed with, of purpose `auth.Purpose.WAYS`."""
    if not LEAST_BYTES <= len(datagram) <= MAX_BYTES:
        return WayRejection.WRONG_LENGTH
    magic, version, _kind, number, _nonce, sender_id = _HEADER.unpack_from(datagram)
    if magic != MAGIC or version != VERSION:
        return WayRejection.NOT_OURS
    return keys.receiving(sender_id, number) or WayRejection.UNKNOWN_KEY


def decode(datagram: bytes, pair: PairKey) -> WayMessage | WayRejection:
    """What a datagram says, or why it is none of the pair's; nothing is believed before the tag."""
    if not pair.receive.is_tag_of(datagram[-TAG_BYTES:], datagram[:-TAG_BYTES]):
        return WayRejection.BAD_TAG
    _, _, kind, _, nonce, _ = _HEADER.unpack_from(datagram)
    try:
        with _DOOR:
            content = _DECODER.decode(datagram[_HEADER.size : -TAG_BYTES])
            message = WayMessage(kind=WayKind(kind), nonce=nonce, content=content)
    except DecodeError:
        return WayRejection.MALFORMED
    return message if content.sender == pair.peer else WayRejection.MALFORMED
