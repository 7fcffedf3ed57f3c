"""Daemons in storms of random troubles: `python -m netnslab.bench_storms`, as root.

A round, for each mode with the same storms:

    all daemons ready, nobody diverted -- a storm (`netnslab.storms`) -- all healed -- ready and nobody diverted again

Traffic runs from pod to pod all the time. In mode observe the daemons move nothing: what is lost there is what the
storm takes. In mode enforce they move traffic, and whatever they do, it must be no worse: nothing may be lost while the
mesh is well, nor on the way home, and less in all than without them. In the end they are stopped and swept, and each
kernel must hold exactly what it held before the first one started.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netnslab import marks, storms
from netnslab.bench_failover import ARM_NS, SETTINGS
from netnslab.bench_flapping import MOVES, RELAYS
from netnslab.daemons import Daemons, is_ready
from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.live_state import kernel_objects
from netnslab.machine import commit_facts, machine_facts
from netnslab.shutdown import Interruption
from netnslab.storms import Performer, Trouble
from netnslab.topology_file import load
from netnslab.traffic_records import Flow
from netnslab.traffic_source import SETTLED_AFTER_NS, Traffic
from netnslab.waiting import pause_until, wait_until

SECOND = 1_000_000_000
TOPOLOGY = "kilo-flannel"
ENFORCE, OBSERVE = "enforce", "observe"
MODES = (ENFORCE, OBSERVE)
AFTERMATH_NS = 2 * SECOND
"""A flow that begins so long after the last fault is the daemons' business: by then neighbours are known again."""
CALM_NS = 2 * SECOND
"""Watched after each return, before the next storm."""
TIMEOUT_S = 120.0

METHOD = (
    "Storms are drawn from the seed and are the same in both modes. `lost`: new flows, UDP and TCP in both directions,"
    " that did not work and began in the storm or within 2 s of its end; `lost_after`: later, until all daemons were"
    " ready and nobody diverted; `lost_calm`: in the two seconds before each storm and after each return."
    " `share_of_lost`: what is lost in mode enforce, of what is lost in mode observe. `orphans`: nodes whose kernel"
    " differs after stop and sweep."
)

Document = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Round:
    """One storm and what came of it.

    Attributes:
        storm: what went wrong.
        home_after_s: from its end until all was as before.
        moves: of each node that moved, as far as its daemon remembers them: those that were ended begin anew.
        problem: what did not come to pass in time; empty when all did.
    """

    storm: Sequence[Trouble]
    flows: int = 0
    lost: int = 0
    lost_after: int = 0
    lost_calm: int = 0
    home_after_s: float = 0.0
    moves: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


def count_lost(flows: Sequence[Flow], played: Round, *, began_ns: int, ended_ns: int, home_ns: int) -> None:
    """Put each flow where it belongs: before the storm, in it, on the way home, or after the return.

    Args:
        flows: of the two seconds before the storm, and of everything until two seconds after the return.
        played: gets the numbers.
        began_ns: when the storm began.
        ended_ns: when its last trouble was over.
        home_ns: when all daemons were seen to be ready and nobody diverted.
    """
    played.flows = len(flows)
    for flow in flows:
        if flow.is_ok:
            continue
        if began_ns - SETTLED_AFTER_NS <= flow.start_ns < ended_ns + AFTERMATH_NS:
            # One that had begun just before met the storm as well.
            played.lost += 1
        elif ended_ns + AFTERMATH_NS <= flow.start_ns < home_ns:
            played.lost_after += 1
        else:
            played.lost_calm += 1


class Storms:
    """All rounds of one mode, under one set of daemons that are started again whenever they were killed."""

    def __init__(self, lab: Lab, daemons: Daemons, traffic: Traffic, *, interruption: Interruption) -> None:
        self.lab, self.daemons, self.traffic = lab, daemons, traffic
        self.nodes = tuple(lab.topology.nodes)
        self._interruption = interruption

    def play(self, storm: Sequence[Trouble]) -> Round:
        """One storm, from calm to calm."""
        played = Round(storm=storm)
        performer = Performer(self.lab, self.daemons)
        calm_ns = time.monotonic_ns()
        began_ns = ended_ns = home_ns = 0
        try:
            performer.arm(storm)
            pause_until(calm_ns + ARM_NS)
            began_ns = time.monotonic_ns()
            for instant in storms.course(storm):
                pause_until(began_ns + instant.at_ns)
                performer.perform(instant)
            ended_ns = time.monotonic_ns()
            self.wait_home()
            home_ns = time.monotonic_ns()
        except LabError as error:
            played.problem = str(error)
        finally:
            performer.clear()
        if not played.problem:
            pause_until(home_ns + CALM_NS + SETTLED_AFTER_NS)
            flows = [flow for flow in self.traffic.flows(since_ns=calm_ns) if flow.start_ns < home_ns + CALM_NS]
            count_lost(flows, played, began_ns=began_ns, ended_ns=ended_ns, home_ns=home_ns)
            played.home_after_s = round((home_ns - ended_ns) / SECOND, 2)
        told = self.daemons.events(since_ns=calm_ns)
        played.moves = dict(Counter(event.node for event in told if event.name in MOVES))
        return played

    def wait_home(self) -> None:
        """Wait until every daemon is ready and nobody diverted.

        Raises:
            LabError: it takes longer than TIMEOUT_S; the message tells who is not.
        """
        try:
            wait_until(self._are_home, timeout_s=TIMEOUT_S, what="traffic to return", poll_s=0.25)
        except LabError as error:
            told = {node: self.daemons.status(node) for node in self.nodes}
            unready = [node for node in self.nodes if not is_ready(told[node])]
            diverted = marks.diverted(self.lab, self.nodes)
            raise LabError(f"{error}: not ready {unready}, diverted {list(diverted)}") from error

    def _are_home(self) -> bool:
        self._interruption.check()
        return all(is_ready(self.daemons.status(node)) for node in self.nodes) and not marks.diverted(
            self.lab, self.nodes
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when nothing was made worse, 1 when something was, 2 when the lab failed."""
    options = _parser().parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)
    nodes = tuple(load(TOPOLOGY).nodes)
    drawn = [storms.draw(rng, nodes, RELAYS) for _ in range(options.storms)]
    try:
        with Interruption() as interruption:
            runs = [_play(mode, drawn, options, interruption) for mode in options.mode or MODES]
    except LabError as error:
        print(f"bench-storms: {error}", file=sys.stderr)
        return 2
    document = conclude(runs, options.seed)
    options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document["summary"], indent=2))
    return 0 if is_well(document) else 1


def _play(
    mode: str, drawn: Sequence[Sequence[Trouble]], options: argparse.Namespace, interruption: Interruption
) -> Document:
    directory = options.output.resolve().parent / f"storms-{mode}"
    settings = {**SETTINGS, "daemon": {"mode": mode}}
    rounds: list[Round] = []
    with Lab.up(TOPOLOGY, backend=options.backend) as lab:
        before = {node: kernel_objects(lab.node(node)) for node in lab.topology.nodes}
        with Daemons(lab, directory, settings=settings) as daemons:
            daemons.wait_ready(timeout_s=60)
            with Traffic(lab, directory, rate=options.rate) as traffic:
                traffic.wait_flowing()
                player = Storms(lab, daemons, traffic, interruption=interruption)
                player.wait_home()
                for number, storm in enumerate(drawn, 1):
                    rounds.append(player.play(storm))
                    print(f"{mode} {number} of {len(drawn)}: {_told(rounds[-1])}", file=sys.stderr, flush=True)
                    if rounds[-1].problem:
                        break
            daemons.stop()
            daemons.sweep()
        orphans = [node for node in before if before[node] != kernel_objects(lab.node(node))]
    return {
        "mode": mode,
        "settings": settings,
        "load": round(os.getloadavg()[1], 1),
        "orphans": orphans,
        "rounds": [dataclasses.asdict(each) for each in rounds],
    }


def _told(played: Round) -> str:
    what = ", ".join(f"{each.kind} {each.process}".strip() + f" {each.node}" for each in played.storm)
    lost = f"{played.lost} lost, {played.lost_after} after, {played.lost_calm} in calm"
    return f"{what}: {played.problem or lost}, home after {played.home_after_s} s, moves {dict(played.moves)}"


def conclude(runs: Sequence[Document], seed: int) -> Document:
    """The document of both modes, with sums and the share of flows that the daemons have not saved."""
    sums = {run["mode"]: _sum(run) for run in runs}
    lost = {mode: each["lost"] + each["lost_after"] for mode, each in sums.items()}
    share = round(lost[ENFORCE] / lost[OBSERVE], 3) if lost.get(OBSERVE) and ENFORCE in lost else None
    return {
        "benchmark": "storms",
        "method": METHOD,
        "commit": commit_facts(),
        "machine": machine_facts(),
        "seed": seed,
        "summary": {**sums, "share_of_lost": share},
        "runs": list(runs),
    }


def _sum(run: Document) -> Mapping[str, Any]:
    rounds = run["rounds"]
    return {
        "storms": len(rounds),
        "ended_well": sum(not each["problem"] for each in rounds),
        "flows": sum(each["flows"] for each in rounds),
        "lost": sum(each["lost"] for each in rounds),
        "lost_after": sum(each["lost_after"] for each in rounds),
        "lost_calm": sum(each["lost_calm"] for each in rounds),
        "home_after_max_s": max((each["home_after_s"] for each in rounds), default=None),
        "most_moves": max((count for each in rounds for count in each["moves"].values()), default=0),
        "orphans": run["orphans"],
    }


def is_well(document: Document) -> bool:
    """Whether every storm ended well in every mode, calm cost nothing, and the daemons saved more than they spoilt."""
    sums = [document["summary"][run["mode"]] for run in document["runs"]]
    share = document["summary"]["share_of_lost"]
    return (share is None or share < 1) and all(
        each["ended_well"] == each["storms"]
        and not each["lost_calm"]
        and not each["lost_after"]
        and not each["orphans"]
        for each in sums
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netnslab.bench_storms", description=__doc__.splitlines()[0])
    parser.add_argument("--storms", type=int, default=20, help="how many, in each mode (default 20)")
    parser.add_argument("--mode", action="append", choices=MODES, help="one of them only (default both)")
    parser.add_argument("--rate", type=int, default=100, help="new flows a second and direction (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of all storms (default 0)")
    parser.add_argument("--backend", default="auto", help="host, userspace, vm or auto (default)")
    parser.add_argument("--output", type=Path, default=Path("build/bench/storms.json"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
