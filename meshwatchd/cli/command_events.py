"""`meshwatchctl events`."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from meshwatchd.adapters.control.interface import EventsParameters, EventsReply
from meshwatchd.adapters.control.varlink import REPLIES
from meshwatchd.cli.duration import Duration
from meshwatchd.cli.event_filter import Wanted
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_story import render_event
from meshwatchd.model.decoding import decode_json
from meshwatchd.model.fault_codes import FaultCode, Severity

EXIT_LOST = 1
"""The daemon let go of us: events came faster than they were read."""


@click.command("events")
@click.option("-f", "--follow", "is_following", is_flag=True, help="Keep telling; ^C ends it.")
@click.option("--since", "since_ns", type=Duration(), metavar="DURATION", help="Only the last 30s, 5min, 2h.")
@click.option("--severity", type=click.Choice([each.value for each in Severity]), help="Only those at least so bad.")
@click.option("--node", help="Only those that name this node.")
@click.option("--location", help="Only those about the traffic to this location.")
@click.option("--fault", type=click.Choice([code.value for code in FaultCode]), metavar="CODE", help="Only this fault.")
@click.pass_obj
def events(
    terminal: Terminal,
    *,
    is_following: bool,
    since_ns: int | None,
    severity: str | None,
    node: str | None,
    location: str | None,
    fault: str | None,
) -> int:
    """Show what happened, the oldest first. In JSON: one object a line."""
    earliest_ns = None if since_ns is None else max(0, time.monotonic_ns() - since_ns)
    wanted = Wanted(severity=severity or "ok", node=node or "", location=location or "", fault=fault or "")
    replies = terminal.client.stream(
        "io.meshwatch.Control.Events",
        EventsParameters(since_ns=earliest_ns, follow=is_following),
        is_patient=is_following,
    )
    for reply in replies:
        for event in decode_json(reply, EventsReply, REPLIES).events:
            if event.get("event") == "events.lost":
                click.echo(f"meshwatchctl: too slow, {event.get('lost')} events were lost; start again", err=True)
                return EXIT_LOST
            if wanted.is_met(event):
                _tell(terminal, event)
        sys.stdout.flush()
    return 0


def _tell(terminal: Terminal, event: dict[str, object]) -> None:
    line = msgspec.json.encode(event).decode() if terminal.is_json else render_event(event, terminal.paint)
    sys.stdout.write(line + "\n")
