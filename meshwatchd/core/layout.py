"""Which sessions a node holds: the probes that exercise every layer of every path it could use."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.planner import EFFECTIVE_PORT_OFFSET, Planner
from meshwatchd.model.ids import FlowClass, Layer, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.topology import Node, Path

NO_PATH = 0xFFFF
"""Path number of sessions that belong to no path."""

PINNED_PORT_OFFSET = 64
"""The source ports of pinned sessions begin this far above the probe port."""


def lay_out(planner: Planner, *, has_standby: bool) -> tuple[SessionPlan, ...]:
    """Every session of this node, ids counting up.

    Args:
        planner: knows the topology and the ports.
        has_standby: False leaves out the standby paths, whose links and selectors do not exist.
    """
    plans = [
        *_relay_plans(planner, has_standby=has_standby),
        *_segment_plans(planner),
        *_self_plans(planner),
        *_ipip_plans(planner),
        *_ip6_plans(planner),
    ]
    own = tuple(
        SessionPlan(
            session=SessionId(index),
            peer=peer.name,
            layer=layer,
            path=path,
            flow=flow,
            source=source,
            destination=destination,
            port=port,
            device=planner.settings.mesh.ipip_device if layer is Layer.IPIP else "",
        )
        for index, (peer, layer, path, flow, source, destination, port) in enumerate(plans)
    )
    return (*own, *_canary_plans(planner, first=len(own)))


_Row = tuple[Node, Layer, int, FlowClass, str, str, int]


def _relay_plans(planner: Planner, *, has_standby: bool) -> Iterator[_Row]:
    local = planner.topology.local
    for path in planner.topology.local_paths():
        if not path.is_primary and not (has_standby and planner.probes_path(path)):
            continue
        port = planner.probe_port(path)
        for node in planner.reached_over(path):
            for flow in FlowClass if path.is_primary else (FlowClass.FRESH,):
                yield node, Layer.RELAY, path.number, flow, local.node_ip, node.node_ip, port
    for path in planner.topology.local_paths():
        if path.is_primary:
            port = planner.settings.probe.port + EFFECTIVE_PORT_OFFSET
            for node in planner.reached_over(path):
                yield node, Layer.EFFECTIVE, path.number, FlowClass.FRESH, local.node_ip, node.node_ip, port


def _segment_plans(planner: Planner) -> Iterator[_Row]:
    topology, port = planner.topology, planner.settings.probe.port
    local = topology.local
    for node in topology.mesh.members(local.location):
        if node.name == local.name:
            continue
        yield node, Layer.UNDERLAY, NO_PATH, FlowClass.FRESH, local.node_ip, node.node_ip, port
        for flow in FlowClass:
            yield node, Layer.OVERLAY, NO_PATH, flow, local.overlay_ip, node.overlay_ip, port
    for path in topology.local_paths():
        if path.is_primary and topology.is_relay(path):
            yield from _wireguard_plans(planner, path)


def _wireguard_plans(planner: Planner, path: Path) -> Iterator[_Row]:
    local = planner.topology.local
    peer = planner.topology.mesh.node(path.relay_in(path.other_location(local.location)))
    if local.wireguard_ip and peer.wireguard_ip:
        for flow in FlowClass:
            yield (
                peer,
                Layer.WIREGUARD,
                path.number,
                flow,
                local.wireguard_ip,
                peer.wireguard_ip,
                planner.settings.probe.port,
            )


def _self_plans(planner: Planner) -> Iterator[_Row]:
    """This node's own reflector, over loopback: who does not hear himself accuses nobody."""
    local = planner.topology.local
    yield local, Layer.SELF, NO_PATH, FlowClass.FRESH, local.node_ip, local.node_ip, planner.settings.probe.port


def _ipip_plans(planner: Planner) -> Iterator[_Row]:
    """A member to its leader's overlay address, out of the IPIP device whatever the routes say.

    None of the leader's addresses is routed through IPIP but its WireGuard address, and that one is often local: a
    member's kilo0 is down and mostly keeps the address of its location, which the kernel then answers itself. Out of
    the device and without a route the kernel takes the destination for the next hop, hence for the outer destination:
    the gateway of Kilo's own routes, so that the outer packets are those of real traffic. The reflector answers out of
    the device the request came in by, in the same way.
    """
    topology = planner.topology
    local = topology.local
    leader = topology.mesh.node(topology.mesh.location(local.location).leader)
    if planner.settings.mesh.ipip_device and leader.name != local.name:
        port = planner.settings.probe.port
        yield leader, Layer.IPIP, NO_PATH, FlowClass.FRESH, local.overlay_ip, leader.overlay_ip, port


def _ip6_plans(planner: Planner) -> Iterator[_Row]:
    """The IPv6 twins of the fresh sessions that need no tables of ours, where both ends have an address."""
    for node, layer, path, (source, destination), port in _ip6_candidates(planner):
        if source and destination:
            yield node, layer, path, FlowClass.FRESH, source, destination, port


def _ip6_candidates(planner: Planner) -> Iterator[tuple[Node, Layer, int, tuple[str | None, str | None], int]]:
    topology, port = planner.topology, planner.settings.probe.port
    local = topology.local
    primary = [path for path in topology.local_paths() if path.is_primary]
    for path in primary:
        for node in planner.reached_over(path):
            yield node, Layer.RELAY, path.number, (local.node_ip6, node.node_ip6), planner.probe_port(path)
    for node in topology.mesh.members(local.location):
        if node.name != local.name:
            yield node, Layer.UNDERLAY, NO_PATH, (local.node_ip6, node.node_ip6), port
            yield node, Layer.OVERLAY, NO_PATH, (local.overlay_ip6, node.overlay_ip6), port
    for path in primary:
        if topology.is_relay(path):
            peer = topology.mesh.node(path.relay_in(path.other_location(local.location)))
            yield peer, Layer.WIREGUARD, path.number, (local.wireguard_ip6, peer.wireguard_ip6), port


def _canary_plans(planner: Planner, *, first: int) -> Iterator[SessionPlan]:
    """The canaries of the other locations; the mesh is not on the way to those of the own."""
    mesh, home = planner.topology.mesh, planner.topology.local.location
    remote = (canary for canary in planner.settings.probe.canary if mesh.node(canary.node).location != home)
    for session, canary in enumerate(remote, first):
        yield SessionPlan(
            session=SessionId(session),
            peer=canary.node,
            layer=Layer.POD,
            path=NO_PATH,
            flow=FlowClass.FRESH,
            source="",
            destination=canary.address,
            port=canary.port,
            canary=canary,
        )
