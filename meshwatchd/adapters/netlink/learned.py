"""What the kernel has learned of a path's MTU: the exception that an ICMP message leaves in the routing cache.

`ip route get` shows it as "cache expires 597sec mtu 1300". Whoever can guess a connection can have one made, down to
552 bytes, and every TCP connection to that address obeys for ten minutes.

    request   struct rtmsg, RTA_DST                                RTM_GETROUTE
    answer    RTA_METRICS { RTAX_MTU }, RTA_CACHEINFO.rta_expires  RTM_NEWROUTE

An exception is told from an MTU that somebody has written on the route by its expiry. The kernel works the request off
inside sendto(), so that the answer waits in the socket when that returns.

Source: rt_fill_info() and update_or_create_fnhe() in net/ipv4/route.c; linux/rtnetlink.h.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from meshwatchd.adapters.netlink.message import HEADER, NLM_F_REQUEST, RTM_GETROUTE, RTM_NEWROUTE, attributes, split
from meshwatchd.model.errors import DecodeError

_RTMSG: Final = struct.Struct("=BBBBBBBBI")
"""Family, prefix lengths of destination and source, TOS, table, protocol, scope, type, flags."""
_ADDRESS: Final = struct.Struct("=HH4s")
_RTA_DST, _RTA_METRICS, _RTA_CACHEINFO = 1, 8, 12
_RTAX_MTU: Final = 2
_EXPIRES: Final = struct.Struct("=8xi")
"""rta_expires in struct rta_cacheinfo, in ticks."""
_METRIC: Final = struct.Struct("=I")
_ANSWER_BYTES: Final = 4096


class LearnedMtu:
    """Asks the kernel, one address at a time."""

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._sequence = 0

    def read(self, address: str) -> int:
        """The path MTU the kernel has learned towards an IPv4 address; 0 when it has learned none."""
        self._sequence += 1
        body = _RTMSG.pack(socket.AF_INET, 32, 0, 0, 0, 0, 0, 0, 0)
        body += _ADDRESS.pack(_ADDRESS.size, _RTA_DST, socket.inet_aton(address))
        try:
            self._socket.send(
                HEADER.pack(HEADER.size + len(body), RTM_GETROUTE, NLM_F_REQUEST, self._sequence, 0) + body
            )
            return self._answer(self._socket.recv(_ANSWER_BYTES))
        except (OSError, DecodeError):
            # No route, or an answer that is none: nothing was learned.
            return 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _answer(self, datagram: bytes) -> int:
        for message in split(datagram):
            if message.kind == RTM_NEWROUTE and message.sequence == self._sequence:
                return _learned(attributes(message.body, _RTMSG.size))
        return 0


def _learned(found: dict[int, bytes]) -> int:
    cache, metrics = found.get(_RTA_CACHEINFO, b""), found.get(_RTA_METRICS, b"")
    if len(cache) < _EXPIRES.size or not _EXPIRES.unpack_from(cache)[0]:
        return 0
    mtu = attributes(metrics, 0).get(_RTAX_MTU, b"")
    return int(_METRIC.unpack(mtu)[0]) if len(mtu) == _METRIC.size else 0
