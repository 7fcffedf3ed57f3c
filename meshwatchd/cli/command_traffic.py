"""`meshwatchctl failover` and `meshwatchctl failback`: ask, and show the answer with its commands."""

from __future__ import annotations

import click
import msgspec

from meshwatchd.adapters.control.operator_requests import (
    FailbackParameters,
    FailoverParameters,
    OperateReply,
    OrderParameters,
)
from meshwatchd.cli.duration import Duration
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_story import render_operation

EXIT_REFUSED = 1

_dry_run = click.option("--dry-run", is_flag=True, help="Show the operations and change nothing.")


@click.command("failover")
@click.argument("location", required=False)
@click.option("--rank", type=click.IntRange(1, 7), help="The standby path wanted; the best one by default.")
@click.option(
    "--confirm-within",
    "confirm_within_ns",
    type=Duration(),
    metavar="DURATION",
    help="Undo it unless `confirm` comes within, as in 30s.",
)
@_dry_run
@click.pass_obj
def failover(terminal: Terminal, /, **asked: object) -> int:
    """Move the traffic to LOCATION (the only one by default) to a standby path, on both sides.

    Exit status: 0 accepted, 1 refused.
    """
    return operate(terminal, "Failover", msgspec.convert(asked, FailoverParameters))


@click.command("failback")
@click.argument("location", required=False)
@_dry_run
@click.pass_obj
def failback(terminal: Terminal, /, **asked: object) -> int:
    """Move the traffic to LOCATION (the only one by default) back to the primary path, on both sides.

    Exit status: 0 accepted, 1 refused.
    """
    return operate(terminal, "Failback", msgspec.convert(asked, FailbackParameters))


def operate(
    terminal: Terminal, method: str, parameters: FailoverParameters | FailbackParameters | OrderParameters
) -> int:
    """Ask for something that changes what the daemon does, and show the answer; returns the exit status."""
    reply = terminal.client.ask(method, OperateReply, parameters)
    is_dry_run = bool(parameters.dry_run)
    terminal.answer(reply, lambda: render_operation(reply, is_dry_run=is_dry_run, paint=terminal.paint))
    return 0 if reply.accepted else EXIT_REFUSED
