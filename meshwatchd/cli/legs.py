"""What the daemon's sessions say of the way to a node, layer by layer from the bottom up.

A session is one flow to one node on one layer; a leg is all of them of one layer, path and flow class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network

import msgspec

from meshwatchd.cli.text import middle
from meshwatchd.model.ids import NO_PATH, FlowClass, Layer
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.status import PairStatus, PathStatus, SessionStatus, Status

_WORST = ("up", "init", "suspect", "down")
_CODES = {"node_ip": "underlay", "overlay_ip": "overlay", "wireguard_ip": "wireguard"}


class Leg(msgspec.Struct, frozen=True, kw_only=True):
    """One layer on the way to a node.

    Attributes:
        over: the relays of its path as "b1-a1"; empty for layers of no path.
        state: of the worst session.
        rtt_ns: median of those that answer; 0 without any.
        heard_ns: CLOCK_MONOTONIC of the latest answer; 0 for never.
    """

    peer: str
    layer: str
    over: str
    flow: FlowClass
    address: str
    state: str
    sent: int
    lost: int
    rtt_ns: int
    heard_ns: int


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Whose address something is; `kind` is "node", "pod", "overlay", "wireguard" or "underlay"."""

    node: NodeStatus
    kind: str
    address: str


def locate(target: str, nodes: Iterable[NodeStatus]) -> Place | None:
    """The node that a name or an address belongs to; None where no node is known to have it."""
    listed = list(nodes)
    for node in listed:
        if target == node.name:
            return Place(node=node, kind="node", address=node.node_ip)
    try:
        address = ip_address(target)
    except ValueError:
        return None
    for node in listed:
        for field, kind in _CODES.items():
            if getattr(node, field) == str(address):
                return Place(node=node, kind=kind, address=str(address))
    for node in listed:
        if node.pod_cidr and address in ip_network(node.pod_cidr, strict=False):
            return Place(node=node, kind="pod", address=str(address))
    return None


def active_path(status: Status, location: str) -> tuple[PairStatus | None, PathStatus | None]:
    """The pair of locations and the path that its traffic takes; None for what there is not."""
    pair = next((pair for pair in status.pairs if pair.remote_location == location), None)
    path = next((path for path in pair.paths if path.is_active), None) if pair is not None else None
    return pair, path


def legs_to(status: Status, peer: str, paths: Iterable[int] | None = None) -> tuple[Leg, ...]:
    """The legs to one node, the lowest layer first: of these paths, or of all, and of layers of no path."""
    wanted = None if paths is None else {*paths, NO_PATH}
    names = {path.number: "-".join(path.relays) for pair in status.pairs for path in pair.paths}
    groups: dict[tuple[Layer, int, FlowClass], list[SessionStatus]] = {}
    for session in status.sessions:
        if session.peer == peer and (wanted is None or session.path in wanted):
            groups.setdefault((session.layer, session.path, session.flow), []).append(session)
    return tuple(_leg(key, group, names.get(key[1], "")) for key, group in sorted(groups.items()))


def _leg(key: tuple[Layer, int, FlowClass], group: list[SessionStatus], over: str) -> Leg:
    layer, _, flow = key
    answered = [each.rtt_ns for each in group if each.rtt_ns > 0]
    return Leg(
        peer=group[0].peer,
        layer=layer.name.lower(),
        over=over,
        flow=flow,
        address=group[0].address,
        state=max((each.state for each in group), key=_rank),
        sent=sum(each.sent for each in group),
        lost=sum(each.lost for each in group),
        rtt_ns=middle(answered) if answered else 0,
        heard_ns=max(each.last_heard_ns for each in group),
    )


def _rank(state: str) -> int:
    return _WORST.index(state) if state in _WORST else len(_WORST)


def since(legs: Iterable[Leg], before: Iterable[Leg]) -> Iterator[Leg]:
    """The legs with what was sent and lost since an earlier look; one that was laid out anew counts from its start."""
    known = {(leg.peer, leg.layer, leg.over, leg.flow): leg for leg in before}
    for leg in legs:
        base = known.get((leg.peer, leg.layer, leg.over, leg.flow))
        if base is None or base.sent > leg.sent or base.lost > leg.lost:
            yield leg
        else:
            yield msgspec.structs.replace(leg, sent=leg.sent - base.sent, lost=leg.lost - base.lost)


def is_lost(leg: Leg) -> bool:
    """Whether anything was lost while a leg was watched, or it is down and nothing is sent."""
    return leg.lost > 0 or leg.state == "down"
