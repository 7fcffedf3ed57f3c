"""A leader that comes and goes: `python -m netnslab.bench_flapping`, as root.

    every period: the leader's overlay loses new flows for half of it, and works for the other half
    afterwards: the leader is well; traffic comes home, or is still kept away (damping), which is no failure

The switches of each relay are counted: what leaves a leader that flaps and does not come back before it has stopped
makes one, and two with the way home. With `--period` near `policy.hold_down` the fault meets every failback, if that is
always tried after the same time; the exponential hold-down is there so that it is not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from netnslab import faults, marks
from netnslab.bench_failover import LEADER
from netnslab.daemons import Daemons, Event
from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.machine import machine_facts
from netnslab.traffic_records import Flow
from netnslab.traffic_source import SETTLED_AFTER_NS, Traffic
from netnslab.waiting import pause_until, wait_until

SECOND = 1_000_000_000
ARM_NS = 2 * SECOND
MOST_SWITCHES = 2
MOVES = ("failover.applied", "failback.applied")
RELAYS = ("a1", "a2", "b1", "b2")
MEMORY_S = 60
"""How long the fault remembers flows; those of the traffic's long-lived connections it spares."""

METHOD = (
    "For half of each period new flows below the leader's overlay are lost. `switches`: moves of each relay from the"
    " first fault to the end of the run, the way home included. `lost_after_s`: how long after the first fault the last"
    " new flow was lost; flapping that is damped stops to matter once traffic is elsewhere. Policy: the defaults."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flapping:
    """What came of one run.

    Attributes:
        flaps: how often the fault began.
        switches: moves, by relay.
        moved: the ranks that relays moved to, in order of time.
        lost: new flows that were lost.
        lost_after_s: when the last of them began, in seconds after the first fault; None where none was lost.
        is_home: whether traffic was back on the mesh's own path at the end.
    """

    flaps: int
    switches: Mapping[str, int]
    moved: Sequence[tuple[float, str, int]]
    lost: int
    lost_after_s: float | None
    is_home: bool

    @property
    def is_damped(self) -> bool:
        """Whether somebody moved, and nobody more often than there and back."""
        return 0 < max(self.switches.values(), default=0) <= MOST_SWITCHES


def judge(events: Sequence[Event], flows: Sequence[Flow], *, began_ns: int, flaps: int, is_home: bool) -> Flapping:
    """What the daemons said and the traffic source saw.

    Args:
        events: of all daemons.
        flows: all of the traffic source.
        began_ns: when the fault began for the first time; CLOCK_MONOTONIC.
        flaps: how often it began.
        is_home: whether no node diverted traffic in the end.
    """
    moves = [each for each in events if each.name in MOVES and each.at_ns >= began_ns]
    lost = [flow.start_ns for flow in flows if not flow.is_ok and flow.start_ns >= began_ns]
    return Flapping(
        flaps=flaps,
        switches={relay: sum(each.node == relay for each in moves) for relay in RELAYS},
        moved=[(round((each.at_ns - began_ns) / SECOND, 3), each.node, _rank(each)) for each in moves],
        lost=len(lost),
        lost_after_s=round((max(lost) - began_ns) / SECOND, 3) if lost else None,
        is_home=is_home,
    )


def _rank(event: Event) -> int:
    rank = event.fields.get("to_rank")
    return rank if isinstance(rank, int) else -1


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when there was a move and at most there and back, 1 when not, 2 when the lab failed."""
    options = _parser().parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Lab.up("kilo-flannel", backend=options.backend) as lab:
            found = _play(lab, options)
    except LabError as error:
        print(f"bench-flapping: {error}", file=sys.stderr)
        return 2
    document = {
        "benchmark": "flapping",
        "method": METHOD,
        "seconds": options.seconds,
        "period_s": options.period,
        "machine": machine_facts(),
        "found": asdict(found),
    }
    options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document["found"], indent=2))
    return 0 if found.is_damped else 1


def _play(lab: Lab, options: argparse.Namespace) -> Flapping:
    directory = options.output.resolve().parent / "flapping"
    half_ns = int(options.period * SECOND / 2)
    with Daemons(lab, directory) as daemons:
        daemons.wait_ready(timeout_s=60)
        with Traffic(lab, directory, rate=options.rate) as traffic:
            traffic.wait_flowing()
            fault = faults.overlay_black_hole_new_flows(lab, LEADER, memory_s=MEMORY_S)
            with fault.armed():
                pause_until(time.monotonic_ns() + ARM_NS)
                began_ns, flaps = time.monotonic_ns(), 0
                while (at_ns := began_ns + 2 * flaps * half_ns) < began_ns + options.seconds * SECOND:
                    pause_until(at_ns)
                    fault.inject()
                    pause_until(at_ns + half_ns)
                    fault.heal()
                    flaps += 1
            nodes = tuple(lab.topology.nodes)
            with suppress(LabError):
                wait_until(lambda: not marks.diverted(lab, nodes), timeout_s=options.wait, what="traffic to return")
            is_home = not marks.diverted(lab, nodes)
            pause_until(time.monotonic_ns() + SETTLED_AFTER_NS)
            return judge(
                daemons.events(), traffic.flows(since_ns=began_ns), began_ns=began_ns, flaps=flaps, is_home=is_home
            )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netnslab.bench_flapping", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=300, help="how long the leader flaps (default 300)")
    parser.add_argument("--period", type=float, default=1.0, help="of one flap, in seconds (default 1)")
    parser.add_argument("--wait", type=float, default=60.0, help="for traffic to return, in seconds (default 60)")
    parser.add_argument("--rate", type=int, default=100, help="new flows a second and direction (default 100)")
    parser.add_argument("--backend", default="auto", help="host, userspace, vm or auto (default)")
    parser.add_argument("--output", type=Path, default=Path("build/bench/flapping.json"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
