"""`meshwatchctl mtu`."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from meshwatchd.adapters.control.interface import MtuReply
from meshwatchd.adapters.control.varlink import REPLIES
from meshwatchd.cli.main import EXIT_UNREACHABLE, Terminal
from meshwatchd.cli.render_mtu import render_sizes, worst_state
from meshwatchd.cli.text import is_stale, warn_if_stale
from meshwatchd.model.decoding import decode_json
from meshwatchd.model.errors import ControlError

EXIT_CODES = {"ok": 0, "warning": 1, "critical": 2, "unknown": EXIT_UNREACHABLE}


@click.command("mtu")
@click.argument("node", default="")
@click.pass_obj
def mtu(terminal: Terminal, *, node: str) -> int:
    """Show what size each layer of each path carries, towards NODE or towards all.

    The exit status is 0 where everything carries what it should, 1 where something is to be done, 2 where large packets
    are lost, 3 where the daemon does not know.
    """
    reply = decode_json(terminal.client.call("io.meshwatch.Control.Mtu", {"node": node}), MtuReply, REPLIES)
    if node and not reply.sizes:
        raise ControlError(64, f"no size is measured towards {node}; `meshwatchctl mtu` has the nodes that are")
    now_ns = time.monotonic_ns()
    if terminal.is_json:
        sys.stdout.write(msgspec.json.encode(reply).decode() + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in warn_if_stale(reply.at_ns, now_ns, terminal.paint)))
        sys.stdout.write(render_sizes(reply, paint=terminal.paint))
    if is_stale(reply.at_ns, now_ns):
        return EXIT_UNREACHABLE
    return EXIT_CODES[worst_state(reply)] if reply.sizes else 0
