"""One node asks another to watch for its probes: four small datagrams, signed as their probes are.

    asker                                   asked
      --- BEGIN(nonce, ssid) ----------------->   opens its taps
      <-- READY(nonce) ------------------------
      === probes of that session ============>   counts what passes
      --- COLLECT(nonce) --------------------->
      <-- COUNTS(nonce, what passed) ----------   closes them

Each has the shape of `signed_datagram`.

The key is one of the pair of nodes for this purpose alone, with their own secret where both hold each other's identity:
then nobody asks in another node's name, or answers for it. An answer is signed with what its question was signed with.
A BEGIN that is replayed opens no taps again, but for one from before the asked daemon's start, which no packet notices.
Answers go by the nonce: none is believed that was not asked for.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from meshwatchd.model.bisection import PeerCounts
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import MeshKeys, PairKey
from meshwatchd.wire.signed_datagram import LEAST_BYTES, Format, Rejection

MAGIC: Final = b"MWTP"
VERSION: Final = 2
MAX_BYTES: Final = 1200
"""Crosses every tunnel in one piece."""


class TapKind(IntEnum):
    """The four datagrams of an exchange."""

    BEGIN = 1
    READY = 2
    COLLECT = 3
    COUNTS = 4


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


_FORMAT: Final = Format("tap request", magic=MAGIC, version=VERSION, most=MAX_BYTES, kind=TapKind, content=TapContent)


def encode(message: TapMessage, pair: PairKey) -> bytes:
    """The datagram, signed for the node at the other end of the pair."""
    body = msgspec.msgpack.encode(message.content)
    assert LEAST_BYTES + len(body) <= MAX_BYTES, "five series and two names are some 600 bytes"
    return _FORMAT.seal(message.kind, message.nonce, sender=message.content.sender, body=body, pair=pair)


def find_pair(datagram: bytes, keys: MeshKeys) -> PairKey | Rejection:
    """The keys that a datagram claims to be signed with, of purpose `auth.Purpose.TAPS`."""
    return _FORMAT.find_pair(datagram, keys)


def decode(datagram: bytes, pair: PairKey) -> TapMessage | Rejection:
    """What a datagram says, or why it is none of the pair's; nothing is believed before the tag."""
    opened = _FORMAT.open(datagram, pair)
    if isinstance(opened, Rejection):
        return opened
    kind, nonce, content = opened
    return TapMessage(kind=kind, nonce=nonce, content=content)
