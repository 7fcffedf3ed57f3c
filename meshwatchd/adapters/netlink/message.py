"""Netlink datagrams taken apart: messages, and the attributes inside a message.

offset  bytes  struct nlmsghdr (linux/netlink.h), host byte order
0       4      length with this header
4       2      type
6       2      flags
8       4      sequence number
12      4      port id
16      n      body, padded to 4 bytes
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from meshwatchd.model.decoding import Door, refusals
from meshwatchd.model.errors import DecodeError

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RTM_DELNEXTHOP = 105
"""linux/rtnetlink.h."""

DELETIONS: Final = frozenset((RTM_DELLINK, RTM_DELADDR, RTM_DELROUTE, RTM_DELNEIGH, RTM_DELRULE))

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP_INTR, NLM_F_DUMP = 0x1, 0x4, 0x10, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800
"""linux/netlink.h; REPLACE and APPEND come with notifications about routes."""

HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_ERROR: Final = struct.Struct("=i")
_TYPE_MASK: Final = 0x3FFF
"""Without NLA_F_NESTED and NLA_F_NET_BYTEORDER."""


class Message(NamedTuple):
    """One message without its header."""

    kind: int
    flags: int
    sequence: int
    body: bytes


def split(datagram: bytes) -> Iterator[Message]:
    """The messages of a datagram, in order.

    Raises:
        DecodeError: a message is shorter than its header or longer than what is left.
    """
    offset, end = 0, len(datagram)
    while offset + HEADER.size <= end:
        length, kind, flags, sequence, _port = HEADER.unpack_from(datagram, offset)
        if length < HEADER.size or offset + length > end:
            raise refusals.note(DecodeError("netlink message", f"length {length} at byte {offset} of {end}"))
        yield Message(kind, flags, sequence, datagram[offset + HEADER.size : offset + length])
        offset += (length + 3) & ~3


@Door("netlink acknowledgement")
def error_of(body: bytes) -> int:
    """The number in NLMSG_ERROR or NLMSG_DONE: 0, or a negative errno.

    Raises:
        DecodeError: the body is cut short.
    """
    return int(_ERROR.unpack_from(body)[0])


def attributes(data: bytes, offset: int) -> dict[int, bytes]:
    """The attributes of data[offset:] by type; of a repeated one the last.

    Raises:
        DecodeError: an attribute is shorter than its header or longer than what is left.
    """
    found: dict[int, bytes] = {}
    end, unpack = len(data), _ATTRIBUTE.unpack_from
    while offset + 4 <= end:
        length, kind = unpack(data, offset)
        if length < _ATTRIBUTE.size or offset + length > end:
            raise DecodeError("netlink attribute", f"length {length} at byte {offset} of {end}")
        found[kind & _TYPE_MASK] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def text_of(value: bytes | None) -> bytes:
    """A string's bytes up to the first NUL, as the kernel's own programs read it; empty for none."""
    return b"" if value is None else value.partition(b"\0")[0]


def nested(data: bytes) -> Iterator[bytes]:
    """The values of an array of attributes, in order.

    Raises:
        DecodeError: as `attributes`.
    """
    offset, end = 0, len(data)
    while offset + _ATTRIBUTE.size <= end:
        length, _kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size or offset + length > end:
            raise DecodeError("netlink attribute", f"length {length} at byte {offset} of {end}")
        yield data[offset + _ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def encode_attribute(kind: int, value: bytes) -> bytes:
    """One attribute with its padding."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def encode(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """A message; port id 0 lets the kernel fill in the socket's."""
    return HEADER.pack(HEADER.size + len(body), kind, flags, sequence, 0) + body
