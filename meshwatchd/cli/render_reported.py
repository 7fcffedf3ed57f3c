"""A fault that another node reports, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwatchd.cli.text import Paint, entry, render_age
from meshwatchd.model.faults import BETWEEN_NODES, find_fault
from meshwatchd.model.node_status import ReportedFault


def render_reported(fault: ReportedFault, paint: Paint, *, also: Iterable[str] = ()) -> str:
    """A fault with who reports it, the first of them and all others, and how long ago."""
    known = find_fault(fault.fault)
    title, layer = (fault.fault, "") if known is None else (known.title, known.layer.name.lower())
    at = "tunnel to" if fault.fault in BETWEEN_NODES else "at"
    names = [
        f"{at} {fault.culprit}" if fault.culprit else "",
        f"peer {fault.peer}" if fault.peer not in ("", fault.culprit) else "",
        layer,
    ]
    where = f" [{', '.join(filter(None, names))}]" if any(names) else ""
    towards = f"to {fault.towards}: " if fault.towards else ""
    word = paint(fault.severity.upper(), fault.severity)
    others = tuple(also)
    who = f"{', '.join((fault.reported_by, *others))} report" if others else f"{fault.reported_by} reports"
    return f"{word}  {who}: {towards}{title}{where}, {render_age(fault.age_ns)}"


def explain_reported(fault: ReportedFault, paint: Paint) -> Iterator[str]:
    """The same with what to do; the evidence is at the node that reports."""
    yield render_reported(fault, paint)
    if (known := find_fault(fault.fault)) is not None:
        yield from entry("remedy", [known.remedy], paint)
    yield from entry("next", [f"on {fault.reported_by}: meshwatchctl explain, which has the evidence"], paint)
