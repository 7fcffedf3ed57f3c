"""`meshwatchctl matrix`: all nodes' view of all nodes, as each advertises it."""

from __future__ import annotations

import shutil

import click

from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_matrix import render_matrix, worst

EXIT_CODES = {"ok": 0, "warning": 1, "critical": 2}


@click.command("matrix")
@click.pass_obj
def matrix(terminal: Terminal) -> int:
    """Show what every node says of every other one.

    Each node advertises with its hellos how it fares, what it has found, and who does not answer it: at once when that
    changes, and every half minute. So any node shows the whole mesh, with who said it and how long ago.

    Exit status: 0 all nodes are ok, 1 some are not or have not reported, 2 some are critical.
    """
    reply = terminal.client.ask("Nodes", NodesReply)
    width = shutil.get_terminal_size((120, 24)).columns
    terminal.answer(reply, lambda: render_matrix(reply, paint=terminal.paint, width=width))
    return EXIT_CODES[worst(reply.nodes)]
