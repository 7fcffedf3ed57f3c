"""`meshwatchctl topology`."""

from __future__ import annotations

import sys

import click
import msgspec

from meshwatchd.adapters.control.topology import TopologyReply
from meshwatchd.adapters.control.varlink import REPLIES
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_topology import render_topology
from meshwatchd.model.decoding import decode_json

EXIT_UNRECOGNISED = 1


@click.command("topology")
@click.option("--why", "is_reasoned", is_flag=True, help="Also what was read where, and what it was taken for.")
@click.pass_obj
def topology(terminal: Terminal, *, is_reasoned: bool) -> int:
    """Show which mesh this node is in: its location, role, addresses, layers and paths.

    Exit status: 0 a mesh was recognised, 1 none was.
    """
    reply = decode_json(terminal.client.call("io.meshwatch.Control.Topology"), TopologyReply, REPLIES)
    if terminal.is_json:
        sys.stdout.write(msgspec.json.encode(reply).decode() + "\n")
    else:
        sys.stdout.write(render_topology(reply, paint=terminal.paint, is_reasoned=is_reasoned))
    return 0 if reply.view.profiles else EXIT_UNRECOGNISED
