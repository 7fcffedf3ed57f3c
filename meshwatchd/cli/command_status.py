"""`meshwatchctl status`."""

from __future__ import annotations

import sys
import time

import click

from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.cli.client import EXIT_NOT_WATCHING
from meshwatchd.cli.main import EXIT_UNREACHABLE, Terminal
from meshwatchd.cli.render import render_status
from meshwatchd.cli.text import is_stale
from meshwatchd.model.faults import Severity
from meshwatchd.model.status import Status

EXIT_CODES = {Severity.OK: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
WATCH_INTERVAL_S = 1.0


@click.command("status")
@click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Also every session and counter.")
@click.option("-w", "--watch", "is_watched", is_flag=True, help="Keep showing it, each second (terminals only).")
@click.pass_obj
def status(terminal: Terminal, *, is_verbose: bool, is_watched: bool) -> int:
    """Show which paths work and which one is used.

    The exit status is the state: 0 ok, 1 degraded, 2 critical, 3 unknown, 4 nothing is watched.
    """
    if is_watched and sys.stdout.isatty() and not terminal.is_json:
        _watch(terminal, is_verbose=is_verbose)
    status = fetch_status(terminal)
    terminal.answer(status, lambda: _render(terminal, status, is_verbose=is_verbose))
    if is_stale(status.at_ns, time.monotonic_ns()):
        return EXIT_UNREACHABLE
    return EXIT_CODES[status.severity] if status.is_watching else EXIT_NOT_WATCHING


def fetch_status(terminal: Terminal) -> Status:
    """Ask the daemon for its status."""
    return terminal.client.ask("Status", StatusReply).status


def _render(terminal: Terminal, status: Status, *, is_verbose: bool) -> str:
    return render_status(status, now_ns=time.monotonic_ns(), paint=terminal.paint, is_verbose=is_verbose)


def _watch(terminal: Terminal, *, is_verbose: bool) -> None:
    """Redraw until interrupted."""
    from rich.live import Live  # noqa: PLC0415 - a tenth of a second that only this needs
    from rich.text import Text  # noqa: PLC0415 - as above

    with Live(auto_refresh=False, screen=True) as live:
        while True:
            text = _render(terminal, fetch_status(terminal), is_verbose=is_verbose)
            live.update(Text.from_ansi(text), refresh=True)
            time.sleep(WATCH_INTERVAL_S)
