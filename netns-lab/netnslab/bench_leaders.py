"""How soon daemons follow Kilo's change of leaders: `python -m netnslab.bench_leaders`, as root.

Six daemons that are told nothing but the mesh key's path and the mode. Rounds of each kind, as Kilo's agents do them:

    annotation    the annotation moves from b1 to b2 and back: two changes a round
    agent-death   b1's agent is dead and the others elect b2, while b1's kernel goes on as if it led; then it is revived
    restart       a member's agent starts again, and a leader's: 0.2 s in which it believes to be alone

Time runs from before the first command to the instant at which the engine of the last node has taken over. Between
rounds the mesh is left alone until a daemon's patience with an agent at work is whole again. What was accused and who
moved is counted for six seconds after each change. The figures are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from netnslab.daemons import Daemons
from netnslab.kilo_agents import KiloAgents, Rewriting
from netnslab.lab import Lab
from netnslab.leader_changes import accusations, follow, moves
from netnslab.machine import machine_facts
from netnslab.waiting import pause_until

SECOND = 1_000_000_000
GOAL_NS = 3 * SECOND
"""What is aimed at; reported, not asserted."""
READY_S = 90.0
CALM_NS = 10 * SECOND
"""As long as it takes a daemon to forgive an agent that has worked (core/failover/topology_change_hold.py)."""
AFTERWARDS_NS = 6 * SECOND

FORMER, LEADER = "b1", "b2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change and what came of it.

    Attributes:
        followed_ns: by node, from the first command to the mesh with the new leader; empty where none was to follow.
        mistaken: topologies that were taken over although nothing had changed.
        accused, moved: verdicts that say traffic is broken, and failovers.
    """

    kind: str
    followed_ns: Mapping[str, int] = field(default_factory=dict)
    mistaken: int = 0
    accused: Sequence[str] = ()
    moved: Sequence[str] = ()


class Rounds:
    """Changes on one mesh, each followed by calm."""

    def __init__(self, lab: Lab, daemons: Daemons) -> None:
        self._nodes = tuple(lab.topology.nodes)
        self._daemons, self._agents = daemons, KiloAgents(lab)

    def play(self, kind: str) -> Iterator[Change]:
        """One round of a kind."""
        others = [node for node in self._nodes if node != FORMER]
        match kind:
            case "annotation":
                yield self._change(kind, lambda: self._agents.elect(LEADER), LEADER, self._nodes)
                yield self._change(kind, lambda: self._agents.elect(FORMER), FORMER, self._nodes)
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
            case _:
                for node in ("b3", FORMER):
                    yield self._change(kind, partial(self._agents.restart, node), "", ())

    def _change(
        self, kind: str, make: Callable[[], Rewriting], leader: str, nodes: Sequence[str], *, is_whole: bool = True
    ) -> Change:
        if is_whole:
            self._daemons.wait_ready(timeout_s=READY_S)
        pause_until(time.monotonic_ns() + CALM_NS)
        began_ns = make().began_ns
        taken = (
            follow(lambda since_ns: self._daemons.events(since_ns=since_ns), began_ns, leader, nodes) if nodes else {}
        )
        pause_until(began_ns + AFTERWARDS_NS)
        events = self._daemons.events(since_ns=began_ns)
        return Change(
            kind=kind,
            followed_ns=taken,
            mistaken=0 if nodes else sum(event.name == "topology.changed" for event in events),
            # Whose agent is dead still acts as a leader: of it alone something may be said.
            accused=[each for each in accusations(events) if not (kind == "agent-death" and each.endswith(FORMER))],
            moved=moves(events),
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
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    kinds = ("annotation", "agent-death", "restart")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5, metavar="N", help="rounds of each kind")
    parser.add_argument("--only", choices=kinds, action="append", help="this kind; may be given more than once")
    parser.add_argument("--topology", default="kilo-flannel", help="whose locations Kilo joins")
    options = parser.parse_args(arguments)
    found: dict[str, list[Change]] = {}
    try:
        with (
            tempfile.TemporaryDirectory() as scratch,
            Lab.up(options.topology) as lab,
            Daemons(lab, Path(scratch), config="minimal") as daemons,
        ):
            rounds = Rounds(lab, daemons)
            for kind in options.only or kinds:
                for _ in range(options.trials):
                    for change in rounds.play(kind):
                        found.setdefault(change.kind, []).append(change)
    finally:
        _print(found, options.topology)  # an hour of rounds is not lost with the last of them
    return 0


def _print(found: Mapping[str, Sequence[Change]], topology: str) -> None:
    figures = {kind: summarise(changes) for kind, changes in found.items()}
    document = {
        "machine": machine_facts(),
        "topology": topology,
        "goal_s": GOAL_NS // SECOND,
        "followed": figures,
    }
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    sys.exit(main())
