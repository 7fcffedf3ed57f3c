"""`meshwatchctl forget`."""

from __future__ import annotations

import sys

import click
import msgspec

from meshwatchd.adapters.control.forgetting import ForgetParameters, ForgetReply
from meshwatchd.cli.main import Terminal


@click.command("forget")
@click.argument("node")
@click.pass_obj
def forget(terminal: Terminal, *, node: str) -> int:
    """Accept whatever identity NODE has next: it was reinstalled without its state directory.

    Run it on each node that refuses the new one. Whoever has the mesh key can take the name first, so be sure that
    it is NODE. Root only.

    Exit status: 0 its identity is forgotten, 1 none was remembered.
    """
    reply = terminal.client.call("io.meshwatch.Control.Forget", ForgetParameters(node=node))
    was_known = msgspec.json.decode(reply, type=ForgetReply).was_known
    if terminal.is_json:
        sys.stdout.write(msgspec.json.encode({"was_known": was_known}).decode() + "\n")
    elif was_known:
        sys.stdout.write(f"the identity of {node} is forgotten; its next hello introduces it anew\n")
    else:
        sys.stdout.write(f"no identity of {node} is remembered here\n")
    return 0 if was_known else 1
