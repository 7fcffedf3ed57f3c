"""Which paths are measured: one session for each layer, path and peer that ordinary probes ask, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwatchd.core.probing.scouts import scouts
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.mtu import SizePlan
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.port_map import size_source_port

MAX_SEGMENT_PEERS = 8
"""Neighbours that are measured, relays first: devices of one location are alike, and others measure the rest."""

MAX_PATH_PEERS = 3
"""Nodes that are measured over one path: its relay, and two behind it, scouts first, to tell one node from all."""

_MEASURED = (Layer.UNDERLAY, Layer.WIREGUARD, Layer.IPIP, Layer.OVERLAY, Layer.RELAY, Layer.EFFECTIVE)

SizeKey = tuple[str, Layer, int, bool]
"""Peer, layer, path, and whether fragments are tested: what stays the same when the table of sessions changes."""


def key_of(plan: SizePlan) -> SizeKey:
    """What a session is about."""
    return plan.peer, plan.layer, plan.path, plan.may_fragment


def measured(plans: Iterable[SessionPlan], planner: Planner) -> tuple[SizePlan, ...]:
    """The paths to measure, ids counting up; IPv6 ones and canaries are left out."""
    groups: dict[tuple[Layer, int], dict[str, SessionPlan]] = {}
    for plan in plans:
        if plan.layer in _MEASURED and not plan.is_advisory and plan.flow is FlowClass.FRESH:
            groups.setdefault((plan.layer, plan.path), {}).setdefault(plan.peer, plan)
    rows = [row for (layer, path), peers in groups.items() for row in _rows(layer, path, peers, planner)]
    return tuple(_size_plan(number, plan, planner, frag) for number, (plan, frag) in enumerate(rows))


def _rows(
    layer: Layer, path: int, peers: dict[str, SessionPlan], planner: Planner
) -> Iterator[tuple[SessionPlan, bool]]:
    is_path = layer in (Layer.RELAY, Layer.EFFECTIVE)
    relays = _relays(path, planner) if is_path else _own_relays(planner)
    # The first scouts of the two locations look at the path in use for all others (`rest_intervals`).
    looking = _scouts(path, planner) if is_path else ()
    ordered = sorted(peers, key=lambda name: (name not in relays, name not in looking, name))
    for name in ordered[: MAX_PATH_PEERS if is_path else MAX_SEGMENT_PEERS]:
        yield peers[name], False
        if layer is Layer.UNDERLAY:
            yield peers[name], True


def _scouts(path: int, planner: Planner) -> tuple[NodeName, ...]:
    here = planner.local.location
    return scouts(planner.topology.mesh, planner.path(path).other_location(here), here)


def _relays(path: int, planner: Planner) -> tuple[str, ...]:
    return planner.path(path).relays


def _own_relays(planner: Planner) -> tuple[str, ...]:
    topology = planner.topology
    return topology.mesh.location(topology.local.location).relays()


def _size_plan(number: int, plan: SessionPlan, planner: Planner, may_fragment: bool) -> SizePlan:
    return SizePlan(
        session=number,
        peer=plan.peer,
        layer=plan.layer,
        path=plan.path,
        source=plan.source,
        destination=plan.destination,
        port=plan.port,
        source_port=size_source_port(planner.settings.probe.port, may_fragment=may_fragment),
        device=plan.device,
        may_fragment=may_fragment,
    )
