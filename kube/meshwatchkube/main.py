"""The command `meshwatchd-kube`."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from meshwatchd import __version__
from meshwatchd.model.errors import ConfigError, DecodeError
from meshwatchd.runtime.stderr import say
from meshwatchkube.api import Api, Clocks
from meshwatchkube.canaries import render
from meshwatchkube.control import Control
from meshwatchkube.http import ApiError, Http, connect
from meshwatchkube.load import load, remarks
from meshwatchkube.run import Loop
from meshwatchkube.service import TIMEOUT_S, find_kubeconfig, read_service
from meshwatchkube.settings import CONFIG_FILE, Settings
from meshwatchkube.watch import list_nodes

_SERVICE = re.compile(r"[a-z0-9-]{1,63}\.[a-z0-9-]{1,63}")
EXIT_OK, EXIT_UNREACHED, EXIT_CONFIG = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Check the configuration, or run until SIGTERM.

    Returns:
        0 after an orderly end; 1 where the API does not list its Nodes; 2 for a configuration that cannot be used.
    """
    parser = make_parser()
    arguments = parser.parse_args(argv)
    is_named = bool(_SERVICE.fullmatch(arguments.service))
    if (arguments.verb == "service") != is_named:
        parser.error("the verb service, and no other one, is followed by NAME.NAMESPACE, as shop.default")
    try:
        if arguments.verb == "service" and not arguments.check:
            return _print_service(arguments.config, arguments.service)
        settings = load(arguments.config)
        reach = partial(connect, settings.api.kubeconfig, settings.api.timeout / 1e9)
        reach().close()
        if arguments.check:
            return _print_remarks(settings)
        if arguments.verb == "canaries":
            return _print_canaries(reach())
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
    about_verb = (
        "run (the default); print sections for meshwatchd.toml that ask API servers and kubelets; or print what the API"
        " has about a service of several clusters, as JSON for meshwatchctl"
    )
    parser.add_argument("verb", nargs="?", choices=("run", "canaries", "service"), default="run", help=about_verb)
    parser.add_argument("service", nargs="?", metavar="NAME.NAMESPACE", default="", help="of the verb service")
    return parser


def _print_remarks(settings: Settings) -> int:
    """A remark is no refusal: such a file can be used."""
    for each in remarks(settings):
        sys.stderr.write(f"remark: {each.key}: {each.problem}; {each.remedy}\n")
    return EXIT_OK


def _print_service(config: Path, name: str) -> int:
    """By a person's kubeconfig where there is one, so no account of this program needs these rights."""
    settings = load(config) if config.exists() else Settings()
    kubeconfig = find_kubeconfig(settings.api.kubeconfig, os.environ, Path.home())
    service, _, namespace = name.partition(".")
    http = connect(kubeconfig, min(settings.api.timeout / 1e9, TIMEOUT_S))
    try:
        facts = read_service(http, service, namespace)
    finally:
        http.close()
    sys.stdout.write(msgspec.json.encode(facts).decode() + "\n")
    return EXIT_OK


def _print_canaries(http: Http) -> int:
    try:
        nodes, _ = list_nodes(http)
    except (ApiError, DecodeError) as error:
        sys.stderr.write(f"the API does not answer: {error}\n")
        return EXIT_UNREACHED
    finally:
        http.close()
    sys.stdout.write(render(nodes.values()))
    return EXIT_OK


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
