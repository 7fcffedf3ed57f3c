"""Standing orders: `pause`, `drain`, `pin`, their ends, and `confirm`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import click
import msgspec

from meshwatchd.adapters.control.operator_requests import OrderParameters
from meshwatchd.cli.command_traffic import operate
from meshwatchd.cli.duration import Duration
from meshwatchd.cli.main import Terminal

DEFAULT_FOR = "1h"

_Function = TypeVar("_Function", bound=Callable[..., object])


def _whoever() -> str:
    """The person behind sudo, for the list of standing orders."""
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or "root"


_location = click.argument("location", required=False)
_dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done and do nothing.")


def _giving(command: _Function) -> _Function:
    """The options of everything that starts an order."""
    for option in (
        _dry_run,
        click.option("--reason", default="", help="Why; `status` and `explain` show it."),
        click.option("--by", "name", default=_whoever, help="Whose order it is; you by default."),
        click.option(
            *("--for", "duration_ns"),
            type=Duration(),
            default=DEFAULT_FOR,
            show_default=True,
            help="When it ends by itself.",
        ),
    ):
        command = option(command)
    return command


def _ending(command: _Function) -> _Function:
    """The options of everything that ends one."""
    for option in (_dry_run, click.option("--by", "name", help="End only the orders of that name.")):
        command = option(command)
    return command


@click.command("pause")
@_location
@_giving
@click.pass_obj
def pause(terminal: Terminal, /, **asked: object) -> int:
    """Move nothing to LOCATION (everywhere by default) until resumed or expired, whatever breaks.

    Operators may still move traffic, and diagnosis goes on. If the relay at
    the other end moves traffic, this node moves its own as well.
    """
    return _order(terminal, "Pause", asked)


@click.command("drain")
@_giving
@click.pass_obj
def drain(terminal: Terminal, /, **asked: object) -> int:
    """Take this node out of service: traffic moves to paths that avoid it first, and its silence is no alarm."""
    return _order(terminal, "Drain", asked)


@click.command("pin")
@_location
@click.option("--rank", type=click.IntRange(1, 7), help="The standby path wanted; the best one by default.")
@_giving
@click.pass_obj
def pin(terminal: Terminal, /, **asked: object) -> int:
    """Move the traffic to LOCATION to a standby path and make that the one to come back to.

    A path that breaks is left all the same.
    """
    return _order(terminal, "Pin", asked)


@click.command("resume")
@_location
@_ending
@click.pass_obj
def resume(terminal: Terminal, /, **asked: object) -> int:
    """End a pause: of LOCATION, or every one."""
    return _order(terminal, "Resume", asked)


@click.command("undrain")
@_ending
@click.pass_obj
def undrain(terminal: Terminal, /, **asked: object) -> int:
    """Put this node into service again; traffic comes back by the usual waits."""
    return _order(terminal, "Undrain", asked)


@click.command("unpin")
@_location
@_ending
@click.pass_obj
def unpin(terminal: Terminal, /, **asked: object) -> int:
    """End a pin; traffic fails back to the primary path after the usual times."""
    return _order(terminal, "Unpin", asked)


@click.command("confirm")
@_location
@_dry_run
@click.pass_obj
def confirm(terminal: Terminal, /, **asked: object) -> int:
    """Keep what `failover --confirm-within` has done."""
    return _order(terminal, "Confirm", asked)


def _order(terminal: Terminal, method: str, asked: dict[str, object]) -> int:
    """Options and arguments have the names of the method's parameters."""
    return operate(terminal, method, msgspec.convert(asked, OrderParameters))
