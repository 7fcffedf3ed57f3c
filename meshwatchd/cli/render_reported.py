"""A fault that another node reports, in one line."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.cli.text import Paint, render_age
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.node_status import ReportedFault


def render_reported(fault: ReportedFault, paint: Paint) -> str:
    """A fault with who reports it, and how long ago."""
    is_code = fault.fault in set(FaultCode)
    title = CATALOGUE[FaultCode(fault.fault)].title if is_code else fault.fault
    names = [fault.culprit, CATALOGUE[FaultCode(fault.fault)].layer.name.lower() if is_code else ""]
    where = f" [{', '.join(filter(None, names))}]" if any(names) else ""
    towards = f"to {fault.towards}: " if fault.towards else ""
    word = paint(fault.severity.upper(), fault.severity)
    return f"{word}  {fault.reported_by} reports: {towards}{title}{where}, {render_age(fault.age_ns)}"


def explain_reported(fault: ReportedFault, paint: Paint) -> Iterator[str]:
    """The same with what to do; the evidence is at the node that reports."""
    yield render_reported(fault, paint)
    there = f"on {fault.reported_by}: meshwatchctl explain, which has the evidence and the remedy"
    yield f"  {paint('next', 'dim')}    {there}"
