"""What looks at a node's kernel have found, and lines of the fault catalogue, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from meshwatchd.cli.text import Cell, Paint, columns, entry, render_age
from meshwatchd.model.faults import CATALOGUE, Fault, FaultCode
from meshwatchd.model.status import FindingStatus
from meshwatchd.model.units import render_duration

_WIDTH = 100
_SUBJECT_CHARACTERS = 20
"""A public key is longer; its beginning is enough to find it."""

_REPAIRS = {
    "none": "nothing can be put right from here",
    "advised": "not carried out; to do it by hand:",
    "started": "under way:",
    "verified": "carried out and verified:",
    "undone": "did not hold and was undone:",
    "held": "held back (why: meshwatchctl events):",
}


def summarise_finding(finding: FindingStatus, paint: Paint) -> str:
    """One line of the summary: how bad, what, where."""
    word = paint(finding.severity.value.upper(), finding.severity.value)
    at = f"at {finding.culprit}" if finding.culprit else ""
    where = ", ".join(filter(None, dict.fromkeys((at, finding.device, _shorten(finding.subject)))))
    return f"{word}  on this node: {paint(CATALOGUE[finding.fault].title, 'strong')} [{where}]"


def render_findings(findings: tuple[FindingStatus, ...], at_ns: int, paint: Paint) -> list[str]:
    """A table."""
    rows: list[list[Cell]] = [
        [
            (finding.fault.value, finding.severity.value),
            (finding.device or "-", ""),
            (_shorten(finding.subject), ""),
            (finding.peer or "-", ""),
            (finding.culprit or "-", ""),
            (finding.repair, ""),
            (render_age(at_ns - finding.since_ns), "dim"),
        ]
        for finding in findings
    ]
    return columns(("FAULT", "DEVICE", "OF", "PEER", "AT", "REPAIR", "SINCE"), rows, paint)


def explain_finding(finding: FindingStatus, now_ns: int, paint: Paint) -> Iterator[str]:
    """The evidence, the remedy, and the commands that would put it right."""
    yield summarise_finding(finding, paint)
    since = render_age(now_ns - finding.since_ns)
    yield from entry(
        "where", [f"layer {finding.layer.name.lower()}; fault {finding.fault.value}, since {since}"], paint
    )
    yield from entry("why", finding.because, paint)
    yield from entry("remedy", [CATALOGUE[finding.fault].remedy], paint)
    yield from entry("repair", [_REPAIRS.get(finding.repair, finding.repair)], paint)
    yield from (f"          {command}" for command in finding.commands)


def explain_code(code: FaultCode) -> str:
    """A line of the catalogue in full."""
    fault = CATALOGUE[code]
    lines = [f"{code.value}: {fault.title}", ""]
    lines += [
        f"  severity  {fault.severity.value}",
        f"  layer     {fault.layer.name.lower()}",
        f"  reported  {_told(fault)}",
    ]
    if fault.depends_on:
        lines += _paragraph("hidden by", ", ".join(each.value for each in fault.depends_on))
    lines += _paragraph("about", fault.about) if fault.about else []
    return "\n".join([*lines, *_paragraph("remedy", fault.remedy)]) + "\n"


def list_codes(paint: Paint) -> str:
    """Every line of the catalogue: `explain CODE` has it in full."""
    rows: list[list[Cell]] = [
        [
            (code.value, ""),
            (fault.severity.value, fault.severity.value),
            (fault.layer.name.lower(), ""),
            (fault.title, ""),
        ]
        for code, fault in CATALOGUE.items()
    ]
    return "\n".join(columns(("FAULT", "SEVERITY", "LAYER", "TITLE"), rows, paint)) + "\n"


def _told(fault: Fault) -> str:
    if fault.confirm_ns:
        return f"once it has stood for {render_duration(fault.confirm_ns)}"
    return "as soon as the evidence suffices"


def _paragraph(label: str, text: str) -> list[str]:
    margin = " " * 12
    first = f"  {label.ljust(10)}"
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=margin, break_on_hyphens=False)


def _shorten(subject: str) -> str:
    return subject if len(subject) <= _SUBJECT_CHARACTERS else f"{subject[:8]}..."
