"""What a pair of locations costs the WAN at rest, and while it is awake: `python -m tests.sim.curve`, as JSON.

Nothing is measured: each node's sessions are laid out as its engine would lay them out, and each has the interval that
the engine would give it. Nodes of one location that neither relay nor watch for others are alike, so one of them stands
for all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from meshwatchd.core.membership.cadence import cadence_between, direct_ns
from meshwatchd.core.pmtu.rest_intervals import RestIntervals
from meshwatchd.core.pmtu.session_plan import measured
from meshwatchd.core.probing.intervals import Kind, Rates
from meshwatchd.core.probing.rest_limits import rest_stretch, shape_of
from meshwatchd.core.probing.scouts import scouts
from meshwatchd.core.probing.session_kinds import kinds_of
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.settings import SECOND, DiscoverySettings, ProbeProfile, ProbeSettings
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import OVERLAY_MESH
from tests.sim.random_mesh import Shape, mesh_of
from tests.support.lab_mesh import settings_for, snapshot_of

SIZES = (3, 10, 30, 100, 300, 1000)
MANY_LOCATIONS, MANY_NODES = 50, 20
PROBE_BYTES, PROBE_BYTES_OF_MANY = 226, 268
"""At the tunnel's device: DESIGN, "A probe, and its answer likewise"; the latter with the paths of more locations."""
SYN_BYTES, FULL_BYTES, TUNNEL_BYTES = 60, 1420, 60
"""A SYN (its refusal has 40), a full-size probe, and what WireGuard wraps around each."""


HELLO_BYTES, DIRECT_BYTES = 95, 1020
"""A short hello (92 for a member, 105 for a leader), and a whole one outside of the tunnels or the answer to it (958
and 1 069), with UDP and IP: of a mesh of six."""


class Flow(NamedTuple):
    """What one class of sessions sends, each way: a probe in one direction is an answer in the other."""

    name: str
    packets: float
    size: int


def planners(shapes: Sequence[Shape], probe: ProbeSettings) -> dict[str, tuple[Planner, int]]:
    """The nodes of two locations, or of the first two of many, each with the number that it stands for."""
    mesh = mesh_of(shapes)
    first = str(mesh.node[0].name)
    base = msgspec.structs.replace(settings_for(first), mesh=mesh, probe=probe)
    topology = OVERLAY_MESH.recognise(snapshot_of(first, mesh=mesh), mesh, NodeName(first))
    assert isinstance(topology, Topology)
    found = {}
    here, there = (location.name for location in topology.mesh.locations[:2])
    for location, remote in ((here, there), (there, here)):
        home = topology.mesh.location(location)
        special = [*dict.fromkeys((*home.relays(), *scouts(topology.mesh, location, remote)))]
        plain = [node.name for node in topology.mesh.members(location) if node.name not in special]
        for name, count in (*((name, 1) for name in special), *((name, len(plain)) for name in plain[:1])):
            found[str(name)] = Planner(msgspec.structs.replace(topology, local_node=name), base), count
    return found


def wan_flows(shapes: Sequence[Shape], probe: ProbeSettings, *, is_awake: bool = False) -> list[Flow]:
    """What crosses the WAN between the first two locations, each way; awake it is what follows upon a burst."""
    small = PROBE_BYTES if len(shapes) == 2 else PROBE_BYTES_OF_MANY
    found: dict[tuple[str, int], float] = {}
    for planner, count in planners(shapes, probe).values():
        for name, size, packets in _sent(planner, small, is_awake=is_awake):
            found[name, size] = found.get((name, size), 0.0) + count * packets
    return [Flow(name, packets, size) for (name, size), packets in sorted(found.items())]


def _sent(planner: Planner, small: int, *, is_awake: bool) -> Iterator[tuple[str, int, float]]:
    mesh = planner.topology.mesh
    pair = {location.name for location in mesh.locations[:2]}
    plans = lay_out(planner, has_standby=True)
    used = frozenset(path.number for path in planner.paths if path.is_primary)
    kinds = kinds_of(planner, plans)
    awake = frozenset(path.number for path in planner.paths if {*path.locations} == pair) if is_awake else frozenset()
    for plan, interval_ns in _paced(plans, kinds, planner, used=used, awake=awake):
        home, there = planner.local.location, mesh.node(plan.peer).location
        if there != home and {home, there} == pair:
            size = small if plan.canary is None else SYN_BYTES
            yield _name(plan, used, is_scout=bool(kinds[plan.session].scouts)), size, SECOND / interval_ns
    rests = RestIntervals(planner, used, ())
    for each in measured(plans, planner):
        if {planner.local.location, mesh.node(each.peer).location} == pair:
            yield "full size", FULL_BYTES, SECOND / rests.of(each)


def _paced(
    plans: Sequence[SessionPlan],
    kinds: Mapping[SessionId, Kind],
    planner: Planner,
    *,
    used: frozenset[int],
    awake: frozenset[int],
) -> Iterator[tuple[SessionPlan, int]]:
    groups: dict[Kind, list[SessionPlan]] = {}
    for plan in plans:
        groups.setdefault(kinds[plan.session], []).append(plan)
    probe = planner.settings.probe
    paces = Rates(probe)
    paces.rest = rest_stretch(probe, shape_of(planner.topology))
    rates = paces.plan([(kind, len(group)) for kind, group in groups.items()], used, awake)
    for rate, group in zip(rates, groups.values(), strict=True):
        for plan in group:
            yield plan, rate.interval_ns


def _name(plan: SessionPlan, used: frozenset[int], *, is_scout: bool) -> str:
    if plan.layer is Layer.RELAY and plan.path in used:
        return f"path in use, {'scouts' if is_scout else 'in turn'}, {plan.flow}"
    if plan.layer is Layer.RELAY:
        return f"standbys, {plan.flow}"
    return f"{plan.layer.name.lower()}, {plan.flow}"


def hello_flows(sizes: Sequence[int]) -> list[Flow]:
    """Hellos of the nodes of the first location to those of the second, each location of so many nodes.

    Outside of the tunnels relays ask where they are seen, the others as often as CROWD of them, and all are answered.
    """
    cadence = cadence_between(sizes[0], sizes[1], sum(sizes))
    relays = min(sizes[0], 1 + DiscoverySettings().standbys)
    asked = relays / direct_ns(sizes[0], is_relay=True)
    asked += (sizes[0] - relays) / direct_ns(sizes[0], is_relay=False)
    return [
        Flow("hellos", cadence.hellos_s(sizes[0], sizes[1]), HELLO_BYTES),
        Flow("hellos outside of the tunnels", 2 * asked * SECOND, DIRECT_BYTES),
    ]


def packets_s(flows: Sequence[Flow]) -> float:
    """Packets a second, each way."""
    return sum(flow.packets for flow in flows)


def kbit_s(flows: Sequence[Flow], *, around: int = 0) -> float:
    """Kilobits a second, each way, with so many bytes around each packet."""
    return sum(flow.packets * (flow.size + around) for flow in flows) * 8 / 1000


def _row(label: str, shapes: Sequence[Shape], probe: ProbeSettings) -> dict[str, object]:
    flows = wan_flows(shapes, probe)
    awake = wan_flows(shapes, probe, is_awake=True)
    greetings = hello_flows([1 + shape.standbys + shape.members for shape in shapes])
    return {
        "mesh": label,
        "profile": str(probe.profile),
        "packets_s": round(packets_s(flows), 1),
        "kbit_s": round(kbit_s(flows), 1),
        "on_the_wire_kbit_s": round(kbit_s(flows, around=TUNNEL_BYTES), 1),
        "awake_packets_s": round(packets_s(awake), 1),
        "awake_kbit_s": round(kbit_s(awake, around=TUNNEL_BYTES), 1),
        "hellos_s": round(packets_s(greetings), 2),
        "hellos_kbit_s": round(kbit_s(greetings), 2),
        "all_kbit_s": round(kbit_s(flows) + kbit_s(greetings), 1),
        "packets_s_by_kind": {flow.name: round(flow.packets, 2) for flow in flows},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the curve; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wan-kbit", type=int, default=0, help="probe.wan_kbit; 0 (default) for no limit")
    options = parser.parse_args(arguments)
    rows = []
    for profile in (ProbeProfile.DEFAULT, ProbeProfile.WAN):
        probe = ProbeSettings(profile=profile, wan_kbit=options.wan_kbit)
        rows += [_row(f"2 x {size}", [Shape(1, size - 2)] * 2, probe) for size in SIZES]
        rows.append(_row(f"{MANY_LOCATIONS} x {MANY_NODES}", [Shape(1, MANY_NODES - 2)] * MANY_LOCATIONS, probe))
    json.dump({"wan": rows}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
