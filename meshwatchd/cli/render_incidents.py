"""The history of incidents as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwatchd.adapters.control.incidents import Incident
from meshwatchd.cli.text import Cell, Paint, columns, entry
from meshwatchd.model.faults import find_fault

_DEEDS = (
    ("moved traffic", "moved"),
    ("the repair holds", "repaired"),
    ("rolled back", "rolled back"),
    ("would have", "advised"),
    ("left traffic", "held"),
)
"""The beginning of a step and the word for it in the list, the latest that applies."""

_TIME_WIDTH = 14

MAX_STEPS = 40
"""Half of them from the beginning, half from the end; a path that flapped for hours has hundreds."""


def render_incidents(incidents: Sequence[Incident], paint: Paint) -> str:
    """A table, the latest last."""
    if not incidents:
        return "no incident is on record here\n"
    rows: list[list[Cell]] = [
        [
            (str(one.number), ""),
            (render_time(one.began)[:14], ""),
            (_lasted(one), "" if one.is_over else "critical"),
            (one.fault, one.severity),
            (one.culprit or "-", ""),
            (one.layer or "-", ""),
            (one.location or "-", ""),
            (render_outage(one), ""),
            (_summarise_steps(one), "dim"),
        ]
        for one in incidents
    ]
    header = ("NO.", "BEGAN (UTC)", "LASTED", "FAULT", "NODE", "LAYER", "TO", "OUTAGE", "DONE")
    return "\n".join([*columns(header, rows, paint), "", paint("one of them: explain --incident NO.", "dim")]) + "\n"


def explain_incident(one: Incident, paint: Paint) -> str:
    """What happened, why the daemon thought so, what was done, and for how long traffic was lost."""
    return "\n".join(_explain(one, paint)) + "\n"


def _explain(one: Incident, paint: Paint) -> Iterator[str]:
    fault = find_fault(one.fault)
    title = one.fault if fault is None else fault.title
    to = f", traffic to {one.location}" if one.location else ""
    yield f"{paint(one.severity.upper(), one.severity)}  incident {one.number} on {one.observer}{to}: " + paint(
        title, "strong"
    )
    end = f"to {render_time(one.ended)} UTC, {_lasted(one)}" if one.ended else _lasted(one)
    yield from entry("when", [f"{render_time(one.began)} {end}"], paint)
    direction = "" if one.direction == "unknown" else f", direction {one.direction}"
    place = f"node {one.culprit}, " if one.culprit else ""
    yield from entry("where", [f"{place}layer {one.layer or '-'}{direction}; fault {one.fault}"], paint)
    yield from entry("why", one.because or ("no evidence was recorded",), paint)
    yield from entry("outage", [_explain_outage(one)], paint)
    if one.steps:
        done = [render_time(step.time)[6:].ljust(_TIME_WIDTH) + step.text for step in one.steps]
        if len(done) > MAX_STEPS:
            done[MAX_STEPS // 2 : -MAX_STEPS // 2] = [f"... {len(done) - MAX_STEPS} more, with --json ..."]
        yield from entry("done", done, paint, hanging=_TIME_WIDTH)
    if fault is not None:
        yield from entry("remedy", [fault.remedy], paint)


def render_time(time: str) -> str:
    """An event's time as "03-01 03:12:07.123"; a dash where there is none."""
    return time[5:].rstrip("Z").replace("T", " ") or "-"


def render_outage(one: Incident) -> str:
    """As "0.31 s"; "none" where no traffic was lost."""
    return "none" if one.outage_ns is None else render_seconds(one.outage_ns)


def render_seconds(duration_ns: int) -> str:
    """A duration with the digits that matter."""
    seconds = duration_ns / 1e9
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _lasted(one: Incident) -> str:
    if not one.is_over:
        return "goes on"
    if not one.ended:
        return "end unseen"
    return render_seconds(one.duration_ns)


def _explain_outage(one: Incident) -> str:
    if one.outage_ns is None:
        return "no traffic was lost, by this node's probes"
    so_far = "" if one.is_over else " so far"
    lost = render_seconds(one.outage_ns)
    return f"{lost}{so_far}, from the first probe that was lost to the move, or to the end of the fault"


def _summarise_steps(one: Incident) -> str:
    words = [word for step in one.steps for beginning, word in _DEEDS if step.text.startswith(beginning)]
    return words[-1] if words else "-"
