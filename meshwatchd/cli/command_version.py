"""`meshwatchctl version`."""

from __future__ import annotations

import contextlib

import click

import meshwatchd
from meshwatchd.cli.main import Terminal
from meshwatchd.model.errors import ControlError


@click.command("version")
@click.pass_obj
def version(terminal: Terminal) -> int:
    """Show the version of this program and of the running daemon."""
    running = None
    with contextlib.suppress(ControlError):
        running = str(terminal.client.version())
    versions = {"meshwatchctl": meshwatchd.__version__, "meshwatchd": running}
    terminal.answer(versions, lambda: "".join(f"{name} {of_it or 'not running'}\n" for name, of_it in versions.items()))
    return 0
