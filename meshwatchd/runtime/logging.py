"""Log lines of the agent process: JSON for machines or one line for people, on standard error.

In systemd's journal each line begins with its priority, and is for people unless JSON is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from typing import TextIO

import msgspec
import structlog

from meshwatchd.model.decoding import refusals
from meshwatchd.runtime.sinks import Log
from meshwatchd.runtime.stderr import PRIORITIES, is_journal, render_plainly

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

Renderer = Callable[[object, str, MutableMapping[str, object]], str]
"""Turns the fields of a line into its text."""


def make_log(log_format: str, *, stream: TextIO | None = None, level: str = "info") -> Log:
    """A structlog logger; the format "auto" writes lines for people in the journal, and JSON elsewhere."""
    target = sys.stderr if stream is None else stream
    in_journal = is_journal(target)
    render: Renderer = _console(target) if log_format == "console" else _render_json
    if in_journal:
        render = _prefix_priority(_render_json if log_format == "json" else _render_plainly)
    log: Log = structlog.wrap_logger(
        structlog.PrintLogger(target),
        processors=[structlog.processors.add_log_level, _stamp, render],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        context_class=dict,
    )
    return log


def report_refusals(log: Log) -> Log:
    """Have the first input that is refused of each source logged; returns the log."""
    refusals.report = lambda error: log.warning(
        "input.refused", source=error.source, reason=error.reason, remedy=error.remedy
    )
    return log


def _render_json(_logger: object, _method: str, fields: MutableMapping[str, object]) -> str:
    """One JSON object; time, level and event come first, where the eye looks."""
    first = {key: fields.pop(key) for key in ("time", "level", "event") if key in fields}
    return msgspec.json.encode({**first, **fields}, enc_hook=str).decode()


def _render_plainly(_logger: object, _method: str, fields: MutableMapping[str, object]) -> str:
    return render_plainly(fields)


def _console(target: TextIO) -> Renderer:
    renderer = structlog.dev.ConsoleRenderer(colors=target.isatty(), timestamp_key="time", sort_keys=False)
    return lambda logger, method, fields: str(renderer(logger, method, fields))


def _stamp(_logger: object, _method: str, fields: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """The wall time, unless the line brings the time of what it tells."""
    if "time" in fields:
        return fields
    return _NOW(None, "", dict(fields))


_NOW = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")


def _prefix_priority(render: Renderer) -> Renderer:
    def render_with_priority(logger: object, method: str, fields: MutableMapping[str, object]) -> str:
        return PRIORITIES.get(method, "<6>") + render(logger, method, fields)

    return render_with_priority
