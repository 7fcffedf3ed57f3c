"""How soon a daemon notices that an object of its own was removed: `python -m netnslab.bench_removal`, as root.

Six daemons with the minimal configuration on kilo-flannel. Rules and routes of both standbys are removed one after the
other; each is put back before the next goes. Time runs from before the command to the instant that the engine gives its
own word of it. The figures are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from netnslab.daemons import Daemons
from netnslab.lab import Lab
from netnslab.machine import machine_facts
from netnslab.removals import Remover, await_notice, standing
from netnslab.traffic_report import percentile
from netnslab.waiting import wait_until

MS = 1_000_000
GOAL_NS = 100 * MS
"""What is aimed at; reported, not asserted."""
READY_S = 90.0


def measure(lab: Lab, daemons: Daemons, node: str, trials: int) -> dict[str, list[int]]:
    """Nanoseconds from removal to notice, by kind of object; as many of each kind as there are, at most `trials`."""
    place = lab.node(node)
    before = standing(place)
    found: dict[str, list[int]] = {"rule": [], "route": []}
    with Remover(place) as remover:
        for kind, noticed_ns in found.items():
            for named in [each for each in before if each.startswith(f"{kind} ")][:trials]:
                removal = remover.remove(named)
                noticed_ns.append(await_notice(daemons, node, removal).at_ns - removal.removed_ns)
                wait_until(lambda: standing(place) == before, timeout_s=20, what=f"{named} to be back on {node}")
    return found


def summarise(noticed_ns: Sequence[int]) -> dict[str, object]:
    """Count, median, worst, in milliseconds."""
    in_ms = {f"p{percent}_ms": percentile(noticed_ns, percent) for percent in (50, 95)}
    return {
        "trials": len(noticed_ns),
        **{name: None if value is None else round(value / MS, 2) for name, value in in_ms.items()},
        "max_ms": round(max(noticed_ns) / MS, 2) if noticed_ns else None,
        "within_goal": sum(each <= GOAL_NS for each in noticed_ns),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="of each kind and node, at most")
    options = parser.parse_args(arguments)
    noticed: dict[str, list[int]] = {"rule": [], "route": []}
    with (
        tempfile.TemporaryDirectory() as scratch,
        Lab.up("kilo-flannel") as lab,
        Daemons(lab, Path(scratch), config="minimal") as daemons,
    ):
        daemons.wait_ready(timeout_s=READY_S)
        for node in ("a2", "b2"):
            for kind, values in measure(lab, daemons, node, options.trials).items():
                noticed[kind] += values
    figures = {kind: summarise(values) for kind, values in noticed.items()}
    json.dump({"machine": machine_facts(), "goal_ms": GOAL_NS // MS, "noticed": figures}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
