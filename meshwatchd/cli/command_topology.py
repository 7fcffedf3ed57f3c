"""`meshwatchctl topology`."""

from __future__ import annotations

import click

from meshwatchd.adapters.control.topology import TopologyReply
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_topology import render_topology

EXIT_UNRECOGNISED = 1


@click.command("topology")
@click.option("--why", "is_reasoned", is_flag=True, help="Also what was read where, and what it was taken for.")
@click.pass_obj
def topology(terminal: Terminal, *, is_reasoned: bool) -> int:
    """Show which mesh this node is in: its location, role, addresses, layers and paths.

    Exit status: 0 a mesh was recognised, 1 none was.
    """
    reply = terminal.client.ask("Topology", TopologyReply)
    terminal.answer(reply, lambda: render_topology(reply, paint=terminal.paint, is_reasoned=is_reasoned))
    return 0 if reply.view.profiles else EXIT_UNRECOGNISED
