"""A check-up as text: the worst first line, which monitoring shows, then one line for each check."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from meshwatchd.cli.text import Paint
from meshwatchd.model.checkup import Check, CheckState, worst

_WIDTH = 100
_WORDS = {CheckState.WARNING: "WARNING", CheckState.ERROR: "CRITICAL"}
_ROLES = {CheckState.OK: "ok", CheckState.NOTE: "dim", CheckState.WARNING: "warning", CheckState.ERROR: "critical"}
_AREA_WIDTH = 15


def render_checkup(checks: Sequence[Check], *, paint: Paint) -> str:
    """All checks in the order in which they were made."""
    return (
        "\n".join([summarise(checks, paint=paint), "", *(line for each in checks for line in _lines(each, paint))])
        + "\n"
    )


def summarise(checks: Sequence[Check], *, paint: Paint) -> str:
    """One line as Nagios wants it: a word, numbers, and the first thing that is wrong. It has no "|" in it."""
    state = worst(checks)
    if state in (CheckState.OK, CheckState.NOTE):
        return f"{paint('OK', 'ok')}  {len(checks)} checks, nothing to be done"
    bad = [check for check in checks if check.state in _WORDS]
    first = next(check for check in bad if check.state is state)
    text = first.text.replace("|", "/")
    return f"{paint(_WORDS[state], _ROLES[state])}  {len(bad)} of {len(checks)} checks: {text}"


def _lines(check: Check, paint: Paint) -> Iterator[str]:
    word = paint(check.state.value.ljust(9), _ROLES[check.state])
    margin = " " * (9 + _AREA_WIDTH)
    lines = textwrap.wrap(check.text, _WIDTH - len(margin), break_on_hyphens=False, break_long_words=False)
    yield word + check.area.ljust(_AREA_WIDTH) + lines[0]
    yield from (margin + line for line in lines[1:])
    if check.remedy:
        # A command is one line, however long: it is there to be copied.
        yield f"{margin}{paint('remedy:', 'dim')} {check.remedy}"
