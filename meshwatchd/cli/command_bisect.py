"""`meshwatchctl bisect`."""

from __future__ import annotations

import contextlib

import click

from meshwatchd.adapters.control.bisection import BisectParameters, BisectReply
from meshwatchd.cli.client import Client
from meshwatchd.cli.command_status import fetch_status
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_bisect import find_known, render_bisection
from meshwatchd.model.bisection import Place
from meshwatchd.model.errors import ControlError

EXIT_DEAD = 2
PATIENCE_S = 90.0
"""A run waits for the one before it, and each may take half a minute by `bisect.timeout`."""


@click.command("bisect")
@click.argument("node")
@click.pass_obj
def bisect(terminal: Terminal, *, node: str) -> int:
    """Tell where exactly packets to NODE die: which table, device, filter or queue, the wire, or the peer.

    Taps two devices and sends some forty packets, for a second or two; changes nothing. Root only.

    Exit status: 0 nothing dies, 2 something does.
    """
    client = Client(terminal.socket, timeout_s=PATIENCE_S)
    result = client.ask("Bisect", BisectReply, BisectParameters(node=node)).result
    known: list[str] = []
    if result.place is not Place.NOWHERE and not terminal.is_json:
        with contextlib.suppress(ControlError):  # the result stands without it
            known = find_known(fetch_status(terminal), result.peer)
    terminal.answer(result, lambda: render_bisection(result, terminal.paint, known))
    return 0 if result.place is Place.NOWHERE else EXIT_DEAD
