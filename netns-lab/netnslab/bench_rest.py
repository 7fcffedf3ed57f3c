"""What daemons cost while nothing is wrong: `python -m netnslab.bench_rest`, as root.

A healthy mesh with the minimal configuration. Nothing is asked of the daemons: bytes and packets are what the kernel
has counted at the devices (/proc/PID/net/dev), processor time and memory are those of the processes (/proc/PID/stat and
status). The run is cut into windows; each figure is the median of all windows. The figures are printed as JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netnslab.bench.usage import cpu_ns, rss_kib
from netnslab.daemons import Daemons, Process
from netnslab.lab import Lab
from netnslab.machine import commit_facts, machine_facts
from netnslab.rest_figures import GOALS, Counters, Reading, read_devices, summarise
from netnslab.waiting import pause_until

READY_S = 120.0
SETTLE_S = 75.0
"""A session that has begun is watched closely, and a leg is trusted after a minute: both are over by then."""
WINDOW_S = 5.0
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The processes of a node."""

    engine: int
    agent: int


def read_node(watched: Watched) -> Reading:
    """What the kernel has counted for a node up to this instant."""
    processes = {Process.ENGINE: watched.engine, Process.AGENT: watched.agent}
    return Reading(
        at_ns=time.monotonic_ns(),
        devices=read_devices(_text(watched.engine, "net/dev")),
        cpu_ns={str(kind): cpu_ns(_text(pid, "stat")) for kind, pid in processes.items()},
        rss_kib={str(kind): rss_kib(_text(pid, "status")) for kind, pid in processes.items()},
    )


def measure(daemons: Daemons, nodes: Sequence[str], seconds: float) -> dict[str, list[Reading]]:
    """Readings of all nodes, a window apart."""
    watched = {node: Watched(engine=daemons.engine_pid(node), agent=daemons.agent_pid(node)) for node in nodes}
    began_ns = time.monotonic_ns()
    found: dict[str, list[Reading]] = {node: [] for node in nodes}
    for window in range(max(1, round(seconds / WINDOW_S)) + 1):
        pause_until(began_ns + round(window * WINDOW_S * SECOND))
        for node in nodes:
            found[node].append(read_node(watched[node]))
    return found


def _text(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long to watch (default 300)")
    parser.add_argument(
        "--settle", type=float, default=SETTLE_S, help=f"how long to wait before (default {SETTLE_S:g})"
    )
    parser.add_argument("--topology", default="kilo-flannel", help="of the lab (default kilo-flannel)")
    parser.add_argument("--backend", default="auto", help="host, userspace, vm or auto (default)")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as scratch,
        Lab.up(options.topology, backend=options.backend) as lab,
        Daemons(lab, Path(scratch), config="minimal") as daemons,
    ):
        daemons.wait_ready(timeout_s=READY_S)
        pause_until(time.monotonic_ns() + round(options.settle * SECOND))
        readings = measure(daemons, daemons.nodes, options.seconds)
        counters: Mapping[str, Counters] = {
            node: {} if (status := daemons.status(node)) is None else status["counters"] for node in daemons.nodes
        }
        document = {
            "machine": machine_facts(),
            "commit": commit_facts(),
            "topology": options.topology,
            "seconds": options.seconds,
            "window_s": WINDOW_S,
            "goals": GOALS,
            **dataclasses.asdict(summarise(lab.site.topology, readings)),
            "counters": counters,
        }
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
