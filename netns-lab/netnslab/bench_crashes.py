"""Daemons killed at random instants of failovers and failbacks: `python -m netnslab.bench_crashes`, as root.

A round:

    inject new-flows fault -- kills at random instants of the failover -- all on one standby path, traffic restored
    heal -- kills at random instants of the way back -- nobody diverted, every daemon ready

SIGKILL goes to the engine or the agent of a random node. An ended engine is started again after one of RESTARTS_S; an
engine starts its agent again itself. The fault spares flows that are known below the overlay, so the long-lived
connections between two pods cross every failover: what stalls or breaks them is the daemons' doing. In the end the
daemons are stopped and swept, and each kernel must hold exactly what it held before the first one started.

A run can be taken in turns: `--kills 50 --seed 1 --output 1.json` and so on, then `--merge 1.json 2.json ...`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netnslab import faults, marks
from netnslab.bench_failover import LEADER, SETTINGS
from netnslab.daemons import Daemons, Process, Status, is_ready
from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.live_state import kernel_objects
from netnslab.machine import machine_facts
from netnslab.shutdown import Interruption
from netnslab.traffic_records import Flow
from netnslab.traffic_report import judge_stream, longest_gap_ns, silences
from netnslab.traffic_source import BOTH_WAYS, SETTLED_AFTER_NS, Traffic
from netnslab.waiting import pause_until, wait_until

SECOND = 1_000_000_000
RESTARTS_S = (0.2, 1.0)
"""After what an ended engine is started again: the unit's RestartSec=, and sooner, in the middle of the failover."""
ARM_NS = 2 * SECOND
FAILOVER_NS = SECOND // 2
"""Kills fall into so long a time after the fault: detection, agreement, the move and its verification."""
FAILBACK_NS = 4 * SECOND
"""And after it is healed: the wait to restore, the agreement and the move."""
STEADY_NS = SECOND
MARGIN_NS = SECOND // 5
"""Flows start some milliseconds apart, and are looked for four times a second: so much more is looked at."""
TIMEOUT_S = 60.0
RETRANSMISSION_NS = SECOND // 5
"""TCP's shortest retransmission timeout: an echo of a connection in use that takes longer had a packet lost."""

METHOD = (
    "Each kill is a SIGKILL to the engine or the agent of a random node at a random instant: half within 0.5 s of the"
    " fault, half within 4 s of its end. `stalls`: gaps without an echo of the two long-lived connections that are"
    " longer than TCP's shortest retransmission timeout, i.e. lost packets of established flows. `longest_gap_ms`:"
    " longest time without a new flow that worked. `back_ms`: from a kill until the daemon answers its control socket"
    " again, to a quarter of a second. `orphans`: nodes whose kernel differs after stop and sweep."
)


@dataclass(slots=True, kw_only=True)
class Kill:
    """One process that was ended.

    Attributes:
        after_ns: the instant, after the beginning of its phase.
        at_ns: the same, monotonic.
        restart_s: after what a supervisor starts the engine again; 0 for an agent.
        back_ms: when the daemon was seen to answer again, after the instant; None while it was not, and for a node that
            was hit again before.
    """

    node: str
    process: str
    phase: str
    after_ns: int
    at_ns: int = 0
    restart_s: float = 0.0
    back_ms: float | None = None


@dataclass(slots=True, kw_only=True)
class Round:
    """One fault, and what was killed meanwhile.

    Attributes:
        problem: what did not come to pass in time; empty when all did.
    """

    kills: list[Kill] = field(default_factory=list)
    longest_gap_ms: float = 0.0
    problem: str = ""


Document = dict[str, Any]
"""A run, or several in one, as JSON."""


class Crashes:
    """All rounds of one run, under one set of daemons that are started again whenever they were killed."""

    def __init__(
        self, lab: Lab, daemons: Daemons, traffic: Traffic, *, rng: random.Random, interruption: Interruption
    ) -> None:
        self.lab, self.daemons, self.traffic, self.rng = lab, daemons, traffic, rng
        self.nodes = tuple(lab.topology.nodes)
        self._interruption = interruption
        self._away: dict[str, Kill] = {}

    def play(self, kills: int) -> Round:
        """One fault from arming to the last daemon that is ready again."""
        played = Round()
        try:
            self._await(self._are_home, "every daemon ready and nobody diverted")
            fault = faults.overlay_black_hole_new_flows(self.lab, LEADER, memory_s=60)
            with fault.armed():
                pause_until(time.monotonic_ns() + ARM_NS)
                began_ns = time.monotonic_ns()
                fault.inject()
                self._kill_some(kills - kills // 2, "failover", FAILOVER_NS, played)
                self._await(self._is_moved, "one standby path on all nodes")
                self._await(lambda: self._flows_well(began_ns), "new flows to work again")
                healed_ns = fault.heal()
                self._kill_some(kills // 2, "failback", FAILBACK_NS, played)
                self._await(self._are_home, "traffic to return and every daemon to be ready")
            flows = self.traffic.flows(since_ns=began_ns)
            gap_ns = longest_gap_ns(flows, since_ns=began_ns, until_ns=max(healed_ns, began_ns + SECOND))
            played.longest_gap_ms = round(gap_ns / 1e6, 1)
        except LabError as error:
            played.problem = str(error)
        return played

    def _kill_some(self, count: int, phase: str, within_ns: int, played: Round) -> None:
        """At instants that are chosen beforehand; engines come back a moment later, as a supervisor brings them.

        Nothing here waits for a process: one that is slow to start must not keep others from being started.
        """
        began_ns = time.monotonic_ns()
        instants = sorted(began_ns + self.rng.randrange(within_ns) for _ in range(count))
        waiting: list[str] = []
        ended: dict[str, int] = {}
        while instants or ended:
            due_ns, node = min(((at_ns, node) for node, at_ns in ended.items()), default=(0, ""))
            if node and (not instants or due_ns <= instants[0]):
                pause_until(due_ns)
                self.daemons.start(node)
                del ended[node]
                continue
            pause_until(instants.pop(0))
            # All in turn, but for those that have no process to hit.
            waiting = waiting or self.rng.sample(self.nodes, len(self.nodes))
            node = next((each for each in reversed(waiting) if each not in ended), "")
            if not node:
                continue
            waiting.remove(node)
            kill = self._kill(node, phase, began_ns)
            played.kills.append(kill)
            if kill.process is Process.ENGINE:
                ended[node] = kill.at_ns + int(kill.restart_s * SECOND)

    def _kill(self, node: str, phase: str, began_ns: int) -> Kill:
        """One of a node's two processes: the engine where there is no agent at this moment."""
        process = self.rng.choice(tuple(Process))
        if process is Process.AGENT and not self.daemons.has_agent(node):
            process = Process.ENGINE
        self.daemons.kill(node, process)
        at_ns = time.monotonic_ns()
        restart_s = self.rng.choice(RESTARTS_S) if process is Process.ENGINE else 0.0
        kill = Kill(
            node=node, process=process, phase=phase, after_ns=at_ns - began_ns, at_ns=at_ns, restart_s=restart_s
        )
        self._away[node] = kill
        return kill

    def _status(self, node: str) -> Status | None:
        status = self.daemons.status(node)
        kill = self._away.pop(node, None) if status is not None else None
        if kill is not None:
            kill.back_ms = round((time.monotonic_ns() - kill.at_ns) / 1e6, 1)
        return status

    def _are_home(self) -> bool:
        told = [self._status(node) for node in self.nodes]
        return all(map(is_ready, told)) and not marks.diverted(self.lab, self.nodes)

    def _is_moved(self) -> bool:
        told = [self._status(node) for node in self.nodes]
        ranks = {pair["active_rank"] for status in told if status is not None for pair in status["pairs"]}
        return None not in told and len(ranks) == 1 and 0 not in ranks

    def _flows_well(self, began_ns: int) -> bool:
        """Whether every new flow of the latest second whose flows are all settled has worked."""
        # A flow's fate is settled after a while only, so the second in question ended that long ago.
        since_ns = max(began_ns, time.monotonic_ns() - SETTLED_AFTER_NS - STEADY_NS - MARGIN_NS)
        return are_steady(self.traffic.settled_flows(since_ns=since_ns))

    def _await(self, predicate: Callable[[], bool], what: str) -> None:
        def asked() -> bool:
            self._interruption.check()
            return predicate()

        wait_until(asked, timeout_s=TIMEOUT_S, what=what, poll_s=0.25)


def are_steady(flows: Sequence[Flow]) -> bool:
    """Whether all of them worked, and the first and the last began a second apart."""
    starts = [flow.start_ns for flow in flows]
    return bool(flows) and all(flow.is_ok for flow in flows) and max(starts) - min(starts) >= STEADY_NS


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when every round ended well and nothing was left, 1 when not, 2 when the lab failed."""
    options = _parser().parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if options.merge:
        return _conclude([json.loads(path.read_text(encoding="utf-8")) for path in options.merge], options)
    try:
        with Interruption() as interruption:
            run = _play(options, interruption)
    except LabError as error:
        print(f"bench-crashes: {error}", file=sys.stderr)
        return 2
    return _conclude([run], options)


def _play(options: argparse.Namespace, interruption: Interruption) -> Document:
    directory = options.output.resolve().parent / "crashes"
    with Lab.up("kilo-flannel", backend=options.backend) as lab:
        before = {node: kernel_objects(lab.node(node)) for node in lab.topology.nodes}
        with Daemons(lab, directory, settings=SETTINGS) as daemons:
            daemons.wait_ready(timeout_s=60)
            with Traffic(lab, directory, rate=options.rate) as traffic:
                traffic.wait_flowing()
                crashes = Crashes(lab, daemons, traffic, rng=random.Random(options.seed), interruption=interruption)
                rounds = list(_rounds(crashes, options))
                streams = [_stream(traffic, *pair) for pair in BOTH_WAYS]
            daemons.stop()
            daemons.sweep()
        orphans = [node for node in before if before[node] != kernel_objects(lab.node(node))]
    return {
        "seeds": [options.seed],
        "load": [round(os.getloadavg()[1], 1)],
        "settings": SETTINGS,
        "machine": machine_facts(),
        "streams": streams,
        "orphans": orphans,
        "rounds": [dataclasses.asdict(each) for each in rounds],
    }


def _rounds(crashes: Crashes, options: argparse.Namespace) -> Iterator[Round]:
    left = options.kills
    while left > 0:
        played = crashes.play(min(left, options.per_round))
        left -= max(1, len(played.kills))
        print(f"{options.kills - max(0, left)} of {options.kills} kills: {played.problem or 'well'}", file=sys.stderr)
        yield played
        if played.problem:
            return


def _stream(traffic: Traffic, asking: str, answering: str) -> Mapping[str, object]:
    records = traffic.records(asking, answering)
    report = judge_stream(records)
    return {
        "way": f"{asking} -> {answering}",
        "survived": report.survived,
        "echoes": report.answered,
        "longest_stall_ms": round(report.longest_stall_ns / 1e6, 1),
        "stalls": sum(length_ns >= RETRANSMISSION_NS for length_ns, _ in silences(records)),
    }


def merge(runs: Sequence[Document]) -> Document:
    """One document of several runs: everything that was seen in any of them, and the sum of it."""
    rounds = [each for run in runs for each in run["rounds"]]
    kills = [kill for each in rounds for kill in each["kills"]]
    gaps = sorted(each["longest_gap_ms"] for each in rounds)
    return {
        "benchmark": "crashes",
        "method": METHOD,
        "settings": runs[0]["settings"],
        "machine": runs[0]["machine"],
        "seeds": [seed for run in runs for seed in run["seeds"]],
        "load": [load for run in runs for load in run["load"]],
        "summary": {
            "rounds": len(rounds),
            "ended_well": sum(not each["problem"] for each in rounds),
            "kills": len(kills),
            "by_phase": Counter(kill["phase"] for kill in kills),
            "by_process": Counter(kill["process"] for kill in kills),
            "longest_gap_median_ms": gaps[len(gaps) // 2] if gaps else None,
            "longest_gap_max_ms": gaps[-1] if gaps else None,
            "back_ms": {process: _spread(kills, process) for process in Process},
        },
        "streams": [stream for run in runs for stream in run["streams"]],
        "orphans": [node for run in runs for node in run["orphans"]],
        "rounds": rounds,
    }


def _spread(kills: Sequence[Document], process: str) -> Mapping[str, float]:
    """Median and worst time until a daemon answered again."""
    times = sorted(kill["back_ms"] for kill in kills if kill["process"] == process and kill["back_ms"] is not None)
    return {"seen": len(times), "median": times[len(times) // 2], "max": times[-1]} if times else {"seen": 0}


def _conclude(runs: Sequence[Document], options: argparse.Namespace) -> int:
    document = merge(runs)
    options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: document[key] for key in ("summary", "streams", "orphans")}, indent=2))
    return 0 if is_well(document, options.kills) else 1


def is_well(document: Document, kills: int) -> bool:
    """Whether so many kills cost no packet of an established flow, left nothing behind, and every round ended well."""
    return (
        document["summary"]["kills"] >= kills
        and not any(each["problem"] for each in document["rounds"])
        and all(stream["survived"] and not stream["stalls"] for stream in document["streams"])
        and not document["orphans"]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netnslab.bench_crashes", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs in all (default 200)")
    parser.add_argument("--per-round", type=int, default=8, help="SIGKILLs in one failover and failback (default 8)")
    parser.add_argument("--rate", type=int, default=100, help="new flows a second and direction (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of instants and victims (default 0)")
    parser.add_argument("--backend", default="auto", help="host, userspace, vm or auto (default)")
    parser.add_argument("--merge", type=Path, nargs="+", help="no run: the sum of these runs' JSON, judged as one")
    parser.add_argument("--output", type=Path, default=Path("build/bench/crashes.json"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
