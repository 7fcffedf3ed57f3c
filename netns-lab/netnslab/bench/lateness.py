"""How late probes leave while both cores are busy, with real-time priority and without."""

from __future__ import annotations

import argparse
import os

from netnslab.bench import report
from netnslab.bench.engine_load import gained, lateness, pair, stalls, verdicts, watch
from netnslab.bench.load import spin

NAME = "lateness"
COLUMNS = (
    *("load", "priority", "sessions", "wakeup_us.p50", "wakeup_us.p99", "wakeup_us.max"),
    *("departure_us.p50", "departure_us.p99", "departure_us.max", "probes", "verdicts", "stalls"),
)
METHOD = (
    "Wakeup: how much later than its due instant the core was asked for a turn's first probe. Departure: from the same"
    " due instant to the moment in which all probes of the turn had been handed to the kernel, an upper bound for each."
    " Both include the rest by which the loop keeps turns apart (a sixteenth of the interval at most). Spinners have"
    " ordinary priority, one for each core; the answering node runs on the same cores with the probing node's priority."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--seconds", type=float, default=20.0, help="of each case (default 20)")
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--interval", type=int, default=50, help="milliseconds (default 50)")


def run(options: argparse.Namespace) -> dict[str, object]:
    """Idle and busy, SCHED_RR; then busy without it."""
    rows = []
    spinners = len(os.sched_getaffinity(0))
    for load, is_realtime in ((0, True), (spinners, True), (spinners, False)):
        with pair(options.sessions, options.interval, is_realtime=is_realtime) as both:
            spin(both.world, "b", load)
            span = watch(both, options.seconds)
            rows.append(
                {
                    "load": f"{load} spinners",
                    "priority": "SCHED_RR" if is_realtime else "ordinary",
                    "sessions": options.sessions,
                    **lateness(span),
                    "probes": gained(span, "probes-sent"),
                    "verdicts": verdicts(both),
                    "stalls": stalls(both, span.before.at_ns),
                }
            )
    return report.document(NAME, METHOD, rows, interval_ms=options.interval)
