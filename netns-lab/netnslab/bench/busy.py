"""Minutes with both cores busy, in which nobody may be accused: ours and BIRD's BFD in the same span."""

from __future__ import annotations

import argparse
import os
import time

from netnslab.bench import bird, links, report
from netnslab.bench.bird import BfdSession, BfdTimers, Bird
from netnslab.bench.cpu import LANE, MULTIPLIER
from netnslab.bench.engine_load import lateness, pair, stalls, verdicts, watch
from netnslab.bench.load import spin
from netnslab.bench.world import World

NAME = "busy"
COLUMNS = ("tool", "minutes", "sessions", "false_verdicts", "stalls", "wakeup_us.p99", "wakeup_us.max", "states.up")
METHOD = (
    "A spinner of ordinary priority for each core; ours at SCHED_RR as the daemon asks for it, BIRD at ordinary"
    " priority as Debian starts it. Nothing is broken: every verdict of ours and every session of BIRD's that goes"
    " down is false."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--interval", type=int, default=50, help="milliseconds (default 50)")


def run(options: argparse.Namespace) -> dict[str, object]:
    """Both at once."""
    count, interval_ms = options.sessions, options.interval
    with pair(count, interval_ms) as both, World(["a", "b"]) as world:
        near = _bird_pair(world, count, interval_ms)
        spin(both.world, "b", len(os.sched_getaffinity(0)))
        began_ns = time.time_ns()
        span = watch(both, options.minutes * 60)
        downs = [each for each in near.changes() if each.state == "down" and each.wall_ns >= began_ns]
        rows = [
            {
                "tool": "ours",
                "minutes": options.minutes,
                "sessions": count,
                "false_verdicts": verdicts(both),
                "stalls": stalls(both, span.before.at_ns),
                **lateness(span),
                "states": span.after.states,
            },
            {"tool": "bird", "minutes": options.minutes, "sessions": count, "false_verdicts": len(downs)},
        ]
    return report.document(NAME, METHOD, rows, interval_ms=interval_ms)


def _bird_pair(world: World, sessions: int, interval_ms: int) -> Bird:
    links.build(world, "a", "b", [LANE])
    near, far = links.numbered(1, sessions), links.numbered(2, sessions)
    links.add_addresses(world, "a", near)
    links.add_addresses(world, "b", far)
    timers = BfdTimers(interval_ms=interval_ms, multiplier=MULTIPLIER)
    ends = []
    for name, own, other in (("a", near, far), ("b", far, near)):
        pairs = zip(own, other, strict=True)
        listed = [BfdSession(local=local, remote=remote, device=LANE.device) for local, remote in pairs]
        ends.append(Bird(world, name, bird.configuration(bird.log_path(world, name), listed, timers)))
    for end in ends:
        end.wait_up(sessions)
    return ends[0]
