"""The kernel's change notifications, read from a socket of their own and handed on undecoded.

Reading is what must not fall behind: the kernel drops what does not fit into the buffer, and then only a complete dump
tells what its state is.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from meshwatchd.adapters.netlink.message import Message, split
from meshwatchd.adapters.socket_options import grow_buffer
from meshwatchd.model.errors import DecodeError


def _groups(*numbers: int) -> int:
    return sum(1 << (number - 1) for number in numbers)


GROUPS: Final = _groups(1, 3, 5, 7, 8, 9, 11, 19, 32)
"""RTNLGRP_LINK, NEIGH (FDB as well), IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE, IPV6_IFADDR, IPV6_ROUTE, IPV6_RULE, NEXTHOP of
linux/rtnetlink.h."""

RECEIVE_BUFFER_BYTES = 8 * 1024 * 1024
"""Holds the notifications of tens of thousands of routes; the default of 208 KiB overflows at a few hundred."""

DATAGRAM_BYTES = 64 * 1024
BATCH = 256
"""Datagrams read in one go before the event loop gets its turn: a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """Notifications were lost, or could not be read: only a complete dump tells what the kernel's state is.

    Attributes:
        reason: for people, with its source.
    """

    reason: str


OVERRUN: Final = Overrun(reason="the kernel has dropped notifications: they came faster than they were read")


class Monitor:
    """A subscription to changes of links, addresses, routes, nexthop objects, rules, neighbours and FDB entries.

    Args:
        receive_buffer_bytes: for tests of an overrun; anything above the system's limit needs CAP_NET_ADMIN.
    """

    def __init__(self, receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        grow_buffer(self._socket, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.bind((0, GROUPS))
        self._buffer = bytearray(DATAGRAM_BYTES)

    def fileno(self) -> int:
        """The descriptor, readable when read() has something."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()

    def read(self, take: Callable[[Message | Overrun], None]) -> bool:
        """Hand over what has come in since the last call, at most BATCH datagrams; never waits.

        Returns:
            whether there may be more.
        """
        view = memoryview(self._buffer)
        for _ in range(BATCH):
            try:
                size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                take(OVERRUN)
                continue
            hand_over(bytes(view[:size]), take)
        return True


def hand_over(datagram: bytes, take: Callable[[Message | Overrun], None]) -> None:
    """Hand over the messages of a datagram; one that is malformed, here or to the taker, counts as lost."""
    try:
        for message in split(datagram):
            take(message)
    except DecodeError as error:
        take(Overrun(reason=str(error)))
