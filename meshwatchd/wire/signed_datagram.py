"""The shape that small datagrams between two nodes have in common: a header, some MessagePack, and a tag over both.

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
"""

from __future__ import annotations

import struct
from enum import IntEnum, StrEnum
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import TAG_BYTES, MeshKeys, PairKey, node_id

HEADER: Final = struct.Struct("> 4s B B B x Q Q")
LEAST_BYTES: Final = HEADER.size + TAG_BYTES


class Content(Protocol):
    """What every datagram says."""

    @property
    def sender(self) -> NodeName:
        """The node that signs it."""


KindT = TypeVar("KindT", bound=IntEnum)
ContentT = TypeVar("ContentT", bound=Content)


class Rejection(StrEnum):
    """Why a datagram is none of ours."""

    WRONG_LENGTH = "wrong-length"
    NOT_OURS = "not-ours"
    UNKNOWN_KEY = "unknown-key"
    BAD_TAG = "bad-tag"
    MALFORMED = "malformed"


class Format(Generic[KindT, ContentT]):
    """One protocol of such datagrams.

    Args:
        what: it is called, for errors.
        magic: its first four bytes.
        version: of the protocol.
        most: bytes that a datagram may have.
        kind, content: types of what follows the header's first part, and of what is in MessagePack.
    """

    def __init__(
        self, what: str, *, magic: bytes, version: int, most: int, kind: type[KindT], content: type[ContentT]
    ) -> None:
        self._magic, self._version, self._most = magic, version, most
        self._kind = kind
        self._door: Final = Door(what, "a node with our key is of another version: meshwatchctl version on each")
        self._decoder = msgspec.msgpack.Decoder(content)

    def seal(self, kind: KindT, nonce: int, *, sender: NodeName, body: bytes, pair: PairKey) -> bytes:
        """A datagram with this body, signed for the node at the other end of the pair."""
        text = HEADER.pack(self._magic, self._version, kind, pair.key_id, nonce, node_id(sender)) + body
        return text + pair.send.tag(text)

    def find_pair(self, datagram: bytes, keys: MeshKeys) -> PairKey | Rejection:
        """The keys that a datagram claims to be signed with."""
        if not LEAST_BYTES <= len(datagram) <= self._most:
            return Rejection.WRONG_LENGTH
        magic, version, _kind, number, _nonce, sender_id = HEADER.unpack_from(datagram)
        if magic != self._magic or version != self._version:
            return Rejection.NOT_OURS
        return keys.receiving(sender_id, number) or Rejection.UNKNOWN_KEY

    def open(self, datagram: bytes, pair: PairKey) -> tuple[KindT, int, ContentT] | Rejection:
        """Kind, nonce and content, or why it is none of the pair's; nothing is believed before the tag."""
        if not pair.receive.is_tag_of(datagram[-TAG_BYTES:], datagram[:-TAG_BYTES]):
            return Rejection.BAD_TAG
        _, _, kind, _, nonce, _ = HEADER.unpack_from(datagram)
        try:
            with self._door:
                content = self._decoder.decode(datagram[HEADER.size : -TAG_BYTES])
                known = self._kind(kind)
        except DecodeError:
            return Rejection.MALFORMED
        return (known, nonce, content) if content.sender == pair.peer else Rejection.MALFORMED
