"""`meshwatchctl report`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from meshwatchd.adapters.control.explain import Explanation
from meshwatchd.adapters.control.interface import ExplainReply
from meshwatchd.cli.command_incidents import FOLDER, IncidentNumber, fetch_incident
from meshwatchd.cli.command_status import fetch_status
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.report_page import render_page
from meshwatchd.cli.report_svg import draw_mesh
from meshwatchd.model.errors import ControlError
from meshwatchd.model.status import Status

_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


@click.command("report")
@click.option("--html", type=_FILE, metavar="FILE", help="Write one page, with everything in it; - is standard output.")
@click.option("--svg", type=_FILE, metavar="FILE", help="Write the drawing of the mesh alone.")
@click.option("--incident", "number", type=IncidentNumber(), metavar="NUMBER|last", help="About an incident.")
@click.option("--from", "folder", type=FOLDER, metavar="FOLDER", help="With --incident: as of `incidents`.")
@click.pass_obj
def report(terminal: Terminal, *, html: Path | None, svg: Path | None, number: int | None, folder: Path | None) -> int:
    """Write a page for those who were not there: the mesh drawn with its layers, the broken one marked.

    With --incident also the probes of each leg over time, the decisions with their reasons, and the outage.
    """
    if html is None and svg is None:
        raise click.UsageError("name a file: --html FILE or --svg FILE")
    if folder is not None and number is None:
        raise click.UsageError("--from needs --incident")
    incident = None if number is None else fetch_incident(terminal, folder, number)
    status = _find_status(terminal, is_needed=folder is None or svg is not None)
    if svg is not None and status is not None:
        _write(svg, draw_mesh(status))
    if html is not None:
        explanations: tuple[Explanation, ...] = ()
        if incident is None:
            explanations = terminal.client.ask("Explain", ExplainReply).explanations
        _write(html, render_page(status, incident, explanations, now_ns=time.monotonic_ns()))
    return 0


def _find_status(terminal: Terminal, *, is_needed: bool) -> Status | None:
    """The daemon's status; a history in a folder is worth a page without it."""
    try:
        return fetch_status(terminal)
    except ControlError:
        if is_needed:
            raise
        return None


def _write(path: Path, text: str) -> None:
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        path.write_text(text, encoding="utf-8")
