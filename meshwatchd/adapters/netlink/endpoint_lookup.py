"""By which device and router a packet to an address leaves: the kernel's own answer, with all its rules and tables.

`route_socket` asks for RTA_DST, and RTA_OIF and RTA_GATEWAY are the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

import msgspec

from meshwatchd.adapters.netlink.fibrule import number_or
from meshwatchd.adapters.netlink.route_socket import RouteSocket, request_for
from meshwatchd.model.snapshot import RouteLookup, Snapshot

MAX_LOOKUPS: Final = 64
"""A node of a large mesh has thousands of peers, and a handful of network cards."""

_RTA_OIF: Final = 4
_RTA_GATEWAY: Final = 5


class EndpointLookups:
    """Asks the kernel by which devices WireGuard's packets leave, and what goes to neighbours."""

    def __init__(self) -> None:
        self._socket = RouteSocket()

    def add(self, snapshot: Snapshot, near: Iterable[str] = ()) -> Snapshot:
        """The snapshot with one answer for each endpoint of a WireGuard peer and each address near by, where a route
        leads.
        """
        names = {link.index: link.name for link in snapshot.links}
        hosts = {peer.host: None for state in snapshot.wireguard for peer in state.peers if peer.host}
        lookups, ways = (
            tuple(filter(None, (self._look_up(each, names) for each in list(wanted)[:MAX_LOOKUPS])))
            for wanted in (hosts, near)
        )
        return msgspec.structs.replace(snapshot, lookups=lookups, near=ways)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _look_up(self, address: str, names: Mapping[int, str]) -> RouteLookup | None:
        """What the kernel says of an address; None where no route leads there, and for what is no address."""
        try:
            packed = ip_address(address).packed
        except ValueError:
            return None
        answer = self._socket.ask(request_for(packed))
        device = "" if answer is None else names.get(number_or(answer.attributes.get(_RTA_OIF)), "")
        if answer is None or not device:
            return None
        gateway = answer.attributes.get(_RTA_GATEWAY, b"")
        via = str(ip_address(gateway)) if len(gateway) == len(packed) else ""
        return RouteLookup(address=address, dev=device, via=via)
