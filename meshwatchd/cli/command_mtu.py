"""`meshwatchctl mtu`."""

from __future__ import annotations

import time

import click

from meshwatchd.adapters.control.interface import MtuReply
from meshwatchd.cli.main import EXIT_UNREACHABLE, Terminal
from meshwatchd.cli.render_mtu import render_sizes, worst_state
from meshwatchd.cli.text import is_stale, warn_if_stale
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
    reply = terminal.client.ask("Mtu", MtuReply, {"node": node})
    if node and not reply.sizes:
        raise ControlError(64, f"no size is measured towards {node}; `meshwatchctl mtu` has the nodes that are")
    now_ns = time.monotonic_ns()
    warning = "".join(f"{line}\n" for line in warn_if_stale(reply.at_ns, now_ns, terminal.paint))
    terminal.answer(reply, lambda: warning + render_sizes(reply, paint=terminal.paint))
    if is_stale(reply.at_ns, now_ns):
        return EXIT_UNREACHABLE
    return EXIT_CODES[worst_state(reply)] if reply.sizes else 0
