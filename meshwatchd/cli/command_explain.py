"""`meshwatchctl explain`."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from meshwatchd.adapters.control.interface import ExplainReply
from meshwatchd.cli.command_status import EXIT_CODES
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_story import render_explanations
from meshwatchd.model.faults import Severity


@click.command("explain")
@click.pass_obj
def explain(terminal: Terminal) -> int:
    """Say why: the evidence, the remedy, what was done about it, and what comes next.

    The exit status is that of the worst verdict: 0 ok, 1 degraded, 2 critical.
    """
    reply = msgspec.json.decode(terminal.client.call("io.meshwatch.Control.Explain"), type=ExplainReply)
    if terminal.is_json:
        sys.stdout.write(msgspec.json.encode(reply).decode() + "\n")
    else:
        sys.stdout.write(render_explanations(reply, now_ns=time.monotonic_ns(), paint=terminal.paint))
    return max((EXIT_CODES[Severity(one.severity)] for one in reply.explanations), default=0)
