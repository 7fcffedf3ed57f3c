"""What a flood of garbage at the probe port does to the engine that listens there."""

from __future__ import annotations

import argparse

from netnslab.bench import report
from netnslab.bench.cpu import LANE
from netnslab.bench.engine_load import PORT, Pair, gained, lateness, pair, verdicts, watch
from netnslab.bench.load import flood, flooded_per_s

NAME = "flood"
COLUMNS = (
    *("phase", "flood_per_s", "filtered_per_s", "wakeup_us.p50", "wakeup_us.p99", "wakeup_us.max"),
    *("departure_us.p99", "departure_us.max", "cpu_percent", "states.up", "verdicts"),
)
METHOD = (
    "Random bytes in packets of 300 bytes to the probing node's own probe port, from a process of ordinary priority in"
    " the other namespace (sendmmsg, 100 a call); the rate it reached. Lateness as in the benchmark of that name, in a"
    " span before the flood, one during it, one after it. filtered_per_s: what the kernel dropped at the listening"
    " sockets. states: of the sessions at the end of the span."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--seconds", type=float, default=15.0, help="of each phase (default 15)")
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--interval", type=int, default=50, help="milliseconds (default 50)")
    parser.add_argument("--rate", type=int, default=100_000, help="packets a second (default 100 000)")


def run(options: argparse.Namespace) -> dict[str, object]:
    """Before, during and after."""
    with pair(options.sessions, options.interval) as both:
        rows = [_phase("before", both, options.seconds)]
        source = flood(both.world, "b", address=LANE.local, port=PORT, rate=options.rate)
        rows.append(_phase("flood", both, options.seconds))
        source.end()
        rows[-1]["flood_per_s"] = flooded_per_s(both.world)
        rows.append(_phase("after", both, options.seconds))
    return report.document(NAME, METHOD, rows, sessions=options.sessions, interval_ms=options.interval)


def _phase(name: str, both: Pair, seconds: float) -> dict[str, object]:
    span = watch(both, seconds)
    elapsed_s = (span.after.at_ns - span.before.at_ns) / 1e9
    return {
        "phase": name,
        **lateness(span),
        "filtered_per_s": round(gained(span, "requests-filtered") / elapsed_s),
        "cpu_percent": round(span.near.cpu_percent, 1),
        "states": span.after.states,
        "verdicts": verdicts(both, span.before.at_ns),
    }
