"""Short hellos: a node that is known says that it lives, and that nothing about it has changed.

    offset  bytes  content, big endian
    0       4      magic, another one than a hello's: a version that knows none drops them in its socket filter
    4       1      version
    5       1      key id of what it is signed with (see `auth`)
    6       8      id of the sender (`auth.node_id`)
    14      8      boot epoch of the sender
    22      8      counter of its hellos in this epoch, short ones included
    30      m      MessagePack array: counter of the first hello since which all have said the same of the sender, then
                   what differs from hello to hello; further elements are ignored
    end-16  16     tag over all before (HMAC-SHA-256, truncated)

The key is one of the pair of nodes for this purpose alone (`auth.Purpose.HELLOS`), never the mesh's: it proves the
sender as a signature would, in 16 bytes instead of 144, and that both hold each other's identity. A receiver that has
no hello with that counter or a later one asks for one (`membership.roster`).

A hello of 1 050 bytes says 850 of them each time; a short one has 60 to 170.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.node_report import NodeReport
from meshwatchd.wire.auth import TAG_BYTES, MeshKeys, PairKey, node_id
from meshwatchd.wire.hello import MAX_BYTES, Stamp

MAGIC: Final = b"MWHS"
VERSION: Final = 1

MAX_KNOWN: Final = 4
"""Addresses of other nodes in one short hello: what is at rest changes seldom, and each hello names others."""

_HEADER: Final = struct.Struct("> 4s B B Q Q Q")
_ADDRESS_BYTES: Final = 4
_PRESENT: Final = struct.Struct("> 4s B")
LEAST_BYTES: Final = _HEADER.size + TAG_BYTES + 1


class ShortHelloRejection(StrEnum):
    """Why a datagram is no short hello; the name is that of its counter."""

    WRONG_LENGTH = "hello-short-wrong-length"
    OTHER_VERSION = "hello-short-other-version"
    UNKNOWN_KEY = "hello-short-unknown-key"
    BAD_TAG = "hello-short-bad-tag"
    REPEATED = "hello-short-repeated"
    MALFORMED = "hello-short-malformed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortHello:
    """One datagram's content.

    Attributes:
        sender: the node's name.
        since: counter of the first of its hellos, in this epoch, since which its word is the same.
        seen, report: as in `hello.Greeting`.
        knows, present: likewise, IPv4 addresses alone.
    """

    sender: str
    stamp: Stamp
    since: int
    seen: str = ""
    report: NodeReport | None = None
    knows: tuple[str, ...] = ()
    present: Mapping[str, int] = field(default_factory=dict)


class _Body(msgspec.Struct, frozen=True, array_like=True):
    since: int
    report: NodeReport | None = None
    seen: str = ""
    knows: bytes = b""
    present: bytes = b""


_DOOR: Final = Door("short hello", "a node with our key is of another version: meshwatchctl version on each")
_DECODER: Final = msgspec.msgpack.Decoder(_Body)


def is_short(datagram: bytes) -> bool:
    """Whether a datagram begins like a short hello, and not like a whole one."""
    return datagram.startswith(MAGIC)


def encode(hello: ShortHello, pair: PairKey) -> bytes:
    """The datagram, signed for the node at the other end of the pair."""
    stamp = hello.stamp
    header = _HEADER.pack(MAGIC, VERSION, pair.key_id, node_id(hello.sender), stamp.epoch, stamp.counter)
    knows = b"".join(packed for each in hello.knows if (packed := _pack(each)))[: MAX_KNOWN * _ADDRESS_BYTES]
    body = _Body(hello.since, hello.report, hello.seen, knows, b"".join(_pack_present(hello.present)))
    text = header + msgspec.msgpack.encode(body)
    assert len(text) + TAG_BYTES <= MAX_BYTES, "a report has 240 letters at most, and 16 nodes are present"
    return text + pair.send.tag(text)


def decode(
    datagram: bytes, keys: MeshKeys, is_repeated: Callable[[str, Stamp, Stamp | None], bool]
) -> ShortHello | ShortHelloRejection:
    """What a datagram says, or why it is none of ours; nothing is believed before the tag.

    Args:
        datagram: from the wire.
        keys: of the pairs, for this purpose; only such as need both nodes' identities are accepted.
        is_repeated: whether a sender's hello has been heard: a replay costs no decoding.
    """
    if not LEAST_BYTES <= len(datagram) <= MAX_BYTES:
        return ShortHelloRejection.WRONG_LENGTH
    magic, version, number, sender_id, epoch, counter = _HEADER.unpack_from(datagram)
    if magic != MAGIC or version != VERSION:
        return ShortHelloRejection.OTHER_VERSION
    pair = keys.receiving(sender_id, number)
    if pair is None or not pair.is_bound:
        return ShortHelloRejection.UNKNOWN_KEY
    if not pair.receive.is_tag_of(datagram[-TAG_BYTES:], datagram[:-TAG_BYTES]):
        return ShortHelloRejection.BAD_TAG
    stamp = Stamp(epoch, counter)
    if is_repeated(pair.peer, stamp, None):
        return ShortHelloRejection.REPEATED
    try:
        with _DOOR:
            body = _DECODER.decode(datagram[_HEADER.size : -TAG_BYTES])
    except DecodeError:
        return ShortHelloRejection.MALFORMED
    if not epoch or not 0 < body.since < counter:
        return ShortHelloRejection.MALFORMED
    return ShortHello(
        sender=pair.peer,
        stamp=stamp,
        since=body.since,
        seen=body.seen,
        report=body.report,
        knows=tuple(_addresses(body.knows)),
        present=dict(_present(body.present)),
    )


def _pack(address: str) -> bytes:
    """4 bytes; none for what is no IPv4 address, which a short hello has no room for."""
    try:
        return ipaddress.IPv4Address(address).packed
    except ValueError:
        return b""


def _pack_present(present: Mapping[str, int]) -> Iterator[bytes]:
    for address, age_s in present.items():
        packed = _pack(address)
        if packed and 0 <= age_s <= 0xFF:
            yield _PRESENT.pack(packed, age_s)


def _addresses(packed: bytes) -> Iterable[str]:
    """The first few; what is cut off is none."""
    whole = range(0, min(len(packed) // _ADDRESS_BYTES, MAX_KNOWN) * _ADDRESS_BYTES, _ADDRESS_BYTES)
    return (str(ipaddress.IPv4Address(packed[first : first + _ADDRESS_BYTES])) for first in whole)


def _present(packed: bytes) -> Iterator[tuple[str, int]]:
    whole = len(packed) - len(packed) % _PRESENT.size
    for raw, age_s in _PRESENT.iter_unpack(packed[:whole]):
        yield str(ipaddress.IPv4Address(raw)), age_s
