"""How soon a wedged overlay is put right, and a black hole of large packets sized: `python -m netnslab.bench_cures`.

One mesh for each topology, with daemons in mode enforce whose repairs of single entries are enabled, as root.

Wedges: what one node knows of one peer is damaged, a kind of damage after the other. From the injection to the finding,
from there to the repair as the kernel holds it, and what the entries are afterwards; how many flows between other pods
were lost meanwhile, and for how long flows to the peer were, by a traffic source that knows nothing of the daemons.

Black holes: packets above a size vanish at one node's cable, without ICMP. From the injection to the verdict, the first
and the last daemon's, and to the size; ping(8) from the same node then says whether that many bytes pass and one more
does not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netnslab import faults, node_state, state_faults
from netnslab.bench_diagnosis import Bench
from netnslab.daemons import Daemons, Event, Settings
from netnslab.diagnosis_cells import OF_ONE_PEER, QUICK, WITH_ENTRIES
from netnslab.errors import LabError
from netnslab.fabric import fabric_of
from netnslab.faults import Fault
from netnslab.flannel import Flannel
from netnslab.lab import Lab
from netnslab.machine import commit_facts, machine_facts
from netnslab.overlays import overlay_of
from netnslab.state_faults import StateFault
from netnslab.topology import Topology
from netnslab.traffic_records import Flow
from netnslab.traffic_report import count_lost, measure_outage
from netnslab.traffic_source import Traffic
from netnslab.waiting import pause_until, wait_until

SECOND = 1_000_000_000
RATE = 50
TELL_S = 15.0
LIMITS = (1400, 1283, 1377, 1311, 1240)
"""Outer sizes of the black holes where the lab can choose one; a limit that is a round number proves little."""

TARGETS = {"repair_ms": 1000.0, "others_lost": 0, "verdict_ms": 3000.0, "size_ms": 10_000.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wedge:
    """One damaged entry.

    Attributes:
        named_ms: from the injection to the finding.
        repaired_ms: from the finding to the repair that was read back.
        is_restored: the device's entries are those of before.
        others_lost, others: flows between other pods, lost and in all.
        peer_outage_ms: how long new flows to the peer were lost, as the traffic source has it; None: to the end.
    """

    fault: str
    named_ms: float
    repaired_ms: float
    is_restored: bool
    others_lost: int
    others: int
    peer_outage_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """One black hole of large packets.

    Attributes:
        first_ms, last_ms: from the injection to the first daemon's verdict, and to the last one's.
        named_by: how many daemons, of `nodes`.
        size_ms: to the first exact size.
        size_bytes: that size, at `node` towards `peer` on `layer`.
        is_exact: ping says so, too.
    """

    first_ms: float
    last_ms: float
    named_by: int
    nodes: int
    size_ms: float
    size_bytes: int
    node: str
    peer: str
    layer: str
    is_exact: bool


class Cures:
    """The trials in one mesh."""

    def __init__(self, lab: Lab, daemons: Daemons, traffic: Traffic) -> None:
        self._lab, self._daemons, self._traffic = lab, daemons, traffic
        self._bench = Bench(lab, daemons, patience_s=None)
        overlay = overlay_of(lab.topology)
        assert isinstance(overlay, Flannel), "both topologies have flannel.1"
        self._device = overlay.relay_device

    def settle(self) -> None:
        """Wait until everybody is ready, and what is there has been taken for good."""
        self._bench.settle()
        self._traffic.wait_flowing()

    def wedge(self, kind: str) -> Wedge:
        """Damage one entry, and see it repaired."""
        self._bench.wait_calm()
        victim, peer = place_of(self._lab.topology)
        place = self._lab.node(victim)
        before = node_state.entries(place, self._device)
        fault = state_faults.make(self._lab, kind, victim, peer=peer)
        began_ns = time.monotonic_ns()
        injected_ns = fault.inject()
        try:
            repaired = self._await("repair.verified", began_ns, victim)
            (raised, *_) = self._told("fault.raised", began_ns, victim, kind)
            until_ns = repaired.at_ns + SECOND
            self._await_fates(until_ns)
            after = node_state.entries(place, self._device)
        finally:
            fault.heal()
        others, own = self._flows(victim, peer, began_ns)
        outage = measure_outage(own, began_ns)
        return Wedge(
            fault=kind,
            named_ms=(raised.at_ns - injected_ns) / 1e6,
            repaired_ms=(repaired.at_ns - raised.at_ns) / 1e6,
            is_restored=sorted(before[0] + before[1]) == sorted(after[0] + after[1]),
            others_lost=count_lost(others, since_ns=began_ns, until_ns=until_ns),
            others=sum(began_ns <= flow.start_ns < until_ns for flow in others),
            peer_outage_ms=None if outage.duration_ns is None else outage.duration_ns / 1e6,
        )

    def hole(self, number: int) -> Hole:
        """Swallow what is large, and see it named and sized."""
        self._bench.wait_calm()
        fault, layer = hole_in(self._lab, LIMITS[number % len(LIMITS)])
        injected_ns = fault.inject()
        try:
            sized = wait_until(
                lambda: next(iter(self._sizes(injected_ns, layer)), None),
                timeout_s=TELL_S,
                what="the size of the black hole",
                poll_s=0.1,
            )
            size = min(int(str(sized.fields[way])) for way in ("outbound_bytes", "inbound_bytes"))
            is_exact = self._pings(sized, size, layer) and not self._pings(sized, size + 1, layer)
            pause_until(injected_ns + 4 * SECOND)
            first = self._first_verdicts(injected_ns)
        finally:
            fault.heal()
        if not first:
            raise LabError("nobody named the black hole")
        return Hole(
            first_ms=min(first.values()),
            last_ms=max(first.values()),
            named_by=len(first),
            nodes=len(self._daemons.nodes),
            size_ms=(sized.at_ns - injected_ns) / 1e6,
            size_bytes=size,
            node=sized.node,
            peer=str(sized.fields["peer"]),
            layer=layer,
            is_exact=is_exact,
        )

    def _await(self, name: str, since_ns: int, node: str) -> Event:
        return wait_until(
            lambda: next(iter(self._told(name, since_ns, node)), None), timeout_s=TELL_S, what=name, poll_s=0.2
        )

    def _told(self, name: str, since_ns: int, node: str, fault: str = "") -> list[Event]:
        told = [each for each in self._daemons.events(node, since_ns=since_ns) if each.name == name]
        return [each for each in told if not fault or each.fields["fault"] == fault]

    def _sizes(self, since_ns: int, layer: str) -> list[Event]:
        """Measured sizes below what the devices promise; a path's own is that of what it crosses, less the headers."""
        return [
            event
            for event in self._daemons.events(since_ns=since_ns)
            if event.name == "mtu.measured"
            and event.fields["layer"] == layer
            and int(str(event.fields["outbound_bytes"])) < int(str(event.fields["expected_bytes"]))
        ]

    def _first_verdicts(self, since_ns: int) -> Mapping[str, float]:
        first: dict[str, float] = {}
        for event in self._daemons.events(since_ns=since_ns):
            if event.name == "verdict.changed" and event.fields["fault"] == "mtu-black-hole":
                first.setdefault(event.node, (event.at_ns - since_ns) / 1e6)
        return first

    def _pings(self, sized: Event, size: int, layer: str) -> bool:
        """Whether an IPv4 packet of so many bytes, not to be fragmented, is answered."""
        node = self._lab.topology.nodes[str(sized.fields["peer"])]
        tunnel = node.wireguard_ip or self._lab.topology.location_of(node.name).wireguard_ip
        target = node.overlay_ip if layer == "overlay" else tunnel
        command = ["ping", "-n", "-c", "3", "-i", "0.2", "-W", "1", "-M", "do", "-s", str(size - 28), str(target)]
        return self._lab.node(sized.node).run(command).returncode == 0

    def _await_fates(self, until_ns: int) -> None:
        pause_until(until_ns)

        def are_known() -> bool:
            settled = self._traffic.settled_flows(since_ns=until_ns - SECOND)
            return bool(settled) and settled[-1].start_ns >= until_ns - SECOND // 10

        wait_until(are_known, timeout_s=TELL_S, what="the fate of all flows", poll_s=0.1)

    def _flows(self, victim: str, peer: str, since_ns: int) -> tuple[list[Flow], list[Flow]]:
        """Flows of the other pairs, and of the one that was wedged."""
        pairs = traffic_pairs(self._lab.topology)
        flows = {
            pair: [each for each in self._traffic.records(*pair).flows if each.start_ns >= since_ns] for pair in pairs
        }
        own = flows.pop((victim, peer))
        return [flow for each in flows.values() for flow in each], own


def place_of(topology: Topology) -> tuple[str, str]:
    """Victim and peer of a wedge: neighbours that nobody else needs to reach anybody."""
    if fabric_of(topology).carries_overlay:
        return state_faults.usual_place(topology, OF_ONE_PEER[0])
    members = topology.members(list(topology.locations)[-1])
    return members[-1].name, members[-2].name


def traffic_pairs(topology: Topology) -> list[tuple[str, str]]:
    """The wedged pair, and the victim with two others, both ways."""
    victim, peer = place_of(topology)
    others = [name for name in topology.nodes if name not in (victim, peer)]
    chosen = others[0], others[-1]
    return [(victim, peer), *((victim, other) for other in chosen), *((other, victim) for other in chosen)]


def hole_in(lab: Lab, limit: int) -> tuple[Fault | StateFault, str]:
    """The black hole of a topology, and the layer on which it is to be measured.

    Under WireGuard everything that leaves a node is as large as the tunnel makes it, and the limit is the lab's own.
    """
    if fabric_of(lab.topology).carries_overlay:
        return state_faults.make(lab, "mtu-black-hole"), "wireguard"
    leader = list(lab.topology.locations.values())[-1].leader
    return faults.mtu_black_hole(lab, leader, limit_bytes=limit), "overlay"


def settings() -> Settings:
    """Daemons that may put back single entries, as often as they are damaged here."""
    rungs = dict.fromkeys(("neighbour", "fdb", "route"), True)
    return {**QUICK, "daemon": {"mode": "enforce"}, "repair": {**rungs, "actions_per_minute": 60}}


def summarise(wedges: Sequence[Wedge], holes: Sequence[Hole]) -> dict[str, object]:
    """Medians and maxima, and whether each promise was kept in every trial."""
    return {
        "wedges": len(wedges),
        "named_ms": _span([each.named_ms for each in wedges]),
        "repaired_ms": _span([each.repaired_ms for each in wedges]),
        "peer_outage_ms": _span([each.peer_outage_ms for each in wedges if each.peer_outage_ms is not None]),
        "restored": sum(each.is_restored for each in wedges),
        "others_lost": sum(each.others_lost for each in wedges),
        "others": sum(each.others for each in wedges),
        "holes": len(holes),
        "first_verdict_ms": _span([each.first_ms for each in holes]),
        "last_verdict_ms": _span([each.last_ms for each in holes]),
        "named_by_all": sum(each.named_by == each.nodes for each in holes),
        "size_ms": _span([each.size_ms for each in holes]),
        "exact": sum(each.is_exact for each in holes),
        "is_kept": is_kept(wedges, holes),
    }


def is_kept(wedges: Sequence[Wedge], holes: Sequence[Hole]) -> bool:
    """Whether something was tried, and every trial met every target."""
    return (
        bool(wedges or holes)
        and all(
            each.repaired_ms <= TARGETS["repair_ms"] and each.is_restored and each.others_lost <= TARGETS["others_lost"]
            for each in wedges
        )
        and all(
            each.named_by == each.nodes
            and each.last_ms <= TARGETS["verdict_ms"]
            and each.size_ms <= TARGETS["size_ms"]
            and each.is_exact
            for each in holes
        )
    )


def _span(values: Sequence[float]) -> Mapping[str, float | None]:
    if not values:
        return {"median": None, "max": None}
    return {"median": round(statistics.median(values), 1), "max": round(max(values), 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns 0 when every promise was kept, 1 when one was not, 2 on failure."""
    options = _parser().parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Mapping[str, object]] = {}
    kept: list[bool] = []
    try:
        for topology in (options.topology,) if options.topology else WITH_ENTRIES:
            wedges, holes = _measure(topology, options)
            summary = summarise(wedges, holes)
            trials = {"wedges": list(map(dataclasses.asdict, wedges)), "holes": list(map(dataclasses.asdict, holes))}
            found[topology] = {"summary": summary, **trials}
            kept.append(is_kept(wedges, holes))
            print(topology, json.dumps(summary), flush=True)
    except LabError as error:
        print(f"bench-cures: {error}", file=sys.stderr)
        return 2
    finally:
        _write(found, options.output)
    return 0 if all(kept) else 1


def _measure(topology: str, options: argparse.Namespace) -> tuple[list[Wedge], list[Hole]]:
    directory = options.output.resolve().parent / "cures" / topology
    wedges: list[Wedge] = []
    holes: list[Hole] = []
    with (
        Lab.up(topology, backend=options.backend) as lab,
        Daemons(lab, directory, settings=settings()) as daemons,
        Traffic(lab, directory, pairs=traffic_pairs(lab.topology), rate=RATE) as traffic,
    ):
        cures = Cures(lab, daemons, traffic)
        cures.settle()
        for number in range(options.wedges):
            wedges.append(cures.wedge(OF_ONE_PEER[number % len(OF_ONE_PEER)]))
            print(f"{topology} {wedges[-1]}", file=sys.stderr, flush=True)
        for number in range(options.holes):
            holes.append(cures.hole(number))
            print(f"{topology} {holes[-1]}", file=sys.stderr, flush=True)
    return wedges, holes


def _write(found: Mapping[str, Mapping[str, object]], path: Path) -> None:
    document = {
        "benchmark": "cures",
        "method": (__doc__ or "").strip(),
        "commit": commit_facts(),
        "machine": machine_facts(),
        "targets": TARGETS,
        "topologies": found,
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-cures ARGS=", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topology", help="this topology only")
    parser.add_argument("--wedges", type=int, default=10, help="damaged entries in each topology (default 10)")
    parser.add_argument("--holes", type=int, default=5, help="black holes in each topology (default 5)")
    parser.add_argument("--backend", default="auto", help="which kernel (default auto)")
    parser.add_argument("--output", type=Path, default=Path("build/bench/cures.json"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
