"""One self-contained page about the mesh or about one incident: pictures, evidence, decisions, the outage."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import meshwatchd
from meshwatchd.adapters.control.explain import Explanation
from meshwatchd.adapters.control.incidents import Incident
from meshwatchd.cli.render import render_status
from meshwatchd.cli.render_incidents import render_outage, render_seconds, render_time
from meshwatchd.cli.report_svg import Broken, draw_mesh
from meshwatchd.cli.report_timeline import draw_timeline
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.faults import find_fault
from meshwatchd.model.status import Status

_CLOSE_UP_NS = 3_000_000_000
"""From the first lost probe to a move takes a fraction of this; an incident may take hours."""

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#263238;background:#fafafa;margin:0 auto;max-width:1000px;padding:1.5rem}
h1{font-size:1.4rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:1.6rem 0 .5rem}
.severity{display:inline-block;padding:.1rem .6rem;border-radius:.8rem;color:#fff;font-size:.85rem;margin-right:.5rem}
.ok{background:#2e7d32}.warning{background:#b26a00}.critical{background:#c62828}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem}.facts dt{color:#607d8b}.facts dd{margin:0}
svg{max-width:100%;height:auto;border:1px solid #cfd8dc;border-radius:6px;background:#fff}
table{border-collapse:collapse;width:100%}td{padding:.15rem .8rem .15rem 0;vertical-align:top}
td:first-child{white-space:nowrap}
td:first-child,footer{color:#607d8b}td:first-child,pre{font-family:ui-monospace,monospace;font-size:.82rem}
pre{white-space:pre-wrap;background:#fff;border:1px solid #cfd8dc;border-radius:6px;padding:.8rem}
footer{margin-top:2rem;font-size:.8rem}
"""


def render_page(
    status: Status | None, incident: Incident | None, explanations: tuple[Explanation, ...] = (), *, now_ns: int
) -> str:
    """HTML without a link to anything else: it can be mailed, and opened where there is no network.

    Args:
        status: to draw the mesh by; None where no daemon could be asked.
        incident: with its events; None for a page about the present.
        explanations: of the present.
        now_ns: CLOCK_MONOTONIC, to tell ages.
    """
    body = [*(_about_incident(incident) if incident is not None else _about_now(status, explanations))]
    if status is not None:
        broken = None if incident is None else Broken(incident.fault, incident.layer, incident.culprit)
        when = "the mesh as it is, with what was broken marked" if incident is not None else "the mesh"
        body += [f"<h2>{when[0].upper()}{when[1:]}</h2>", draw_mesh(status, broken)]
    if incident is not None:
        body += _timeline(incident)
        body += _decisions(incident)
    if status is not None:
        shown = render_status(status, now_ns=now_ns, paint=paint_nothing)
        body += ["<h2>Status of the node</h2>", f"<pre>{escape(shown)}</pre>"]
    node = incident.observer if incident is not None else "" if status is None else status.node
    title = f"meshwatchd: incident {incident.number}" if incident is not None else f"meshwatchd: {node}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + f"\n<footer>as seen by {escape(node)}; meshwatchd {escape(meshwatchd.__version__)}</footer>\n</body></html>\n"
    )


def _about_incident(one: Incident) -> Iterator[str]:
    fault = find_fault(one.fault)
    yield f"<h1>{_badge(one.severity)}Incident {one.number}: {escape(one.fault if fault is None else fault.title)}</h1>"
    lasted = render_seconds(one.duration_ns) + ("" if one.is_over else " so far")
    facts = [
        ("When", f"{render_time(one.began)} UTC, {lasted}"),
        (
            "Where",
            ", ".join(each for each in (f"node {one.culprit}" if one.culprit else "", f"layer {one.layer}") if each),
        ),
        ("Traffic to", one.location or "not concerned"),
        ("Direction", "" if one.direction == "unknown" else one.direction),
        ("Outage", render_outage(one)),
        ("Remedy", fault.remedy if fault is not None else ""),
    ]
    yield _facts(facts)
    yield "<h2>Evidence</h2>" + _list(one.because or ("no evidence was recorded",))


def _about_now(status: Status | None, explanations: tuple[Explanation, ...]) -> Iterator[str]:
    if status is None:
        yield "<h1>no daemon could be asked</h1>"
        return
    yield f"<h1>{_badge(status.severity.value)}{escape(status.node)} in {escape(status.location or 'no mesh')}</h1>"
    for one in explanations:
        yield f"<h2>{_badge(one.severity.value)}To {escape(one.remote_location)}: {escape(one.title)}</h2>"
        yield _list((*one.because, *one.next))


def _timeline(incident: Incident) -> Iterator[str]:
    picture = draw_timeline(incident)
    if picture:
        yield "<h2>Probes by layer</h2>"
        yield (
            "<p>Each row is one leg that changed. Green answered, amber was suspect, red was down. The red shade is"
            " the time in which traffic was lost; red lines are verdicts, blue ones moves.</p>"
        )
        if incident.duration_ns > 4 * _CLOSE_UP_NS:
            yield f"{draw_timeline(incident, close_up_ns=_CLOSE_UP_NS)}<p>All of it:</p>"
        yield picture


def _decisions(incident: Incident) -> Iterator[str]:
    yield "<h2>What was found and done</h2>"
    rows = (
        f"<tr><td>{escape(render_time(step.time))}</td><td>{escape(step.text)}</td></tr>" for step in incident.steps
    )
    yield f"<table>{''.join(rows)}</table>"


def _facts(facts: list[tuple[str, str]]) -> str:
    return (
        "<dl class=facts>"
        + "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts if text)
        + "</dl>"
    )


def _list(sentences: tuple[str, ...]) -> str:
    return "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in sentences) + "</ul>"


def _badge(severity: str) -> str:
    return f'<span class="severity {escape(severity)}">{escape(severity.upper())}</span>'
