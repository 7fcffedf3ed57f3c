"""By which device a packet to an address leaves: the kernel's own answer, with all its rules, tables and next hops.

    request   struct rtmsg, RTA_DST       RTM_GETROUTE
    answer    RTA_OIF                     RTM_NEWROUTE, or an error where no route leads there

The kernel works the request off inside sendto(), so that the answer waits in the socket when that returns: some ten
microseconds for each address.

Source: inet_rtm_getroute() in net/ipv4/route.c, inet6_rtm_getroute() in net/ipv6/route.c; linux/rtnetlink.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

import msgspec

from meshwatchd.adapters.netlink.compact import ROUTE
from meshwatchd.adapters.netlink.message import (
    NLM_F_REQUEST,
    RTM_GETROUTE,
    RTM_NEWROUTE,
    attributes,
    encode,
    encode_attribute,
    split,
)
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.snapshot import RouteLookup, Snapshot

MAX_LOOKUPS: Final = 64
"""A node of a large mesh has thousands of peers, and a handful of network cards."""

_RTA_DST, _RTA_OIF = 1, 4
_INDEX: Final = struct.Struct("=I")
_ANSWER_BYTES: Final = 4096


class EndpointLookups:
    """Asks the kernel by which devices WireGuard's packets leave."""

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._sequence = 0

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with one answer for each endpoint of a WireGuard peer that a route leads to."""
        names = {link.index: link.name for link in snapshot.links}
        hosts = {peer.host: None for state in snapshot.wireguard for peer in state.peers if peer.host}
        found = ((host, names.get(self._ask(host), "")) for host in list(hosts)[:MAX_LOOKUPS])
        lookups = tuple(RouteLookup(address=host, dev=dev) for host, dev in found if dev)
        return msgspec.structs.replace(snapshot, lookups=lookups)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _ask(self, address: str) -> int:
        """The index of the device; 0 where no route leads there, and for what is no address."""
        self._sequence += 1
        try:
            packed = ip_address(address).packed
            family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
            header = ROUTE.pack(family, 8 * len(packed), 0, 0, 0, 0, 0, 0, 0)
            body = header + encode_attribute(_RTA_DST, packed)
            self._socket.send(encode(RTM_GETROUTE, NLM_F_REQUEST, self._sequence, body))
            return next(self._indices(self._socket.recv(_ANSWER_BYTES)), 0)
        except (OSError, ValueError, DecodeError):
            return 0

    def _indices(self, datagram: bytes) -> Iterator[int]:
        for message in split(datagram):
            if message.kind == RTM_NEWROUTE and message.sequence == self._sequence:
                device = attributes(message.body, ROUTE.size).get(_RTA_OIF, b"")
                if len(device) == _INDEX.size:
                    yield _INDEX.unpack(device)[0]
