"""A bisection as text: the place first, then why, then how far each series came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from meshwatchd.cli.render_findings import summarise_finding
from meshwatchd.cli.render_reported import render_reported
from meshwatchd.cli.text import Cell, Paint, columns, entry, paint_nothing
from meshwatchd.model.bisection import BisectResult, Flows, PeerCounts, Place, SeriesCounts
from meshwatchd.model.faults import Direction
from meshwatchd.model.status import Status

PLACES = MappingProxyType(
    {
        Place.NOWHERE: "nowhere: everything is answered",
        Place.LOCAL_ROUTE: "this node's routes",
        Place.LOCAL_NEIGHBOUR: "this node's neighbour entry on the overlay device",
        Place.LOCAL_FILTER: "a filter above this node's overlay device",
        Place.LOCAL_FDB: "this node's FDB entry",
        Place.OVERLAY_DEVICE: "this node's overlay device",
        Place.UNDERLAY_ROUTE: "this node's route for outer packets",
        Place.LOCAL_NETFILTER: "netfilter between this node's overlay device and its NIC",
        Place.UNDERLAY_ARP: "ARP for the outer packets' next hop",
        Place.LOCAL_QDISC: "the queue or traffic control of this node's NIC",
        Place.NIC: "this node's NIC",
        Place.WIRE: "the network between the two NICs",
        Place.PEER_INGRESS: "the peer, between its NIC and its overlay device",
        Place.PEER_OVERLAY: "the peer, behind its overlay device",
        Place.PEER_EGRESS: "the peer, on its answers' way out",
        Place.LOCAL_INGRESS: "this node, on the answers' way in",
        Place.UNKNOWN: "unknown",
    }
)
"""Every place in words; a test asserts that none is missing."""

_FLOWS = MappingProxyType(
    {
        Flows.NONE: "",
        Flows.NEW: "new flows only",
        Flows.ALL: "all flows",
        Flows.SOME: "new flows at least",
    }
)


def render_bisection(result: BisectResult, paint: Paint, known: Sequence[str] = ()) -> str:
    """The whole result, below what looks at kernels have found on this way: lost packets are its consequence."""
    return "\n".join(_lines(result, paint, known)) + "\n"


def find_known(status: Status, peer: str) -> list[str]:
    """What this node's kernel shows about its way to a peer, and what is reported about that node's own kernel."""
    own = [summarise_finding(each, paint_nothing) for each in status.findings if each.peer in ("", peer)]
    return own + [render_reported(each, paint_nothing) for each in status.reported if each.culprit == peer]


def _lines(result: BisectResult, paint: Paint, known: Sequence[str]) -> Iterator[str]:
    is_well = result.place is Place.NOWHERE
    word = paint("OK" if is_well else "DIES", "ok" if is_well else "critical")
    via = f" via {result.via}" if result.via != result.peer else ""
    yield f"{word}  {result.node} to {result.peer}{via}: {paint(PLACES[result.place], 'strong')}"
    yield from entry("known", list(known), paint)
    direction = "" if result.direction is Direction.UNKNOWN else result.direction.value
    what = ", ".join(part for part in (_FLOWS[result.flows], direction) if part)
    if what:
        yield from entry("what", [what], paint)
    if len(result.candidates) > 1:
        others = [PLACES[place] for place in result.candidates[1:]]
        yield from entry(
            "or", [*others, "(the peer's taps did not take part, so these cannot be distinguished)"], paint
        )
    yield from entry("why", result.because, paint)
    tables = [getattr(result.tables, name) for name in result.tables.__struct_fields__]
    yield from entry("tables", [text for text in tables if text], paint)
    yield ""
    yield from _series(result, paint)


def _series(result: BisectResult, paint: Paint) -> Iterator[str]:
    sent = [counts for counts in result.series if counts.sent]
    there = {counts.name: counts for counts in result.peer_counts}
    header = ["series", "sent", "overlay", "NIC", "NIC back", "overlay back", "answered"]
    if there:
        header[4:4] = ["peer NIC", "peer overlay", "its answer", "its NIC"]
    yield from columns(header, [_row(counts, there.get(counts.name), bool(there)) for counts in sent], paint, indent=2)


def _row(counts: SeriesCounts, there: PeerCounts | None, has_peer: bool) -> list[Cell]:
    role = "ok" if counts.echoed == counts.sent else "critical" if not counts.echoed else "warning"
    cells = [(counts.name.value, ""), (str(counts.sent), ""), _cell(counts.at_overlay), _cell(counts.at_lower)]
    if has_peer:
        seen = there or PeerCounts(name=counts.name)
        cells += map(_cell, (seen.at_lower, seen.at_overlay, seen.answers_at_overlay, seen.answers_at_lower))
    cells += [_cell(counts.back_at_lower), _cell(counts.back_at_overlay), (str(counts.echoed), role)]
    return cells


def _cell(number: int | None) -> Cell:
    return ("-" if number is None else str(number), "")
