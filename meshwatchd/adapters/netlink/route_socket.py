"""Asks the kernel about one route at a time: RTM_GETROUTE, and the answer to it.

    request   struct rtmsg, attributes    RTM_GETROUTE
    answer    struct rtmsg, attributes    RTM_NEWROUTE
              a negative errno            NLMSG_ERROR: unreachable, prohibited, blackhole, no route

The kernel works the request off inside sendto(), so that the answer waits in the socket when that returns: some ten
microseconds for each address.

Source: inet_rtm_getroute() in net/ipv4/route.c, inet6_rtm_getroute() in net/ipv6/route.c; linux/rtnetlink.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink.compact import ROUTE
from meshwatchd.adapters.netlink.message import (
    NLM_F_REQUEST,
    NLMSG_ERROR,
    RTM_GETROUTE,
    RTM_NEWROUTE,
    attributes,
    encode,
    encode_attribute,
    error_of,
    split,
)
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError

RTA_DST: Final = 1

_ERROR: Final = struct.Struct("=i")
_ANSWER_BYTES: Final = 4096


class Answer(NamedTuple):
    """What the kernel says of a route.

    Attributes:
        errno: 0, or why there is none.
        attributes: RTA_* of the route, by number.
        dst_len: of the route's prefix, where the request asked for its entry (RTM_F_FIB_MATCH).
    """

    errno: int
    attributes: Mapping[int, bytes]
    dst_len: int = 0


class RouteSocket:
    """One socket, one question at a time."""

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, request: bytes) -> Answer | None:
        """The answer to a request, which `request_for` begins; None where there is none that can be read."""
        self._sequence = (self._sequence + 1) & 0xFFFF_FFFF
        try:
            self._socket.send(encode(RTM_GETROUTE, NLM_F_REQUEST, self._sequence, request))
            return self._read(self._socket.recv(_ANSWER_BYTES))
        except (OSError, DecodeError):
            return None

    @Door("netlink route")
    def _read(self, datagram: bytes) -> Answer | None:
        for message in split(datagram):
            if message.sequence != self._sequence:
                continue
            if message.kind == RTM_NEWROUTE:
                return Answer(0, attributes(message.body, ROUTE.size), ROUTE.unpack_from(message.body)[1])
            if message.kind == NLMSG_ERROR:
                return Answer(-error_of(message.body), {})
        return None


def request_for(destination: bytes, *, src_len: int = 0, flags: int = 0) -> bytes:
    """A request for the route to a packed IPv4 or IPv6 address; further attributes may follow, and have to where
    `src_len` announces RTA_SRC.
    """
    family = socket.AF_INET if len(destination) == 4 else socket.AF_INET6
    header = ROUTE.pack(family, 8 * len(destination), src_len, 0, 0, 0, 0, 0, flags)
    return header + encode_attribute(RTA_DST, destination)
