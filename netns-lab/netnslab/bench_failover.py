"""How long an outage lasts, over many injections: `python -m netnslab.bench_failover`, as root.

Each round: all daemons ready and no traffic diverted; the fault is armed, injected at a random phase
of the probes, held until new flows have worked again for a second, healed; traffic returns to the
leader. The outage is measured by the traffic source from pod to pod, both ways and UDP and TCP
together: the time from the fault to the first flow after which all flows succeed for a second.

Rounds follow each other within ten seconds, so that each finds legs that were broken just now and are judged with
patience. `--calm 62` leaves the mesh alone before each fault until they are trusted again, as they are where faults are
rare. A fault that spares known flows knows those of the two seconds before it: of daemons at rest these are few, so
that they call it a black hole.

With `--topology submariner` the faults are those that a worker goes around by itself: its own leg to the gateway is
cut, or the gateway takes no new flows over any worker's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from netnslab import faults, marks, submariner
from netnslab.bench_report import Round, judge, summarise
from netnslab.daemons import Daemons, Event
from netnslab.errors import LabError
from netnslab.faults import Fault
from netnslab.lab import Lab
from netnslab.machine import machine_facts
from netnslab.traffic_report import injection_instant, judge_source, measure_outage
from netnslab.traffic_source import BOTH_WAYS, Traffic
from netnslab.waiting import pause_until, wait_until

SECOND = 1_000_000_000
LEADER = "b1"
FAULTS: Mapping[str, Mapping[str, Callable[[Lab], Fault]]] = MappingProxyType(
    {
        "kilo-flannel": {
            "overlay-new-flows": lambda lab: faults.overlay_black_hole_new_flows(lab, LEADER, memory_s=60),
            "leader-dead": lambda lab: faults.leader_dead(lab, LEADER),
        },
        "submariner": {
            "leg-cut": lambda lab: faults.udp_port_blocked(lab, "b3", port=submariner.PORT),
            "gateway-new-flows": lambda lab: faults.make(
                lab, "overlay-new-flows", LEADER, {"memory_s": 60, "port": submariner.PORT}
            ),
        },
    }
)
# The first failover is measured again and again, so what the daemon does against flapping is set aside.
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "policy": {
        "hold_down": "100ms",
        "wait_to_restore": "1s",
        "actions_per_minute": 60,
        "actions_per_day": 10_000,
        "half_life": "200ms",
    },
    "submariner": {"leg_detour": True},
}
# Long enough for every flow that lasts to be remembered by a fault that spares those.
ARM_NS = 2 * SECOND
# Spreads injections over every phase of the daemon's probes (50 ms) and of slower timers.
MAX_PHASE_NS = SECOND
RESTORE_TIMEOUT_S = 15.0
RETURN_TIMEOUT_S = 120.0

METHOD = (
    "Outage: from the injection to the start of the first new flow after which all new flows (UDP and TCP,"
    " both directions) succeed for 1 s, measured between pods by a process that does not know the daemon."
    " Injection: the start of the first flow lost while nft ran, or the moment nft returned. Resolution: the"
    " distance between flows. Percentiles: nearest rank. Six nodes in network namespaces, default probe"
    " profile, policy as in `settings`."
)


@dataclass(slots=True, kw_only=True)
class Session:
    """All rounds of a run, under one set of daemons and one source of traffic.

    Attributes:
        events: the facts of all daemons, read at the end.
        aborted: why the run ended early; empty when it did not.
    """

    lab: Lab
    daemons: Daemons
    traffic: Traffic
    rounds: list[Round] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    aborted: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns 0 when every injection was survived by a switch of both sides, 1 when not, 2 on failure."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := {*(options.fault or ())} - FAULTS[options.topology].keys():
        parser.error(f"on {options.topology} there is no {', '.join(unknown)}: {', '.join(FAULTS[options.topology])}")
    options.fault = options.fault or list(FAULTS[options.topology])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Lab.up(options.topology, backend=options.backend) as lab:
            session = _play(lab, options)
    except LabError as error:
        print(f"bench-failover: {error}", file=sys.stderr)
        return 2
    document, is_complete = _document(session, options)
    options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    _show(document["summary"], options.output)
    if session.aborted:
        print(f"bench-failover: ended early: {session.aborted}", file=sys.stderr)
    return 0 if is_complete else 1


def _document(session: Session, options: argparse.Namespace) -> tuple[dict[str, object], bool]:
    """The JSON document, and whether every injection that was asked for ended as it should."""
    flows = session.traffic.flows()
    records = {pair: session.traffic.records(*pair) for pair in BOTH_WAYS}
    windows = [window for some in records.values() for window in some.punctuality]
    injections = [judge(each, flows, session.events, windows) for each in session.rounds]
    document: dict[str, object] = {
        "benchmark": "failover",
        "topology": options.topology,
        "method": METHOD,
        "settings": SETTINGS,
        "rate_per_direction": options.rate,
        "seed": options.seed,
        "calm_s": options.calm,
        "aborted": session.aborted,
        "machine": machine_facts(),
        "traffic_source": {
            " -> ".join(pair): dataclasses.asdict(judge_source(some.punctuality)) for pair, some in records.items()
        },
        "summary": {name: summarise([each for each in injections if each.fault == name]) for name in options.fault},
        "injections": [dataclasses.asdict(each) for each in injections],
    }
    ended_well = sum(each.outage_ns is not None and each.both_sides_switched for each in injections)
    return document, ended_well == options.count * len(options.fault)


def _play(lab: Lab, options: argparse.Namespace) -> Session:
    rng = random.Random(options.seed)
    directory = options.output.resolve().parent / "failover"
    progress = Console(stderr=True, highlight=False)
    # What is not Kilo's the daemons find out by themselves, and are asked for nothing before each knows all others.
    config = "full" if options.topology == "kilo-flannel" else "minimal"
    with Daemons(lab, directory, settings=SETTINGS, config=config) as daemons:
        wait_until(lambda: _is_known(daemons, lab), timeout_s=60, what="the nodes to know each other", poll_s=0.3)
        daemons.wait_ready(timeout_s=60)
        with Traffic(lab, directory, rate=options.rate) as traffic:
            traffic.wait_flowing()
            session = Session(lab=lab, daemons=daemons, traffic=traffic)
            try:
                for name in options.fault:
                    for number in range(options.count):
                        progress.print(f"{name}: injection {number + 1} of {options.count}")
                        make = FAULTS[options.topology][name]
                        pause_until(time.monotonic_ns() + options.calm * SECOND)
                        _play_round(session, name, make, phase_ns=rng.randrange(MAX_PHASE_NS))
            except LabError as error:
                session.aborted = str(error)
            session.events = daemons.events()
    return session


def _is_known(daemons: Daemons, lab: Lab) -> bool:
    said = [daemons.status(node) for node in lab.topology.nodes]
    return all(each is not None and len(each["pairs"]) > 0 for each in said)


def _play_round(session: Session, name: str, make: Callable[[Lab], Fault], *, phase_ns: int) -> None:
    lab, nodes = session.lab, tuple(session.lab.topology.nodes)
    session.daemons.wait_ready(timeout_s=RETURN_TIMEOUT_S)
    fault = make(lab)
    with fault.armed():
        pause_until(time.monotonic_ns() + ARM_NS + phase_ns)
        before_ns = time.monotonic_ns()
        after_ns = fault.inject()
        with suppress(LabError):  # an outage without end is a result as well
            wait_until(
                lambda: _is_restored(session.traffic, before_ns, after_ns),
                timeout_s=RESTORE_TIMEOUT_S,
                what="service to be restored",
                poll_s=0.25,
            )
        diverted = marks.diverted(lab, nodes)
        healed_ns = fault.heal()
    try:
        wait_until(
            lambda: not marks.diverted(lab, nodes),
            timeout_s=RETURN_TIMEOUT_S,
            what="traffic to return",
            poll_s=0.25,
        )
        pause_until(time.monotonic_ns() + SECOND // 2)  # what the return itself loses is lost about here
    finally:
        session.rounds.append(
            Round(
                fault=name,
                before_ns=before_ns,
                after_ns=after_ns,
                healed_ns=healed_ns,
                ended_ns=time.monotonic_ns(),
                diverted=diverted,
            )
        )


def _is_restored(traffic: Traffic, before_ns: int, after_ns: int) -> bool:
    flows = traffic.settled_flows(since_ns=before_ns)
    injected_ns = injection_instant(flows, before_ns=before_ns, after_ns=after_ns)
    outage = measure_outage(flows, injected_ns)
    return outage.first_lost_ns is not None and outage.restored_ns is not None


# Column heading and the entry of the summary it shows.
COLUMNS = MappingProxyType(
    {
        "n": "injections",
        "restored": "restored",
        "both sides": "both_sides_switched",
        "p50": "outage_p50_ms",
        "p99": "outage_p99_ms",
        "max": "outage_max_ms",
        "lost": "lost_flows",
    }
)


def _show(summary: object, path: Path) -> None:
    assert isinstance(summary, Mapping)
    table = Table(title="outage seen by traffic, ms (goal: p50 200, p99 400)", box=SIMPLE, padding=0)
    table.add_column("fault", no_wrap=True)
    for heading in (*COLUMNS, "goal"):
        table.add_column(f"  {heading}", justify="right", no_wrap=True)
    for fault, row in summary.items():
        figures = ("-" if row[key] is None else str(row[key]) for key in COLUMNS.values())
        table.add_row(fault, *figures, "met" if row["meets_goal"] else "missed")
    console = Console()
    console.print(table)
    console.print(f"details: {path}", highlight=False, soft_wrap=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netnslab.bench_failover", description="outage over many injected faults")
    parser.add_argument("--count", type=int, default=20, help="injections of each fault (default 20)")
    parser.add_argument("--topology", default="kilo-flannel", choices=list(FAULTS), help="default kilo-flannel")
    names = "; ".join(f"{topology}: {', '.join(each)}" for topology, each in FAULTS.items())
    parser.add_argument("--fault", action="append", help=f"default: every one of the topology's, in turn ({names})")
    parser.add_argument("--rate", type=int, default=200, help="new flows a second and direction (default 200)")
    parser.add_argument("--calm", type=int, default=0, metavar="S", help="leave the mesh alone before each fault")
    parser.add_argument("--seed", type=int, default=0, help="of the random phases (default 0)")
    parser.add_argument("--backend", default="auto", help="host, userspace, vm or auto (default)")
    parser.add_argument("--output", type=Path, default=Path("build/bench/failover.json"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
