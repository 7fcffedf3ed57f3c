"""`meshwatchctl replay`: run the core over a journal, and say what it decides and whether it decided so before."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from meshwatchd.adapters.storage.journal import replay as journals
from meshwatchd.adapters.storage.journal.replay import Replayed
from meshwatchd.cli.client import EXIT_NO_PERMISSION
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_story import render_event
from meshwatchd.model.errors import ControlError, JournalError
from meshwatchd.model.mtu import SendSizeProbe
from meshwatchd.model.outputs import Output, SessionChanged, SessionSuspected, SetBanner, SuspicionCleared

EXIT_DIFFERENT = 1

_SMALL_TALK = (SessionChanged, SessionSuspected, SuspicionCleared, SetBanner, SendSizeProbe)
"""Told only with --verbose."""


@click.command("replay")
@click.argument("journal", type=click.Path(path_type=Path, readable=False))
@click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Also what led to the decisions.")
@click.pass_obj
def replay(terminal: Terminal, *, journal: Path, is_verbose: bool) -> int:
    """Decide once more what JOURNAL holds: a segment's .state file, or a folder of them.

    The daemon keeps one in its runtime directory when daemon.journal_mib is more than 0.
    A checkpoint is code to whoever reads it: replay only what you trust.

    Exit status: 0 the same decisions, 1 others.
    """
    steps = differences = 0
    _check_access(journal)
    try:
        for segment in journals.segments(journal):
            for step in journals.replay(segment):
                steps += 1
                differences += not step.is_same
                for line in _tell(step, terminal, is_verbose=is_verbose):
                    sys.stdout.write(line + "\n")
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    if not terminal.is_json:
        verdict = "the same" if not differences else f"{differences} of them other than then"
        sys.stdout.write(f"{steps} decisions and changes, {verdict}\n")
    return EXIT_DIFFERENT if differences else 0


def _check_access(journal: Path) -> None:
    """What the daemon keeps is its user's; that is no wrong usage."""
    try:
        is_allowed = not journal.exists() or os.access(journal, os.R_OK)
    except PermissionError:
        is_allowed = False
    if not is_allowed:
        remedy = "run it as the daemon's user: sudo -u meshwatch meshwatchctl replay"
        raise ControlError(EXIT_NO_PERMISSION, f"you may not read {journal}; {remedy}")


def _tell(step: Replayed, terminal: Terminal, *, is_verbose: bool) -> Iterator[str]:
    for output in step.says:
        if is_verbose or not isinstance(output, _SMALL_TALK):
            yield _render(step, output, terminal, level="info")
    if not step.is_same:
        for output in step.said:
            yield _render(step, output, terminal, level="error")


def _render(step: Replayed, output: Output, terminal: Terminal, *, level: str) -> str:
    """A line like those of `meshwatchctl events`; what was said then and is not said again has the level error."""
    fields = msgspec.to_builtins(output)
    fields.pop("fact", None)
    fields.pop("command", None)
    verdict = fields.pop("verdict", None)
    name = ".".join(re.findall("[A-Z][a-z]+", type(output).__name__)).lower()
    event = {"time": _time(step.wall_ns), "event": name, "level": level, **(verdict or {}), **fields}
    if terminal.is_json:
        return msgspec.json.encode({"at_ns": step.at_ns, **event}).decode()
    then = "then: " if level == "error" else ""
    return then + render_event(event, terminal.paint)


def _time(wall_ns: int) -> str:
    seconds, rest = divmod(wall_ns // 1_000_000, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"
