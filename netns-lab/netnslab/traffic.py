"""An independent pod-to-pod traffic source: `python -m netnslab.traffic serve | drive TARGET`.

It judges the network as an application would and knows nothing of the daemon under test.

    serve    the echo services (traffic_server)
    drive    new UDP and TCP flows at a steady rate and one long-lived connection (traffic_driver)

Both run until SIGTERM or SIGINT, and end when the process that started them dies, so that a crashed
test leaves nothing behind. `serve` prints one line `serving` when its sockets are open. `drive`
writes the records of traffic_records, one JSON object a line.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from netnslab.traffic_driver import DrivePlan, Driver
from netnslab.traffic_server import EchoServer

# linux/prctl.h
PR_SET_PDEATHSIG = 1
# Lines are held back until the driver flushes, five times a second: far less than this.
OUTPUT_BUFFER_BYTES = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one end; returns the exit status."""
    options = _parser().parse_args(arguments)
    die_with_parent()
    # A collection would stop the clockwork for milliseconds; nothing here makes reference cycles.
    gc.freeze()
    gc.disable()
    if options.end == "serve":
        return _serve()
    try:
        plan = DrivePlan(
            target=options.target,
            rate=options.rate,
            duration_ns=None if options.duration is None else int(options.duration * 1e9),
            has_stream=not options.no_stream,
        )
    except ValueError as error:
        print(f"traffic: {error}", file=sys.stderr)
        return 2
    return _drive(plan, options.output)


def _serve() -> int:
    def leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    server = EchoServer()
    print("serving", flush=True)
    server.run()
    return 0


def _drive(plan: DrivePlan, path: Path | None) -> int:
    with open(path or sys.stdout.fileno(), "w", buffering=OUTPUT_BUFFER_BYTES, closefd=path is not None) as output:
        driver = Driver(plan, output=output)

        def stop(_number: int, _frame: FrameType | None) -> None:
            driver.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        driver.run()
    return 0


def die_with_parent() -> None:
    """SIGTERM to this process when its parent dies, so that a crashed test leaves nothing behind."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)  # the parent died before the kernel was asked to tell us


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netnslab.traffic", description=__doc__.partition("\n")[0])
    ends = parser.add_subparsers(dest="end", required=True)
    ends.add_parser("serve", help="answer")
    drive = ends.add_parser("drive", help="ask")
    drive.add_argument("target", help="IPv4 address of the serving pod")
    drive.add_argument("--rate", type=int, default=200, help="new flows a second (default 200)")
    drive.add_argument("--duration", type=float, help="seconds (default: until SIGTERM)")
    drive.add_argument("--output", type=Path, help="file for the records (default: standard output)")
    drive.add_argument("--no-stream", action="store_true", help="no long-lived connection")
    return parser


if __name__ == "__main__":
    sys.exit(main())
