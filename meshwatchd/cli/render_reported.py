"""A fault that another node reports, in one line."""

from __future__ import annotations

from meshwatchd.cli.text import Paint, render_age
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.node_status import ReportedFault


def render_reported(fault: ReportedFault, paint: Paint) -> str:
    """A fault with who reports it, and how long ago."""
    is_code = fault.fault in set(FaultCode)
    title = CATALOGUE[FaultCode(fault.fault)].title if is_code else fault.fault
    where = f" [{fault.culprit}]" if fault.culprit else ""
    towards = f"to {fault.towards}: " if fault.towards else ""
    word = paint(fault.severity.upper(), fault.severity)
    return f"{word}  {fault.reported_by} reports: {towards}{title}{where}, {render_age(fault.age_ns)}"
