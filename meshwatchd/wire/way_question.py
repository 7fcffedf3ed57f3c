"""One node asks another whether it is reached on some way: a small datagram each way, signed as probes are.

    asker                                   asked
      --- ASK(nonce) ------------------------>
      <-- REACHED(nonce, source it saw) ------
      --- VOUCH(nonce, about a third) ------->   asks the third node directly and in the overlay
      <-- VOUCHED(nonce, what came of it) ----

Each has the shape of `signed_datagram`.

The key is one of the pair of nodes for this purpose alone. An answer is at most as long as its question, and none is
believed that was not asked for: it repeats the nonce. An ASK that is replayed is answered again, to no effect; a VOUCH
is not, since it has another node asked.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import MeshKeys, PairKey
from meshwatchd.wire.signed_datagram import LEAST_BYTES, Format, Rejection

MAGIC: Final = b"MWWQ"
VERSION: Final = 1
MAX_BYTES: Final = 9_000
"""A packet of the largest device that is common; what a question is padded to is the device's own size."""

_PADDING_BYTES: Final = 5
"""What MessagePack needs to say how long some bytes are, at most."""


class WayKind(IntEnum):
    """The four datagrams."""

    ASK = 1
    REACHED = 2
    VOUCH = 3
    VOUCHED = 4


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


_FORMAT: Final = Format("way question", magic=MAGIC, version=VERSION, most=MAX_BYTES, kind=WayKind, content=WayContent)


def encode(message: WayMessage, pair: PairKey, *, size: int = 0) -> bytes:
    """The datagram, signed for the node at the other end of the pair.

    Args:
        message: what it says.
        pair: its keys.
        size: bytes that it is padded to, give or take a few; 0 for as few as possible.
    """
    body = msgspec.msgpack.encode(message.content)
    missing = min(size, MAX_BYTES) - LEAST_BYTES - len(body) - len("padding") - _PADDING_BYTES
    if missing > 0:
        body = msgspec.msgpack.encode(msgspec.structs.replace(message.content, padding=bytes(missing)))
    return _FORMAT.seal(message.kind, message.nonce, sender=message.content.sender, body=body, pair=pair)


def find_pair(datagram: bytes, keys: MeshKeys) -> PairKey | Rejection:
    """The keys that a datagram claims to be signed with, of purpose `auth.Purpose.WAYS`."""
    return _FORMAT.find_pair(datagram, keys)


def decode(datagram: bytes, pair: PairKey) -> WayMessage | Rejection:
    """What a datagram says, or why it is none of the pair's; nothing is believed before the tag."""
    opened = _FORMAT.open(datagram, pair)
    if isinstance(opened, Rejection):
        return opened
    kind, nonce, content = opened
    return WayMessage(kind=kind, nonce=nonce, content=content)
