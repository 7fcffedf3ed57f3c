"""The kernel's change notifications, read from a socket of their own.

The socket is plain and only the decoding is pyroute2's: after one overrun a pyroute2 socket refuses every further call,
and it decodes each of the thousands of routes a busy node changes although hardly any is ours. Here a message is looked
at in its header first, and decoded when it may concern us.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from meshwatchd.adapters.netlink import decode
from meshwatchd.adapters.netlink.decode import RouteRecord, RuleRecord
from meshwatchd.model.snapshot import Link

RTM_NEWLINK, RTM_DELLINK = 16, 17
RTM_NEWADDR, RTM_DELADDR = 20, 21
RTM_NEWROUTE, RTM_DELROUTE = 24, 25
RTM_NEWRULE, RTM_DELRULE = 32, 33
"""linux/rtnetlink.h."""

RTMGRP_LINK = 0x1
RTMGRP_IPV4_IFADDR = 0x10
RTMGRP_IPV4_ROUTE = 0x40
RTMGRP_IPV4_RULE = 0x80
GROUPS = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV4_RULE

SO_RCVBUFFORCE = 33
RECEIVE_BUFFER_BYTES = 8 * 1024 * 1024
"""Holds the notifications of tens of thousands of routes; the default of 208 KiB overflows at a few hundred."""

DATAGRAM_BYTES = 64 * 1024
BATCH = 64
"""Datagrams read in one go before the event loop gets its turn."""

RT_TABLE_COMPAT = 252
"""rtm_table of a table whose number needs RTA_TABLE."""

_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port id
_MARSHAL = MarshalRtnl()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvent:
    """A device appeared or changed, or is gone."""

    link: Link
    is_gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressEvent:
    """An IPv4 address was added to the device of that index, or removed from it."""

    index: int
    address: str
    is_gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvent:
    """An IPv4 rule was added or removed."""

    record: RuleRecord
    is_gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteEvent:
    """An IPv4 route, ours or in a table above 255, was added or removed; its device is given as "#INDEX"."""

    record: RouteRecord
    is_gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """Notifications were lost: only a complete dump tells what the kernel's state is."""


Notification = LinkEvent | AddressEvent | RuleEvent | RouteEvent | Overrun


class Monitor:
    """A subscription to changes of links, IPv4 addresses, routes and rules. Needs CAP_NET_ADMIN for its buffer."""

    def __init__(self, protocol: int) -> None:
        self._protocol = protocol
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        self._socket.bind((0, GROUPS))

    def fileno(self) -> int:
        """The descriptor, readable when read() has something."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()

    def read(self) -> list[Notification]:
        """What has come in since the last call, at most BATCH datagrams; never waits."""
        notifications: list[Notification] = []
        for _ in range(BATCH):
            try:
                datagram = self._socket.recv(DATAGRAM_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                notifications.append(Overrun())
                continue
            notifications.extend(decode_datagram(datagram, self._protocol))
        return notifications


def decode_datagram(datagram: bytes, protocol: int) -> Iterator[Notification]:
    """The notifications of one datagram that may concern us.

    Args:
        datagram: netlink messages in host byte order, each padded to 4 bytes.
        protocol: our route protocol number.
    """
    offset = 0
    while offset + _HEADER.size <= len(datagram):
        length, kind, _, _, _ = _HEADER.unpack_from(datagram, offset)
        if length < _HEADER.size:
            return
        message = datagram[offset : offset + length]
        if _may_concern_us(kind, message, protocol):
            yield from _decode(kind, message)
        offset += (length + 3) & ~3


def _may_concern_us(kind: int, message: bytes, protocol: int) -> bool:
    """Judge by the fixed header behind struct nlmsghdr.

    Its first byte is the family; links of family AF_BRIDGE are port attributes. struct rtmsg has the table at
    offset 4 and the protocol at 5.
    """
    if len(message) < _HEADER.size + 8:
        return False
    family = message[_HEADER.size]
    if kind in {RTM_NEWLINK, RTM_DELLINK}:
        return family == socket.AF_UNSPEC
    if kind in {RTM_NEWROUTE, RTM_DELROUTE}:
        table, owner = message[_HEADER.size + 4], message[_HEADER.size + 5]
        return family == socket.AF_INET and (owner == protocol or table == RT_TABLE_COMPAT)
    return family == socket.AF_INET


def _decode(kind: int, message: bytes) -> Iterator[Notification]:
    for decoded in _MARSHAL.parse(message):
        if kind in {RTM_NEWLINK, RTM_DELLINK}:
            yield LinkEvent(link=decode.decode_link(decoded), is_gone=kind == RTM_DELLINK)
        elif kind in {RTM_NEWADDR, RTM_DELADDR}:
            index, address = decode.decode_address(decoded)
            yield AddressEvent(index=index, address=address, is_gone=kind == RTM_DELADDR)
        elif kind in {RTM_NEWROUTE, RTM_DELROUTE}:
            yield RouteEvent(record=decode.decode_route(decoded, {}), is_gone=kind == RTM_DELROUTE)
        elif kind in {RTM_NEWRULE, RTM_DELRULE}:
            yield RuleEvent(record=decode.decode_rule(decoded), is_gone=kind == RTM_DELRULE)
