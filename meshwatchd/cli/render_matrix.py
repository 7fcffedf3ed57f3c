"""What every node says of every other: a grid where it fits, and who does not reach whom in words.

A node advertises whom it does not hear. In a mesh small enough to be drawn each node probes all others, so that the
rest answers it; a node whose report is too old has question marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.cli.render_reported import render_reported
from meshwatchd.cli.text import Cell, Paint, columns, render_age
from meshwatchd.model.faults import Severity, weight
from meshwatchd.model.node_status import NodeStatus, ReportedFault

DRAWN = 24
"""Nodes; beyond, a grid is no picture, and not every node probes every other one."""

_CODES = {
    "underlay": "un",
    "wireguard": "wg",
    "ipip": "ip",
    "overlay": "ov",
    "relay": "re",
    "effective": "ef",
    "pod_network": "pn",
}
_ROLES = {"ok": "ok", "warning": "warning", "critical": "critical"}


def worst(nodes: Iterable[NodeStatus]) -> str:
    """The state of all: "critical" where a node says so of itself, "warning" where one is not ok or not known."""
    states = {node.severity if node.is_report_fresh else "" for node in nodes}
    if "critical" in states:
        return "critical"
    return "ok" if states == {"ok"} else "warning"


def render_matrix(reply: NodesReply, *, paint: Paint, width: int) -> str:
    """The page; a grid that is wider than the terminal is left out."""
    nodes = reply.nodes
    known = [node for node in nodes if node.is_report_fresh]
    bad = [node for node in known if node.severity != Severity.OK.value]
    places = len({node.location for node in nodes})
    summary = f"{len(nodes)} nodes in {places} locations: {len(known)} report, {len(bad)} of them not ok"
    state = worst(nodes)
    lines = [f"{paint(state.upper(), state)}  {summary}", ""]
    grid = list(_grid(nodes, paint)) if len(nodes) <= DRAWN else []
    if grid and max(len(line) for line in _grid(nodes, lambda text, _: text)) <= width:
        lines += [*grid, "", *_legend(nodes, paint)]
    else:
        lines += _list(nodes, paint)
    lines += [*_unreached(known), *_reported(known, paint)]
    return "\n".join(lines).rstrip() + "\n"


def _grid(nodes: Sequence[NodeStatus], paint: Paint) -> Iterator[str]:
    """A row for each node, a column for each; columns are numbered, since names are long."""
    names = [node.name for node in nodes]
    head = ("", "NODE", "LOCATION", "STATE", "AGE", *(str(number) for number in range(1, len(nodes) + 1)))
    rows = [_row(number, node, names) for number, node in enumerate(nodes, 1)]
    yield from columns(head, rows, paint)


def _row(number: int, node: NodeStatus, names: Sequence[str]) -> list[Cell]:
    silent = {each.peer: each.layer for each in node.silent}
    return [
        (str(number), "dim"),
        (node.name, ""),
        (node.location or "-", ""),
        *_state(node),
        *(_cell(node, name, silent) for name in names),
    ]


def _state(node: NodeStatus) -> tuple[Cell, Cell]:
    age = "-" if node.report_age_ns is None else render_age(node.report_age_ns).removesuffix(" ago")
    if not node.is_report_fresh:
        return ("unknown", "warning"), (age, "warning")
    return (node.severity or "idle", _ROLES.get(node.severity, "warning")), (age, "dim")


def _cell(node: NodeStatus, name: str, silent: dict[str, str]) -> Cell:
    if name == node.name:
        return ".", "dim"
    if name in silent and node.is_report_fresh:
        return _CODES.get(silent[name], "no"), "critical"
    if not node.is_report_fresh or not node.severity or node.is_cut:
        return "?", "warning"
    return "ok", "ok"


def _legend(nodes: Iterable[NodeStatus], paint: Paint) -> Iterator[str]:
    used = sorted({each.layer for node in nodes for each in node.silent})
    words = [f"{_CODES.get(layer, 'no')} {layer} does not answer" for layer in used]
    words += ["? no report of the present"]
    yield paint(f"row asks column: {', '.join(words)}", "dim")
    yield ""


def _list(nodes: Iterable[NodeStatus], paint: Paint) -> Iterator[str]:
    """The nodes that are not ok, where there are too many for a grid."""
    shown = [node for node in nodes if not node.is_report_fresh or node.severity != Severity.OK.value]
    rows: list[list[Cell]] = [[(node.name, ""), (node.location or "-", ""), *_state(node)] for node in shown]
    if rows:
        yield from columns(("NODE", "LOCATION", "STATE", "AGE"), rows, paint)
        yield ""


def _reported(nodes: Iterable[NodeStatus], paint: Paint) -> Iterator[str]:
    """Each fault once, with all who report it, the worst first; as old as the latest report."""
    found: dict[tuple[str, ...], list[ReportedFault]] = {}
    for each in (each for node in nodes for each in node.faults):
        found.setdefault((each.towards, each.fault, each.culprit, each.peer, each.severity), []).append(each)
    for same in sorted(found.values(), key=lambda same: -weight(same[0].severity)):
        latest = min(same, key=lambda each: each.age_ns)
        names = [each.reported_by for each in same]
        first = msgspec.structs.replace(latest, reported_by=names[0])
        yield render_reported(first, paint, also=names[1:])


def _unreached(nodes: Iterable[NodeStatus]) -> Iterator[str]:
    """Who does not reach whom, by the node that does not answer."""
    found: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        for each in node.silent:
            found.setdefault((each.peer, each.layer), []).append(node.name)
    for (peer, layer), names in sorted(found.items()):
        yield f"{peer} does not answer {', '.join(names)} ({layer})"
