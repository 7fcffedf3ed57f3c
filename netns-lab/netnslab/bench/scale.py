"""What a session costs by the number of sessions, and 1 000 peers on one core.

The probing node is pinned to the first core. The answering side plays all peers in one process on the last core, each
peer an identity with keys, replay windows and limits of its own, told apart by the port it listens on.
"""

from __future__ import annotations

import argparse
import os
import time

from rich.console import Console

from netnslab.bench import links, report
from netnslab.bench.cpu import LANE
from netnslab.bench.engine_load import UNLIMITED, Pair, gained, lateness, stalls, verdicts, watch
from netnslab.bench.figures import MS, ratio
from netnslab.bench.rig import ANSWERER, MEMBERS, PROBER, Rig, RigPlan, Session
from netnslab.bench.world import World
from netnslab.waiting import pause_until

NAME = "scale"
SIZES = (50, 200, 1000, 4000)
COLUMNS = (
    *("sessions", "peers", "flow", "probes_per_s", "near_percent", "us_a_probe", "cost_to_first"),
    *("rss_near_kib", "answered", "wakeup_us.p99", "departure_us.p99", "false_verdicts", "stalls", "far_percent"),
)
METHOD = (
    "Sessions at the given interval, four to a peer and a leg; near: the probing node alone, on one core by taskset."
    " us_a_probe: its processor time for one probe and its answer. answered: answers for each probe. Nothing is"
    " broken, so that every verdict is false. The answering side plays all peers in one process on another core."
)
FIRST_PORT = 40_000
"""Of the peers, above the range of fresh source ports: the probing node listens on the same ports."""
_SETTLE_NS = 3_000 * MS
_UP_TIMEOUT_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="sessions, multiples of four")
    parser.add_argument("--interval", type=int, default=100, help="milliseconds (default 100)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each size but the last (default 20)")
    parser.add_argument("--last-seconds", type=float, default=60.0, help="of the last size (default 60)")
    parser.add_argument("--known", action="store_true", help="known flows instead of fresh ones")


def run(options: argparse.Namespace) -> dict[str, object]:
    """All sizes."""
    rows: list[dict[str, object]] = []
    costs: list[float] = []
    progress = Console(stderr=True, highlight=False)
    for size in options.sizes:
        progress.print(f"scale: {size} sessions x {options.interval} ms")
        seconds = options.last_seconds if size == options.sizes[-1] else options.seconds
        cost_us, row = _measure(size, options.interval, seconds, is_pinned=options.known)
        costs.append(cost_us)
        rows.append({**row, "us_a_probe": round(cost_us, 2), "cost_to_first": ratio(cost_us, costs[0])})
    return report.document(NAME, METHOD, rows, interval_ms=options.interval)


def _measure(sessions: int, interval_ms: int, seconds: float, *, is_pinned: bool) -> tuple[float, dict[str, object]]:
    cores = sorted(os.sched_getaffinity(0))
    with World(["a", "b"]) as world:
        links.build(world, "a", "b", [LANE])
        far = links.numbered(2, MEMBERS)
        links.add_addresses(world, "b", far)
        names = [f"{ANSWERER}x{number}" for number in range((sessions + MEMBERS - 1) // MEMBERS)]
        identities = tuple((name, FIRST_PORT + number) for number, name in enumerate(names))
        crowd = RigPlan(node=ANSWERER, peers=(PROBER,), identities=identities, answers_per_s=UNLIMITED)
        answering = Rig(world, "b", crowd, prefix=["taskset", "-c", str(cores[-1])])
        listed = tuple(
            Session(
                source=LANE.local,
                destination=address,
                peer=name,
                port=port,
                group=number,
                path=number,
                is_pinned=is_pinned,
            )
            for number, (name, port) in enumerate(identities)
            for address in far
        )[:sessions]
        plan = RigPlan(node=PROBER, peers=tuple(names), sessions=listed, interval_ns=interval_ms * MS)
        probing = Rig(world, "a", plan, prefix=["taskset", "-c", str(cores[0])])
        probing.wait_up(timeout_s=_UP_TIMEOUT_S)
        pause_until(time.monotonic_ns() + _SETTLE_NS)
        both = Pair(world=world, probing=probing, answering=answering)
        span = watch(both, seconds)
        elapsed_s = (span.after.at_ns - span.before.at_ns) / 1e9
        probes = gained(span, "probes-sent")
        cost_us = span.near.cpu_percent / 100 * elapsed_s * 1e6 / max(1, probes)
        return cost_us, {
            "sessions": sessions,
            "peers": len(names),
            "flow": "known" if is_pinned else "fresh",
            "seconds": round(elapsed_s, 1),
            "probes_per_s": round(probes / elapsed_s),
            "near_percent": round(span.near.cpu_percent, 2),
            "far_percent": round(span.far.cpu_percent, 2),
            "rss_near_kib": span.near.rss_kib,
            "answered": ratio(gained(span, "replies-received"), probes, digits=4),
            **lateness(span),
            "false_verdicts": verdicts(both, span.before.at_ns),
            "stalls": stalls(both, span.before.at_ns),
            "states": span.after.states,
        }
