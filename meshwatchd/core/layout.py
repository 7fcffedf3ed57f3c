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
    plans = [*_relay_plans(planner, has_standby=has_standby), *_segment_plans(planner)]
    return tuple(
        SessionPlan(
            session=SessionId(index),
            peer=peer.name,
            layer=layer,
            path=path,
            flow=flow,
            source=source,
            destination=destination,
            port=port,
        )
        for index, (peer, layer, path, flow, source, destination, port) in enumerate(plans)
    )


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
