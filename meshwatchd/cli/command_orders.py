"""Standing orders: `pause`, `drain`, `pin`, their ends, and `confirm`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import click

from meshwatchd.adapters.control.operator_requests import OrderParameters
from meshwatchd.cli.command_traffic import operate
from meshwatchd.cli.main import Terminal
from meshwatchd.model.units import parse_duration

DEFAULT_FOR = "1h"

_Function = TypeVar("_Function", bound=Callable[..., object])


class Duration(click.ParamType[int]):
    """A number with a unit, as in the configuration file: 30s, 10min, 2h; nanoseconds within."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse what was typed; a default is parsed as well."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _whoever() -> str:
    """The person behind sudo, for the list of standing orders."""
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or "root"


_location = click.argument("location", required=False)
_dry_run = click.option("--dry-run", "is_dry_run", is_flag=True, help="Say what would be done and do nothing.")


def _giving(command: _Function) -> _Function:
    """The options of everything that starts an order."""
    for option in (
        _dry_run,
        click.option("--reason", default="", help="Told to everybody who wonders."),
        click.option("--by", "name", default=_whoever, help="Whose order it is; you by default."),
        click.option("--for", "duration_ns", type=Duration(), default=DEFAULT_FOR, show_default=True),
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
def pause(
    terminal: Terminal, *, location: str | None, duration_ns: int, name: str, reason: str, is_dry_run: bool
) -> int:
    """Move nothing to LOCATION (everywhere by default) until resumed or expired, whatever breaks.

    Operators may still move traffic, and diagnosis goes on. Where the other relay has moved already, this node follows.
    """
    return _give(terminal, "Pause", location, duration_ns, name, reason, is_dry_run=is_dry_run)


@click.command("drain")
@_giving
@click.pass_obj
def drain(terminal: Terminal, *, duration_ns: int, name: str, reason: str, is_dry_run: bool) -> int:
    """Take this node out of service: traffic moves to paths that avoid it first, and its silence is no alarm."""
    return _give(terminal, "Drain", None, duration_ns, name, reason, is_dry_run=is_dry_run)


@click.command("pin")
@click.argument("location", required=False)
@click.option("--rank", type=click.IntRange(1, 7), help="The standby path wanted; the best one by default.")
@_giving
@click.pass_obj
def pin(
    terminal: Terminal,
    *,
    location: str | None,
    rank: int | None,
    duration_ns: int,
    name: str,
    reason: str,
    is_dry_run: bool,
) -> int:
    """Move the traffic to LOCATION to a standby path and make that the one to come back to.

    A path that breaks is left all the same.
    """
    parameters = OrderParameters(
        location=location, rank=rank, duration_ns=duration_ns, name=name, reason=reason, dry_run=is_dry_run
    )
    return operate(terminal, "Pin", parameters)


@click.command("resume")
@_location
@_ending
@click.pass_obj
def resume(terminal: Terminal, *, location: str | None, name: str | None, is_dry_run: bool) -> int:
    """End a pause: of LOCATION, or every one."""
    return operate(terminal, "Resume", OrderParameters(location=location, name=name, dry_run=is_dry_run))


@click.command("undrain")
@_ending
@click.pass_obj
def undrain(terminal: Terminal, *, name: str | None, is_dry_run: bool) -> int:
    """Put this node into service again; traffic comes back by the usual waits."""
    return operate(terminal, "Undrain", OrderParameters(name=name, dry_run=is_dry_run))


@click.command("unpin")
@_location
@_ending
@click.pass_obj
def unpin(terminal: Terminal, *, location: str | None, name: str | None, is_dry_run: bool) -> int:
    """End a pin; traffic comes home to the mesh's own path by the usual waits."""
    return operate(terminal, "Unpin", OrderParameters(location=location, name=name, dry_run=is_dry_run))


@click.command("confirm")
@_location
@_dry_run
@click.pass_obj
def confirm(terminal: Terminal, *, location: str | None, is_dry_run: bool) -> int:
    """Keep what `failover --confirm-within` has done."""
    return operate(terminal, "Confirm", OrderParameters(location=location, dry_run=is_dry_run))


def _give(  # noqa: PLR0917 - the words of one call
    terminal: Terminal,
    method: str,
    location: str | None,
    duration_ns: int,
    name: str,
    reason: str,
    *,
    is_dry_run: bool,
) -> int:
    parameters = OrderParameters(
        location=location, duration_ns=duration_ns, name=name, reason=reason, dry_run=is_dry_run
    )
    return operate(terminal, method, parameters)
