"""`meshwatchctl incidents`, and how other commands come by one of them."""

from __future__ import annotations

from pathlib import Path

import click

from meshwatchd.adapters.control.history import read_incidents
from meshwatchd.adapters.control.incidents import Incident, IncidentsParameters, IncidentsReply
from meshwatchd.adapters.storage.event_store import read_history
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_incidents import render_incidents

LAST = 0
"""Stands for the latest incident."""

FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


class IncidentNumber(click.ParamType):  # type: ignore[type-arg]
    """A number of `meshwatchctl incidents`, or "last"."""

    name = "NUMBER|last"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; LAST for the latest."""
        if value == "last":
            return LAST
        if not str(value).isdecimal() or not 0 < int(str(value)) < 2**63:
            self.fail(f"{value!r} is neither a number of `meshwatchctl incidents` nor `last`", param, ctx)
        return int(str(value))


def from_option() -> click.Option:
    """`--from`, for histories of daemons that cannot be asked."""
    return click.Option(
        ["--from", "folder"],
        type=FOLDER,
        metavar="FOLDER",
        help="Read events.jsonl there, as in /var/lib/meshwatchd or an unpacked bundle, instead of asking the daemon.",
    )


@click.command("incidents", params=[from_option()])
@click.pass_obj
def incidents(terminal: Terminal, *, folder: Path | None) -> int:
    """List what went wrong, the latest last; `explain --incident NUMBER` tells one of them.

    The history is on disk, as are the events that it is made of: it survives restarts and reboots.
    """
    found = fetch_incidents(terminal, folder)
    terminal.answer({"incidents": found}, lambda: render_incidents(found, terminal.paint))
    return 0


def fetch_incidents(terminal: Terminal, folder: Path | None, number: int | None = None) -> tuple[Incident, ...]:
    """The history, or one incident of it with its events."""
    if folder is not None:
        return read_incidents(read_history(folder), number)
    return terminal.client.ask("Incidents", IncidentsReply, IncidentsParameters(number=number)).incidents


def fetch_incident(terminal: Terminal, folder: Path | None, number: int) -> Incident:
    """One incident with its events.

    Raises:
        click.UsageError: there is none of that number.
    """
    if number == LAST:
        listed = fetch_incidents(terminal, folder)
        if not listed:
            raise click.UsageError("no incident is on record here")
        number = listed[-1].number
    found = fetch_incidents(terminal, folder, number)
    if not found:
        raise click.UsageError(f"no incident {number} is on record here; `meshwatchctl incidents` lists them")
    return found[0]
