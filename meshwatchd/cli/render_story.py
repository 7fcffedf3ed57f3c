"""Explanations and events as text, for a person on call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meshwatchd.adapters.control.explain import Explanation
from meshwatchd.adapters.control.interface import ExplainReply
from meshwatchd.adapters.control.operator_requests import OperateReply
from meshwatchd.cli.render_findings import explain_finding
from meshwatchd.cli.render_reported import explain_reported
from meshwatchd.cli.text import Paint, entry, render_age
from meshwatchd.model.faults import Severity, weight

_AGE_WIDTH = 12

_UNTOLD = {"seq", "at_ns", "time", "node", "event", "fact", "level", "boot", "location", "pair"}
"""Fields of an event that its line shows elsewhere, or that only programs need."""


def render_explanations(reply: ExplainReply, *, now_ns: int, paint: Paint) -> str:
    """Pairs of locations, what was found on this node, and what others report: the worst first, the nearest first."""
    if not (reply.explanations or reply.findings or reply.reported):
        return f"{reply.node} watches nothing: there is nothing to explain; why: meshwatchctl status\n"
    told = [(finding.severity.value, explain_finding(finding, now_ns, paint)) for finding in reply.findings]
    told += [
        (one.severity.value, _explain(one, now_ns, paint, is_alone=not reply.reported)) for one in reply.explanations
    ]
    told += [(fault.severity, explain_reported(fault, paint)) for fault in reply.reported]
    told.sort(key=lambda one: -weight(one[0]))
    return "\n\n".join("\n".join(lines) for _, lines in told) + "\n"


def _explain(one: Explanation, now_ns: int, paint: Paint, *, is_alone: bool) -> Iterator[str]:
    """A pair; where all is well while others report what is not, that is said of this node alone."""
    word = paint(one.severity.value.upper(), one.severity.value)
    here = "" if is_alone or one.severity is not Severity.OK else " this node; other nodes report the faults above"
    yield f"{word}  {one.location} to {one.remote_location}: {paint(one.title + here, 'strong')}"
    since = "" if one.since_ns is None else f", since {render_age(now_ns - one.since_ns)}"
    if one.severity is not Severity.OK:
        place = f"{one.place}, " if one.place else ""
        direction = "" if one.direction == "unknown" else f", direction {one.direction}"
        yield from entry("where", [f"{place}layer {one.layer}{direction}; fault {one.fault}{since}"], paint)
        yield from entry("why", one.because or ("no evidence was recorded",), paint)
        yield from entry("remedy", [one.remedy], paint)
    if one.done:
        ages = [(render_age(now_ns - deed.at_ns), deed.text) for deed in one.done]
        width = max(_AGE_WIDTH, *(len(age) + 2 for age, _ in ages))
        yield from entry("done", [age.ljust(width) + text for age, text in ages], paint, hanging=width)
    yield from entry("next", one.next, paint)


def render_event(event: Mapping[str, object], paint: Paint) -> str:
    """One event on one line: when, what, towards which location, and its fields."""
    at = str(event.get("time", ""))[5:-1].replace("T", " ")
    level = str(event.get("level", "info"))
    location = event.get("location")
    words = [f"to {location}"] if location else []
    words += [f"{key}={_render_value(value)}" for key, value in event.items() if _is_told(key, value)]
    name = paint(str(event.get("event", "?")).ljust(20), level)
    return f"{paint(at.ljust(18), 'dim')}  {name}  {' '.join(words)}".rstrip()


def _is_told(key: str, value: object) -> bool:
    return key not in _UNTOLD and value not in (None, "", [], ())


def _render_value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + "; ".join(_render_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def render_operation(reply: OperateReply, *, is_dry_run: bool, paint: Paint) -> str:
    """What was done or refused, and the commands that are equal to it, ready to be copied."""
    verdict = paint("accepted", "ok") if reply.accepted else paint("refused", "critical")
    lines = [f"{verdict}: {reply.text}" if reply.text else verdict]
    if reply.operations:
        is_run = reply.accepted and not is_dry_run
        lines.append("on this node:" if is_run else "on this node, not carried out:")
        lines += [f"  {operation}" for operation in reply.operations]
    return "\n".join(lines) + "\n"
