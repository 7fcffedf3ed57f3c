"""The command `meshwatchd-kube`."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from meshwatchd import __version__
from meshwatchd.model.errors import ConfigError
from meshwatchd.runtime.stderr import say
from meshwatchkube.api import Api, Clocks
from meshwatchkube.control import Control
from meshwatchkube.http import connect
from meshwatchkube.load import load
from meshwatchkube.run import Loop
from meshwatchkube.settings import CONFIG_FILE, Settings

EXIT_OK, EXIT_CONFIG = 0, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Check the configuration, or run until SIGTERM.

    Returns:
        0 after an orderly end; 2 for a configuration that cannot be used, as meshwatchd.
    """
    arguments = make_parser().parse_args(argv)
    try:
        settings = load(arguments.config)
        reach = partial(connect, settings.api.kubeconfig, settings.api.timeout / 1e9)
        reach().close()
        if arguments.verb != "run" or arguments.check:
            return EXIT_OK
        return _run(settings)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CONFIG


def make_parser() -> argparse.ArgumentParser:
    """What meshwatchd-kube understands on its command line."""
    about = "Makes failovers of meshwatchd last in Kubernetes, and keeps pods off nodes whose overlay is broken."
    parser = argparse.ArgumentParser(prog="meshwatchd-kube", description=about)
    parser.add_argument("--config", type=Path, default=Path(CONFIG_FILE), help="configuration file (%(default)s)")
    parser.add_argument("--check", action="store_true", help="check the configuration and the kubeconfig, then exit")
    parser.add_argument("--version", action="version", version=f"meshwatchd-kube {__version__}")
    parser.add_argument("verb", nargs="?", choices=("run",), default="run", help="the default")
    return parser


def _run(settings: Settings) -> int:
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    clocks, node = Clocks(), os.environ.get("NODE_NAME") or socket.gethostname()
    api = Api(
        settings,
        partial(connect, settings.api.kubeconfig, settings.api.timeout / 1e9),
        identity=f"{node}_{os.getpid()}",
        node=node,
        say=say,
        clocks=clocks,
    )
    say("kube.started", level="info", node=node)
    try:
        Loop(settings, Control(Path(settings.daemon.socket), say), api, say=say, clocks=clocks).run(stopped)
    finally:
        api.close()
    say("kube.stopped", level="info")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
