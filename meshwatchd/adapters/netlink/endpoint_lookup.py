"""By which device a packet to an address leaves: the kernel's own answer, with all its rules, tables and next hops.

`route_socket` asks for RTA_DST, and RTA_OIF is the answer.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import msgspec

from meshwatchd.adapters.netlink.fibrule import number_or
from meshwatchd.adapters.netlink.route_socket import RouteSocket, request_for
from meshwatchd.model.snapshot import RouteLookup, Snapshot

MAX_LOOKUPS: Final = 64
"""A node of a large mesh has thousands of peers, and a handful of network cards."""

_RTA_OIF: Final = 4


class EndpointLookups:
    """Asks the kernel by which devices WireGuard's packets leave."""

    def __init__(self) -> None:
        self._socket = RouteSocket()

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
        try:
            packed = ip_address(address).packed
        except ValueError:
            return 0
        answer = self._socket.ask(request_for(packed))
        return 0 if answer is None else number_or(answer.attributes.get(_RTA_OIF))
