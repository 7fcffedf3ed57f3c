"""The way of packets to an address as text: the kernel's decision, the layers, and what a failover would change."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from meshwatchd.adapters.netlink.way import Way
from meshwatchd.cli.legs import Leg, Place
from meshwatchd.cli.text import Cell, Paint, columns, render_age, render_flow, render_rtt

_TABLES = {253: "default", 254: "main", 255: "local"}
_KINDS = {
    "node": "is node {name}",
    "underlay": "is node {name}",
    "pod": "is a pod of {name}",
    "overlay": "is the overlay of {name}",
    "wireguard": "is the WireGuard device of {name}",
}


class PathView(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a way.

    Attributes:
        node, location: where the question was asked; empty without a daemon.
        place: whose address it is.
        hops: names of the nodes that packets cross, this one first; the target's last.
        path: the relays as "b1-a1"; empty within a location.
        rank: of that path, 0 for the mesh's own.
        state: of that path, or of the legs.
        gateway_node: who has the gateway of the route.
        next: what would happen, as sentences; operations: what a failover would do on this node.
    """

    target: str
    way: Way
    node: str = ""
    location: str = ""
    place: Place | None = None
    hops: tuple[str, ...] = ()
    path: str = ""
    rank: int = 0
    state: str = ""
    gateway_node: str = ""
    is_ours: bool = False
    legs: tuple[Leg, ...] = ()
    next: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()


def render_path(view: PathView, *, at_ns: int, paint: Paint) -> str:
    """The page; `at_ns` is CLOCK_MONOTONIC of the report that the legs are from."""
    lines = [*_head(view, paint), "", *_kernel(view, paint)]
    if view.legs:
        lines += ["", *_legs(view.legs, at_ns, paint)]
    if view.next or view.operations:
        lines += ["", *view.next]
        if view.operations:
            lines += ["a failover would do on this node:", *(f"  {operation}" for operation in view.operations)]
    return "\n".join(lines) + "\n"


def _head(view: PathView, paint: Paint) -> Iterator[str]:
    place = view.place
    if place is None:
        yield f"{view.target} belongs to no node of the mesh that is known here"
    else:
        where = f" in {place.node.location}" if place.node.location else ""
        yield f"{view.target} {_KINDS[place.kind].format(name=place.node.name)}{where}"
    if view.hops:
        own = "the primary path" if view.rank == 0 else f"standby path, rank {view.rank}"
        over = f"; {own} {view.path}" if view.path else ""
        state = f", {paint(view.state, view.state)}" if view.state else ""
        yield f"{' -> '.join(view.hops)}{over}{state}"


def _kernel(view: PathView, paint: Paint) -> Iterator[str]:
    way = view.way
    if way.rule:
        ours = "  (meshwatchd's)" if view.is_ours else ""
        yield f"{paint('rule ', 'dim')}  {way.rule}{paint(ours, 'dim')}"
    if way.problem:
        yield f"{paint('route', 'dim')}  {paint('none', 'critical')}: the kernel answers: {way.problem}"
        return
    words = [f"table {_TABLES.get(way.table, way.table)}"]
    words += [f"via {way.via}"] if way.via else []
    words += [f"dev {way.device}"] if way.device else []
    words += [f"src {way.source}"] if way.source else []
    handed = f"  (handed to {view.gateway_node})" if view.gateway_node else ""
    yield f"{paint('route', 'dim')}  {' '.join(words)}{paint(handed, 'dim')}"


def _legs(legs: tuple[Leg, ...], at_ns: int, paint: Paint) -> list[str]:
    return columns(
        ("LAYER", "TO", "OVER", "FLOW", "STATE", "LOSS", "RTT", "HEARD"), [_row(leg, at_ns) for leg in legs], paint
    )


def _row(leg: Leg, at_ns: int) -> list[Cell]:
    return [
        (leg.layer, ""),
        (leg.peer, ""),
        (leg.over or "-", ""),
        (render_flow(leg.flow), ""),
        (leg.state, leg.state),
        (f"{100 * leg.lost / leg.sent:.1f} %" if leg.sent else "-", "warning" if leg.lost else ""),
        (render_rtt(leg.rtt_ns), ""),
        (render_age(at_ns - leg.heard_ns) if leg.heard_ns else "never", ""),
    ]
