"""What the kernel has learned of a path's MTU: the exception that an ICMP message leaves in the routing cache.

`ip route get` shows it as "cache expires 597sec mtu 1300". Whoever can guess a connection can have one made, down to
552 bytes, and every TCP connection to that address obeys for ten minutes.

    `route_socket` asks for    RTA_DST
    the answer                 RTA_METRICS { RTAX_MTU }, RTA_CACHEINFO.rta_expires

An exception is told from an MTU that somebody has written on the route by its expiry.

Source: rt_fill_info() and update_or_create_fnhe() in net/ipv4/route.c; linux/rtnetlink.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Final

from meshwatchd.adapters.netlink.fibrule import number_or
from meshwatchd.adapters.netlink.message import attributes
from meshwatchd.adapters.netlink.route_socket import RouteSocket, request_for
from meshwatchd.model.errors import DecodeError

_RTA_METRICS, _RTA_CACHEINFO = 8, 12
_RTAX_MTU: Final = 2
_EXPIRES: Final = struct.Struct("=8xi")
"""rta_expires in struct rta_cacheinfo, in ticks."""


class LearnedMtu:
    """Asks the kernel, one address at a time."""

    def __init__(self) -> None:
        self._socket = RouteSocket()

    def read(self, address: str) -> int:
        """The path MTU the kernel has learned towards an IPv4 address; 0 when it has learned none."""
        answer = self._socket.ask(request_for(socket.inet_aton(address)))
        try:
            return 0 if answer is None else _learned(answer.attributes)
        except DecodeError:
            return 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _learned(found: Mapping[int, bytes]) -> int:
    cache, metrics = found.get(_RTA_CACHEINFO, b""), found.get(_RTA_METRICS, b"")
    if len(cache) < _EXPIRES.size or not _EXPIRES.unpack_from(cache)[0]:
        return 0
    return number_or(attributes(metrics, 0).get(_RTAX_MTU))
