"""Kilo's change of leaders, with daemons and without: `python -m netnslab.bench_leaders`, as root.

Rounds of each kind, as Kilo's agents do them:

    annotation    the annotation moves from b1 to b2 and back: two changes a round
    agent-end     b1's agent is ended by SIGTERM and the others elect b2; then it is started again
    agent-death   b1's agent is dead and the others elect b2, while b1's kernel goes on as if it led; then it is revived
    restart       a member's agent starts again, and a leader's: 0.2 s in which it believes to be alone
    agent-cycle   b1's agent is ended by SIGTERM and started a second later: one change
    removal       b1's Node object is deleted, and made again; with `--agent` alone

Kilo's agents are played by the lab. With `--agent PATH` it is Kilo's own program, kg, that runs on every node, beside a
stand-in for the Kubernetes API; `--agents-first` runs it before the daemons, as if each had a machine of its own.

`without` are the rounds of the bare mesh, `with` those of the same mesh with six daemons that are told nothing but the
mesh key's path and the mode. `observing` are the same six daemons that may move nothing: six nodes share this machine's
cores, so the agents played here are slower beside daemons than on machines of their own, and only what daemons decide
differs between `observing` and `with`. `gap_ms` is how long no new flow between members of the two locations succeeded
after a change, `lost` how many flows were lost: with daemons that act neither may be more. `agents_ms` is how long the
agents took to write: what a gap grows by it is this machine's doing. When a played agent hears of a change is drawn by
lot, and makes most of a gap: all sides are dealt the same lots (`--seed`), and `longer` compares them change by change.
How soon they followed is the time from before the first command to the instant at which the engine of the last node has
taken over. Between rounds the mesh is left alone until a daemon's patience with an agent at work is whole again. All is
counted until six seconds after the agents' last write. The figures are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median, stdev

from netnslab.daemons import Daemons, Settings
from netnslab.kilo_agents import KiloAgents, Rewriting
from netnslab.kilo_processes import RealKiloAgents
from netnslab.lab import Lab
from netnslab.leader_changes import accusations, follow, moves
from netnslab.machine import machine_facts
from netnslab.process import being_first
from netnslab.traffic_report import count_lost, longest_gap_ns
from netnslab.traffic_source import SETTLED_AFTER_NS, Traffic
from netnslab.waiting import pause_until

SECOND = 1_000_000_000
GOAL_NS = 3 * SECOND
"""What is aimed at; reported, not asserted."""
READY_S = 120.0
CALM_NS = 10 * SECOND
"""As long as it takes a daemon to forgive an agent that has worked (core/failover/topology_change_hold.py)."""
AFTERWARDS_NS = 6 * SECOND

FORMER, LEADER = "b1", "b2"

KINDS = ("annotation", "agent-end", "agent-death", "restart", "agent-cycle")
KINDS_OF_REAL_AGENTS = ("removal",)

SIDES: Mapping[str, Settings | None] = {"without": None, "observing": {"daemon": {"mode": "observe"}}, "with": {}}
"""What the daemons are told beside the minimal configuration; None where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change and what came of it.

    Attributes:
        followed_ns: by node, from the first command to the mesh with the new leader; empty where none was to follow.
        mistaken: topologies that were taken over although nothing had changed.
        accused, moved: verdicts that say traffic is broken, and failovers.
        gap_ns: the longest time in which no new flow succeeded.
        lost: new flows.
        agents_ns: from the agents' first command to their last.
    """

    kind: str
    followed_ns: Mapping[str, int] = field(default_factory=dict)
    mistaken: int = 0
    accused: Sequence[str] = ()
    moved: Sequence[str] = ()
    gap_ns: int = 0
    lost: int = 0
    agents_ns: int = 0


class Rounds:
    """Changes on one mesh, each followed by calm; there may be no daemons on it."""

    def __init__(
        self, lab: Lab, traffic: Traffic, daemons: Daemons | None, agents: KiloAgents | RealKiloAgents
    ) -> None:
        self._nodes = tuple(lab.topology.nodes)
        self._traffic, self._daemons, self._agents = traffic, daemons, agents

    def play(self, kind: str) -> Iterator[Change]:
        """One round of a kind."""
        others = [node for node in self._nodes if node != FORMER]
        match kind:
            case "annotation":
                yield self._change(kind, lambda: self._agents.elect(LEADER), LEADER, self._nodes)
                yield self._change(kind, lambda: self._agents.elect(FORMER), FORMER, self._nodes)
            case "agent-end":
                yield self._change(
                    kind, lambda: self._agents.terminate(FORMER, successor=LEADER), LEADER, others, is_followed=False
                )
                # The node whose agent has ended is none of the mesh: its daemon is not ready until it starts.
                yield self._change(
                    "agent-start",
                    lambda: self._agents.start(FORMER),
                    FORMER,
                    others,
                    is_whole=False,
                    is_followed=False,
                )
            case "agent-death":
                self._agents.die(FORMER)
                yield self._change(kind, lambda: self._agents.elect(LEADER), LEADER, others)
                # The former leader is cut off until its agent lives again: nothing here can be waited for.
                yield self._change(
                    "agent-revival",
                    lambda: self._agents.revive(FORMER, leader=FORMER),
                    FORMER,
                    self._nodes,
                    is_whole=False,
                )
            case "agent-cycle":
                yield self._change(kind, lambda: self._agents.cycle(FORMER), FORMER, self._nodes, is_followed=False)
            case "removal":
                agents = self._agents
                assert isinstance(agents, RealKiloAgents), "played agents have no API"
                yield self._change(kind, lambda: agents.remove(FORMER, successor=LEADER), LEADER, others)
                yield self._change("return", lambda: agents.add(FORMER), FORMER, others, is_whole=False)
            case _:
                for node in ("b3", FORMER):
                    yield self._change(kind, partial(self._agents.restart, node), "", ())

    def _change(
        self,
        kind: str,
        make: Callable[[], Rewriting],
        leader: str,
        nodes: Sequence[str],
        *,
        is_whole: bool = True,
        is_followed: bool = True,
    ) -> Change:
        daemons, taken, events = self._daemons, {}, []
        if daemons is not None and is_whole:
            daemons.wait_ready(timeout_s=READY_S)
        self._traffic.wait_flowing(timeout_s=READY_S)
        pause_until(time.monotonic_ns() + CALM_NS)
        with being_first():  # the API's threads would wait for this one, which six engines keep waiting
            rewriting = make()
        began_ns = rewriting.began_ns
        if daemons is not None and nodes and is_followed:
            taken = follow(lambda since_ns: daemons.events(since_ns=since_ns), began_ns, leader, nodes)
        until_ns = rewriting.done_ns + AFTERWARDS_NS
        pause_until(until_ns + SETTLED_AFTER_NS)
        if daemons is not None:
            events = daemons.events(since_ns=began_ns)
        flows = self._traffic.flows(since_ns=began_ns)
        return Change(
            kind=kind,
            gap_ns=longest_gap_ns(flows, since_ns=began_ns, until_ns=until_ns),
            lost=count_lost(flows, since_ns=began_ns, until_ns=until_ns),
            followed_ns=taken,
            mistaken=0 if nodes else sum(event.name == "topology.changed" for event in events),
            # Whose agent is dead still acts as a leader: of it alone something may be said.
            accused=[each for each in accusations(events) if not (kind == "agent-death" and each.endswith(FORMER))],
            moved=moves(events),
            agents_ns=rewriting.done_ns - began_ns,
        )


def summarise(changes: Iterable[Change]) -> dict[str, object]:
    """Figures of one kind: seconds until the last node had followed, and what was mistaken for a fault."""
    changes = list(changes)
    last = [max(each.followed_ns.values()) for each in changes if each.followed_ns]
    return {
        "changes": len(changes),
        "median_s": round(median(last) / SECOND, 3) if last else None,
        "max_s": round(max(last) / SECOND, 3) if last else None,
        "within_goal": sum(each <= GOAL_NS for each in last) if last else None,
        "mistaken": sum(each.mistaken for each in changes),
        "accused": [text for each in changes for text in each.accused],
        "moved": [text for each in changes for text in each.moved],
        "gap_ms": [round(each.gap_ns / 1e6) for each in changes],
        "lost": [each.lost for each in changes],
        "agents_ms": [round(each.agents_ns / 1e6) for each in changes],
    }


def compare(without: Sequence[Change], others: Sequence[Change]) -> dict[str, object]:
    """How much longer each gap is than that of the same change without daemons; the mean, and its standard error."""
    longer_ms = [(other.gap_ns - bare.gap_ns) / 1e6 for bare, other in zip(without, others, strict=False)]
    return {
        "gap_ms": [round(each) for each in longer_ms],
        "mean_ms": round(mean(longer_ms), 2) if longer_ms else None,
        "error_ms": round(stdev(longer_ms) / len(longer_ms) ** 0.5, 2) if len(longer_ms) > 1 else None,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5, metavar="N", help="rounds of each kind")
    parser.add_argument(
        "--only",
        choices=(*KINDS, *KINDS_OF_REAL_AGENTS),
        action="append",
        help="this kind; may be given more than once",
    )
    parser.add_argument("--side", choices=tuple(SIDES), action="append", help="this one; may be given more than once")
    parser.add_argument("--seed", type=int, default=1, help="of the lots that are drawn")
    parser.add_argument("--topology", default="kilo-flannel", help="whose locations Kilo joins")
    parser.add_argument("--agent", type=Path, metavar="PATH", help="kg, to be run instead of what the lab plays")
    parser.add_argument("--agents-first", action="store_true", help="run kg before the daemons")
    options = parser.parse_args(arguments)
    sides = options.side or SIDES
    kinds = options.only or (*KINDS, *(KINDS_OF_REAL_AGENTS if options.agent else ()))
    if options.agent is None and (unplayed := set(kinds) & set(KINDS_OF_REAL_AGENTS)):
        parser.error(f"{', '.join(sorted(unplayed))}: only with --agent")
    found: dict[str, dict[str, list[Change]]] = {side: {} for side in sides}
    try:
        for side, changes in found.items():
            with (
                tempfile.TemporaryDirectory() as scratch,
                Lab.up(options.topology) as lab,
                ExitStack() as stack,
            ):
                agents = _agents(lab, options, Path(scratch), stack)
                traffic = stack.enter_context(Traffic(lab, Path(scratch)))
                settings = SIDES[side]
                daemons = None
                if settings is not None:
                    daemons = stack.enter_context(Daemons(lab, Path(scratch), config="minimal", settings=settings))
                rounds = Rounds(lab, traffic, daemons, agents)
                for kind in kinds:
                    for _ in range(options.trials):
                        for change in rounds.play(kind):
                            changes.setdefault(change.kind, []).append(change)
    finally:
        _print(found, options.topology)  # an hour of rounds is not lost with the last of them
    return 0


def _agents(lab: Lab, options: argparse.Namespace, directory: Path, stack: ExitStack) -> KiloAgents | RealKiloAgents:
    if options.agent is None:
        return KiloAgents(lab, random.Random(options.seed))
    return stack.enter_context(RealKiloAgents(lab, options.agent, directory, is_first=options.agents_first))


def _print(found: Mapping[str, Mapping[str, Sequence[Change]]], topology: str) -> None:
    figures = {side: {kind: summarise(changes) for kind, changes in kinds.items()} for side, kinds in found.items()}
    longer = {
        side: {kind: compare(found["without"].get(kind, ()), changes) for kind, changes in kinds.items()}
        for side, kinds in found.items()
        if side != "without" and "without" in found
    }
    document = {
        "machine": machine_facts(),
        "topology": topology,
        "goal_s": GOAL_NS // SECOND,
        **figures,
        "longer": longer,
    }
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    sys.exit(main())
