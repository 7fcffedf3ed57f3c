"""`meshwatchctl forget`."""

from __future__ import annotations

import click

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
    was_known = terminal.client.ask("Forget", ForgetReply, ForgetParameters(node=node)).was_known
    forgotten = f"the identity of {node} is forgotten; its next hello introduces it anew\n"
    text = forgotten if was_known else f"no identity of {node} is remembered here\n"
    terminal.answer({"was_known": was_known}, lambda: text)
    return 0 if was_known else 1
