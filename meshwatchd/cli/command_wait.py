"""`meshwatchctl wait`: until the daemon knows its mesh, or until all is well; for scripts."""

from __future__ import annotations

import time

import click

from meshwatchd.cli.client import EXIT_NO_PERMISSION, EXIT_NOT_WATCHING
from meshwatchd.cli.command_status import EXIT_CODES, fetch_status
from meshwatchd.cli.duration import Duration
from meshwatchd.cli.main import EXIT_UNREACHABLE, Terminal
from meshwatchd.cli.render_knowledge import explain_idleness
from meshwatchd.cli.text import is_stale
from meshwatchd.model.errors import ControlError
from meshwatchd.model.faults import CATALOGUE, Severity
from meshwatchd.model.settings import SECOND
from meshwatchd.model.status import Status

LOOK_S = 0.5


@click.command("wait")
@click.option("--healthy", "is_healthy", is_flag=True, help="Until all is well, not only until the mesh is watched.")
@click.option("--timeout", "timeout_ns", type=Duration(), default="60s", show_default=True, help="The longest wait.")
@click.pass_obj
def wait(terminal: Terminal, *, is_healthy: bool, timeout_ns: int) -> int:
    """Wait until this node watches its mesh and has judged every path; a daemon may be starting meanwhile.

    Exit status: 0 it is so; else that of the state at the end of the time: 1 degraded, 2 critical, 3 unknown, 4 nothing
    is watched. Who may not ask the daemon is told at once: 77.
    """
    until_ns = time.monotonic_ns() + timeout_ns
    while True:
        status, reason = _look(terminal, is_healthy=is_healthy)
        if not reason or time.monotonic_ns() >= until_ns:
            break
        time.sleep(min(LOOK_S, max(0, until_ns - time.monotonic_ns()) / SECOND))
    terminal.answer({"is_met": not reason, "reason": reason}, lambda: "")
    if reason and not terminal.is_json:
        click.echo(f"meshwatchctl: {reason}", err=True)
    if not reason:
        return 0
    if status is None:
        return EXIT_UNREACHABLE
    return (EXIT_CODES[status.severity] or EXIT_UNREACHABLE) if status.is_watching else EXIT_NOT_WATCHING


def _look(terminal: Terminal, *, is_healthy: bool) -> tuple[Status | None, str]:
    """The status, and what is still waited for; empty when nothing is."""
    try:
        status = fetch_status(terminal)
    except ControlError as error:
        if error.code == EXIT_NO_PERMISSION:
            raise
        return None, str(error)
    if is_stale(status.at_ns, time.monotonic_ns()):
        return None, "the engine has stopped reporting; look at: journalctl -u meshwatchd"
    if not status.is_watching:
        return status, f"nothing is watched: {explain_idleness(status)}"
    if not status.is_ready:
        return None, "starting, not every path has been judged yet"
    if is_healthy and status.severity is not Severity.OK:
        return status, f"not healthy: {_worst(status)}; see: meshwatchctl explain"
    return status, ""


def _worst(status: Status) -> str:
    bad = [pair for pair in status.pairs if pair.verdict.severity is status.severity]
    faults = [f"to {pair.remote_location}: {CATALOGUE[pair.verdict.fault].title}" for pair in bad]
    faults += [CATALOGUE[each.fault].title for each in status.findings if each.severity is status.severity]
    return "; ".join(faults or [*status.collisions, status.severity.value][:1])
