"""`meshwatchctl version`."""

from __future__ import annotations

import click

import meshwatchd
from meshwatchd.cli.main import Terminal
from meshwatchd.model.errors import ControlError


@click.command("version")
@click.pass_obj
def version(terminal: Terminal) -> int:
    """Show the version of this program and of the running daemon."""
    running, told = None, ""
    try:
        running = told = str(terminal.client.version())
    except ControlError as error:
        told = f"unknown: {error}"
    versions = {"meshwatchctl": meshwatchd.__version__, "meshwatchd": running}
    terminal.answer(versions, lambda: f"meshwatchctl {meshwatchd.__version__}\nmeshwatchd {told}\n")
    return 0
