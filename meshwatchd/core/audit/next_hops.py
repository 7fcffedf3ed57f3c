"""Nodes that nothing passes to while a routing daemon's routes lead there: next-hop-dead.

Probes know in a second, and BGP lets go after its hold time of minutes, or never where its session goes another way.
The engine has both, the verdict and the routes; what is asked of the kernel besides is in `daemon_routes`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from meshwatchd.model.routing_daemons import ROUTING_DAEMONS, render_route, routed_by_daemon
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Snapshot
from meshwatchd.model.topology import Node

MAX_NAMED = 3
"""Routes in one verdict."""

_OF_A_HOP = frozenset(
    (
        *(FaultCode.WIREGUARD_BLOCKED, FaultCode.LEADER_DEAD, FaultCode.NODE_UNREACHABLE),
        *(FaultCode.WIREGUARD_NO_HANDSHAKE, FaultCode.WIREGUARD_NO_DATA),
    )
)
"""That nothing passes to a node. What has a cause of its own, such as another key, goes by that."""

NextHops = Mapping[NodeName, tuple[DeviceRoute, ...]]
"""Routing daemons' routes by the node that they lead to."""


def next_hops(snapshot: Snapshot, mesh: MeshSettings) -> NextHops:
    """The routes into the mesh's WireGuard device, by the node whose address is their gateway."""
    found: dict[NodeName, tuple[DeviceRoute, ...]] = {}
    routes = routed_by_daemon(snapshot.device_routes, mesh.wireguard_device)
    names = nodes_by_address(mesh) if routes else {}
    for route in routes:
        if (node := names.get(route.via)) is not None:
            found[node.name] = (*found.get(node.name, ()), route)
    return found


def name_dead_hop(verdict: Verdict, hops: NextHops) -> Verdict:
    """The verdict; where it says that nothing passes to a node, and routes that lead to it stand, by that name."""
    routes = hops.get(NodeName(verdict.culprit), ())
    if not routes or verdict.fault not in _OF_A_HOP:
        return verdict
    daemon = ROUTING_DAEMONS[routes[0].protocol]
    more = (f"and {len(routes) - MAX_NAMED} more",) if len(routes) > MAX_NAMED else ()
    told = ", ".join((*map(render_route, routes[:MAX_NAMED]), *more))
    show, leave = daemon.show.format(routes[0].dst), daemon.leave.format(routes[0].via)
    return msgspec.structs.replace(
        verdict,
        fault=FaultCode.NEXT_HOP_DEAD,
        layer=CATALOGUE[FaultCode.NEXT_HOP_DEAD].layer,
        because=(
            f"nothing passes to {verdict.culprit}, and {daemon.name} still routes there: {told}",
            f"probes alone say {verdict.fault}",
            *verdict.because,
            f"{daemon.name} keeps its routes until its session ends: {show}",
            f"to have both ends choose another way: {leave}",
        ),
    )


def nodes_by_address(mesh: MeshSettings) -> Mapping[str, Node]:
    """Nodes by their address on the WireGuard device, which gateways of routes are."""
    return {address: node for node in mesh.node for address in (node.overlay_ip, node.wireguard_ip) if address}
