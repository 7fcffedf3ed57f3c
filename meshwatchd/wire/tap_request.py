"""One node asks another to watch for its probes: four small datagrams, signed with a key of the whole mesh.

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
    6       1      key id of the secret it is signed with (see `auth`)
    7       1      reserved, zero
    8       8      nonce, chosen by the asker, repeated in each datagram of one exchange
    16      m      sender, target and content in MessagePack
    end-16  16     tag over all before (HMAC-SHA-256, truncated)

A BEGIN that is replayed opens no taps again, but for one from before the asked daemon's start, which no packet notices.
Answers go by the nonce: none is believed that was not asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from meshwatchd.model.bisection import PeerCounts
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import TAG_BYTES, KeyRole, MacKey, MeshSecret, check_secrets, derive_tap_key, key_id

MAGIC: Final = b"MWTP"
VERSION: Final = 1
MAX_BYTES: Final = 1200
"""Crosses every tunnel in one piece."""

_HEADER: Final = struct.Struct("> 4s B B B x Q")
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


class TapKeys:
    """The keys of these exchanges: one signs, all are believed.

    Args:
        secrets: one active and at most one receive-only.
    """

    def __init__(self, secrets: Sequence[MeshSecret]) -> None:
        """Raises ValueError when the secrets cannot be used together; the text names the remedy."""
        check_secrets(secrets)
        self._keys = {key_id(each.secret): MacKey(derive_tap_key(each.secret)) for each in secrets}
        self.signing_id = next(key_id(each.secret) for each in secrets if each.role is KeyRole.ACTIVE)

    def find(self, number: int) -> MacKey | None:
        """The key of that id."""
        return self._keys.get(number)


_DOOR: Final = Door("tap request", "a node with our key is of another version: meshwatchctl version on each")
_DECODER: Final = msgspec.msgpack.Decoder(TapContent)


def encode(message: TapMessage, keys: TapKeys) -> bytes:
    """The datagram."""
    key = keys.find(keys.signing_id)
    assert key is not None
    header = _HEADER.pack(MAGIC, VERSION, message.kind, keys.signing_id, message.nonce)
    text = header + msgspec.msgpack.encode(message.content)
    assert len(text) + TAG_BYTES <= MAX_BYTES, "five series and two names are some 600 bytes"
    return text + key.tag(text)


def decode(datagram: bytes, keys: TapKeys) -> TapMessage | TapRejection:
    """What a datagram says, or why it is none of ours; nothing is believed before the tag."""
    if not LEAST_BYTES <= len(datagram) <= MAX_BYTES:
        return TapRejection.WRONG_LENGTH
    magic, version, kind, number, nonce = _HEADER.unpack_from(datagram)
    if magic != MAGIC or version != VERSION:
        return TapRejection.NOT_OURS
    key = keys.find(number)
    if key is None:
        return TapRejection.UNKNOWN_KEY
    if not key.is_tag_of(datagram[-TAG_BYTES:], datagram[:-TAG_BYTES]):
        return TapRejection.BAD_TAG
    try:
        with _DOOR:
            content = _DECODER.decode(datagram[_HEADER.size : -TAG_BYTES])
            return TapMessage(kind=TapKind(kind), nonce=nonce, content=content)
    except DecodeError:
        return TapRejection.MALFORMED
