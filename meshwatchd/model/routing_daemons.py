"""Routing daemons, known by the protocol number of their routes, and how each is asked about one.

    ip route    10.42.2.0/24 via 10.8.0.3 dev wg0 proto bird metric 32

Nobody else changes such a route: the daemon would write it again, or lose track of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from meshwatchd.model.audit import MAIN_TABLE
from meshwatchd.model.snapshot import DeviceRoute


class RoutingDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """A routing daemon.

    Attributes:
        proto: the name of its number in `ip route`.
        show: the command that shows what it knows of a prefix, with the prefix in place of {}.
        leave: the command that ends its session with the neighbour at an address, in place of {}, for both ends.
    """

    name: str
    proto: str
    show: str
    leave: str


_NEIGHBOUR = "vtysh -c 'configure terminal' -c 'router bgp AS' -c 'neighbor {} shutdown'"
_BGP = RoutingDaemon(name="FRR", proto="bgp", show="vtysh -c 'show bgp ipv4 unicast {}'", leave=_NEIGHBOUR)
_ZEBRA = RoutingDaemon(name="FRR", proto="zebra", show="vtysh -c 'show ip route {}'", leave=_NEIGHBOUR)
_BIRD = RoutingDaemon(
    name="BIRD",
    proto="bird",
    show="birdc 'show route for {} all'",
    leave="birdc disable NAME, of the protocol that birdc 'show protocols all' shows with the neighbor {}",
)

ROUTING_DAEMONS: Mapping[int, RoutingDaemon] = MappingProxyType({11: _ZEBRA, 12: _BIRD, 186: _BGP})
"""By RTPROT_* of linux/rtnetlink.h. Others may mark routes as BGP's too: what they are asked with is their own."""


def routed_by_daemon(routes: Iterable[DeviceRoute], device: str) -> tuple[DeviceRoute, ...]:
    """Routing daemons' routes of IPv4 in the main table into a device, by way of another node."""
    return tuple(
        each
        for each in routes
        if each.protocol in ROUTING_DAEMONS
        and each.dev == device
        and each.table == MAIN_TABLE
        and each.via
        and ":" not in each.dst
    )


def render_route(route: DeviceRoute) -> str:
    """As `ip route` has it."""
    return f"{route.dst} via {route.via} dev {route.dev} proto {ROUTING_DAEMONS[route.protocol].proto}"
