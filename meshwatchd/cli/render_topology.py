"""A node's view of its mesh as text: place and role first, then what carries it, then why."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.adapters.control.naming import name_path
from meshwatchd.adapters.control.topology import TopologyReply
from meshwatchd.cli.text import Cell, Paint, columns
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.mesh_profile import BESIDE


def render_topology(reply: TopologyReply, *, paint: Paint, is_reasoned: bool = False) -> str:
    """The view of one node."""
    view = reply.view
    # A name that sources do not tell is agreed on by hellos; the mesh that is probed has it.
    location = view.location or (reply.pairs[0].location if reply.pairs else "")
    lines = [_place(view, location, paint), *_addresses(view, paint)]
    if view.layers:
        lines += ["", *_layers(view, paint)]
    if reply.pairs:
        lines += ["", *_paths(reply, paint)]
    if view.candidates:
        lines += ["", *_others(view, paint)]
    if is_reasoned:
        lines += ["", *columns(("READ FROM", "SO"), _findings(view), paint)]
    else:
        lines += ["", paint("why: meshwatchctl topology --why", "dim")]
    return "\n".join(lines) + "\n"


def _place(view: LocalView, location: str, paint: Paint) -> str:
    if not view.profiles:
        return f"{paint('NO MESH', 'warning')}  nothing on {view.node} looks like one"
    nowhere = "in a location without a name" if view.granularity else "in a mesh without locations"
    place = f"in {paint(location, 'strong')}" if location else nowhere
    role = f", {_role(view)}" if view.granularity else ""
    return f"{view.node} {place}{role}; {_kinds(view)}"


def _kinds(view: LocalView) -> str:
    kinds = " over ".join(kind for kind in view.profiles if kind not in BESIDE)
    beside = ", ".join(kind for kind in view.profiles if kind in BESIDE)
    return " beside ".join(filter(None, (kinds, beside)))


def _role(view: LocalView) -> str:
    if view.granularity in {"full", "cross"}:
        return f"every node leads itself ({view.granularity} granularity)"
    if view.is_leader:
        return "leads it"
    return f"led by {view.leader}" if view.leader else "no leader"


def _addresses(view: LocalView, paint: Paint) -> Iterator[str]:
    told = (
        ("node", _both(view.node_ip, view.node_ip6)),
        ("pods", view.pod_cidr),
        ("overlay", _both(view.overlay_ip, view.overlay_ip6)),
        ("wireguard", _both(view.wireguard_ip, view.wireguard_ip6)),
        ("from outside", view.public_endpoint),
    )
    words = [f"{paint(name, 'dim')} {text}" for name, text in told if text]
    if words:
        yield "  ".join(words)


def _both(v4: str, v6: str) -> str:
    return ", ".join(filter(None, (v4, v6)))


def _layers(view: LocalView, paint: Paint) -> list[str]:
    rows: list[list[Cell]] = [
        [(layer.device, ""), (layer.kind, ""), (str(layer.mtu_bytes), ""), (layer.over or "-", "")]
        for layer in view.layers
    ]
    return columns(("DEVICE", "LAYER", "MTU", "OVER"), rows, paint)


def _paths(reply: TopologyReply, paint: Paint) -> list[str]:
    rows: list[list[Cell]] = [
        [
            (pair.remote_location, ""),
            (str(path.rank), ""),
            (name_path(path), ""),
            (path.state, path.state),
            ("primary" if path.rank == 0 else "standby", "dim"),
        ]
        for pair in reply.pairs
        for path in sorted(pair.paths, key=lambda path: path.rank)
    ]
    return columns(("TO", "RANK", "RELAYS", "STATE", ""), rows, paint)


def _others(view: LocalView, paint: Paint) -> Iterator[str]:
    """Where other nodes may be, on one line each for here and elsewhere."""
    for title, is_local in (("other nodes here", True), ("elsewhere", False)):
        found = [each.address for each in view.candidates if each.is_local == is_local]
        if found:
            more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
            yield f"{paint(title, 'dim')}  {', '.join(found[:MAX_SHOWN])}{more}"


def _findings(view: LocalView) -> Iterator[list[Cell]]:
    for finding in view.why:
        role = "warning" if finding.text.startswith("rejected: ") else ""
        yield [(finding.source, "dim"), (finding.text, role)]


MAX_SHOWN = 12
"""Addresses on a line."""
