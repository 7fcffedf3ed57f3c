"""`meshwatchctl explain`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from meshwatchd.adapters.control.interface import ExplainReply
from meshwatchd.cli.client import EXIT_NOT_WATCHING
from meshwatchd.cli.command_incidents import FOLDER, IncidentNumber, fetch_incident
from meshwatchd.cli.command_status import EXIT_CODES
from meshwatchd.cli.main import EXIT_UNREACHABLE, Terminal
from meshwatchd.cli.render_findings import explain_code, list_codes
from meshwatchd.cli.render_incidents import explain_incident
from meshwatchd.cli.render_story import render_explanations
from meshwatchd.cli.text import is_stale, warn_if_stale
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity


@click.command("explain")
@click.argument("code", required=False, type=click.Choice([code.value for code in FaultCode]), metavar="[CODE]")
@click.option("--list", "is_listed", is_flag=True, help="All faults there can be, one a line.")
@click.option(
    "--incident",
    "number",
    type=IncidentNumber(),
    metavar="NUMBER|last",
    help="Explain an incident of `incidents` instead.",
)
@click.option("--from", "folder", type=FOLDER, metavar="FOLDER", help="With --incident: as of `incidents`.")
@click.pass_obj
def explain(terminal: Terminal, *, code: str | None, is_listed: bool, number: int | None, folder: Path | None) -> int:
    """Say why: the evidence, the remedy, what was done about it, and what comes next.

    With the CODE of a fault: what that fault is, whether or not it is there, from any machine. Otherwise the exit
    status is that of the worst verdict: 0 ok, 1 degraded, 2 critical, 3 unknown, 4 nothing is watched.
    """
    if is_listed:
        terminal.answer(list(CATALOGUE.values()), lambda: list_codes(terminal.paint))
        return 0
    if folder is not None and number is None:
        raise click.UsageError("--from needs --incident")
    if code is not None:
        entry = CATALOGUE[FaultCode(code)]
        terminal.answer(entry, lambda: explain_code(entry.code))
        return 0
    if number is not None:
        told = fetch_incident(terminal, folder, number)
        terminal.answer(told, lambda: explain_incident(told, terminal.paint))
        return 0
    reply = terminal.client.ask("Explain", ExplainReply)
    now_ns = time.monotonic_ns()
    warning = "".join(f"{line}\n" for line in warn_if_stale(reply.at_ns, now_ns, terminal.paint))
    terminal.answer(reply, lambda: warning + render_explanations(reply, now_ns=now_ns, paint=terminal.paint))
    if is_stale(reply.at_ns, now_ns):
        return EXIT_UNREACHABLE
    if not reply.explanations:
        return EXIT_NOT_WATCHING
    severities = [one.severity for one in reply.explanations] + [one.severity for one in reply.findings]
    return max((EXIT_CODES[Severity(severity)] for severity in severities), default=0)
