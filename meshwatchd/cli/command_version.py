"""`meshwatchctl version`."""

from __future__ import annotations

import sys

import click
import msgspec

import meshwatchd
from meshwatchd.adapters.control.varlink import REPLIES
from meshwatchd.cli.main import Terminal
from meshwatchd.model.decoding import decode_json
from meshwatchd.model.errors import ControlError


@click.command("version")
@click.pass_obj
def version(terminal: Terminal) -> int:
    """Show the version of this program and of the running daemon."""
    versions = {"meshwatchctl": meshwatchd.__version__, "meshwatchd": _ask_daemon(terminal)}
    if terminal.is_json:
        sys.stdout.write(msgspec.json.encode(versions).decode() + "\n")
    else:
        sys.stdout.writelines(f"{name} {version or 'not running'}\n" for name, version in versions.items())
    return 0


def _ask_daemon(terminal: Terminal) -> str | None:
    try:
        reply = terminal.client.call("org.varlink.service.GetInfo")
    except ControlError:
        return None
    return str(decode_json(reply, dict[str, object], REPLIES).get("version"))
