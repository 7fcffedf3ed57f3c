"""`python -m meshwatchd.bisect [--config FILE] NODE`: where packets to a node die, as JSON on standard output.

A process of its own, for seconds: scapy weighs 45 MB. Started by the agent, or by hand as root. It changes nothing.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import SystemRandom
from typing import Final

import msgspec

from meshwatchd.adapters.identity import read_binding
from meshwatchd.adapters.storage.mesh_secrets import read_secrets
from meshwatchd.adapters.tap.questions import Kernel
from meshwatchd.bisect.leg import find_leg
from meshwatchd.bisect.peer import UdpPeerTaps
from meshwatchd.bisect.run import Run
from meshwatchd.config.load import DEFAULT_PATH, load
from meshwatchd.model.bisection import BisectResult
from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.settings import SECOND, MeshSettings, Settings
from meshwatchd.model.units import parse_duration
from meshwatchd.wire.auth import MeshKeys, Purpose

EXIT_FAILURE: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run once; returns the exit status: 0 with a result, 1 with a reason on standard error."""
    options = _parse(arguments)
    try:
        settings = load(options.config)
        mesh = _read_mesh(settings) if options.mesh_stdin else settings.mesh
        result = bisect(settings, mesh, options.node, until_ns=process_started_ns() + parse_duration(options.timeout))
    except (MeshwatchError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_FAILURE
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    return 0


def bisect(settings: Settings, mesh: MeshSettings, peer: str, *, until_ns: int) -> BisectResult:
    """One run from this node.

    Raises:
        MeshwatchError: no such node, no key, no permission, or a kernel that does not answer.
    """
    node = settings.daemon.node or socket.gethostname()
    leg = find_leg(mesh, node, peer, port=settings.probe.port)
    secrets = read_secrets(settings.auth)
    random = SystemRandom()
    keys, tap_keys = MeshKeys(node, secrets), MeshKeys(node, secrets, Purpose.TAPS)
    tap_keys.admit(leg.via)
    for each, name in ((keys, peer), (tap_keys, leg.via)):
        each.bind(read_binding(Path(settings.daemon.state_dir), node, name))
    with closing(Kernel()) as kernel, UdpPeerTaps(tap_keys, random) as peer_taps:
        run = Run(
            leg,
            kernel,
            keys,
            epoch=time.time_ns(),
            until_ns=until_ns,
            random=random,
            peer_taps=peer_taps,
        )
        return run.execute()


def process_started_ns() -> int:
    """CLOCK_MONOTONIC when this process began, to a hundredth of a second: importing takes a good part of its time.

    Source: proc(5), field 22 of stat, in clock ticks since boot.
    """
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    return time.monotonic_ns() - round(age_s * SECOND)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="meshwatchd-bisect", description="Tell where packets to a node die.")
    parser.add_argument("node", help="a node of the mesh")
    parser.add_argument("--config", type=Path, default=DEFAULT_PATH, help="configuration file (default: %(default)s)")
    parser.add_argument("--timeout", default="3s", help="the longest it may take (default: %(default)s)")
    # For the agent, which knows more of the mesh than the file says.
    parser.add_argument("--mesh-stdin", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _read_mesh(settings: Settings) -> MeshSettings:
    """The mesh as the agent knows it; nothing on standard input means as declared."""
    data = sys.stdin.buffer.read()
    return decode_json(data, MeshSettings, Door("standard input")) if data.strip() else settings.mesh


if __name__ == "__main__":
    sys.exit(main())
