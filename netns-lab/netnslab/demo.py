"""The demonstration: `python -m netnslab.demo [--json]`, as root.

Builds the mesh of kilo-flannel, lets the fault of squat/kilo#489 strike it twice, once with nobody
watching and once with a meshwatchd on every node, and measures both from outside with traffic that
knows nothing of the daemons. Exit status 0 only if every promise was kept.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from netnslab.demo_scenes import Plan, Scene, scene_with_daemons, scene_without_daemons
from netnslab.demo_view import make_console, scene, show_checks, show_opening, show_scene
from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.machine import machine_facts

FIRST_INTRO = (
    "  The hypervisor under the cloud leader stops learning: VXLAN flows it knows pass, new ones vanish\n"
    "  without trace. Kubernetes calls the node Ready, WireGuard shakes hands. Nobody is on watch."
)
SECOND_INTRO = (
    "  The same fault, with a daemon on every node. Times are seconds since the fault; what `traffic`\n"
    "  says was measured from pod to pod by a program that does not know the daemons."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play; returns the exit status: 0 promises kept, 1 not kept, 2 the stage could not be built."""
    options = _parser().parse_args(arguments)
    console = make_console(is_quiet=options.json)
    plan = Plan(directory=options.output.resolve(), config=options.config)
    try:
        began_s = time.monotonic()
        with Lab.up(options.topology, backend=options.backend) as lab:
            show_opening(console, lab.topology, built_in_s=time.monotonic() - began_s)
            with scene(console, "Scene one: daemons off", FIRST_INTRO) as say:
                first = scene_without_daemons(lab, plan, say)
            show_scene(console, first)
            with scene(console, "Scene two: daemons on", SECOND_INTRO) as say:
                second = scene_with_daemons(lab, plan, say)
            show_scene(console, second)
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    show_checks(console, second.checks)
    if options.json:
        print(json.dumps(_document(first, second), indent=2))
    return 0 if all(check.is_kept for check in second.checks) else 1


def _document(first: Scene, second: Scene) -> dict[str, object]:
    return {
        "machine": machine_facts(),
        "scene_one": dataclasses.asdict(first),
        "scene_two": dataclasses.asdict(second),
        "promises_kept": all(check.is_kept for check in second.checks),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netnslab.demo", description="watch a silent fault being found and healed")
    parser.add_argument("--json", action="store_true", help="the result as one JSON document, nothing else")
    parser.add_argument("--topology", default="kilo-flannel", help="a lab topology (default %(default)s)")
    parser.add_argument("--backend", default="auto", help="host, userspace, vm or auto (default)")
    parser.add_argument(
        "--config",
        choices=("minimal", "full"),
        default="minimal",
        help="what the daemons are told: the mode and the key's path (default), or the whole mesh",
    )
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="directory for logs and records")
    return parser


if __name__ == "__main__":
    sys.exit(main())
