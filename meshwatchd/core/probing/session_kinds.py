"""What the schedule has to know of each session beside its plan: whose turn it shares, and how crowded its leg is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

from meshwatchd.core.probing.interleaving import followed
from meshwatchd.core.probing.intervals import SMALL_LOCATION, SMALL_PAIR, Kind
from meshwatchd.core.probing.scouts import scouts
from meshwatchd.core.probing.session_plan import BIG_LOCATION, NO_PATH, SUBSET, big_location
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan

POD_NETWORK_PEERS = 3
"""Of another location: with so many, or fewer, sessions among pods to one pair of locations go at their own pace; with
more each goes slower, so that all nodes of the two together cost the WAN the same."""


def kinds_of(planner: Planner, plans: Iterable[SessionPlan]) -> dict[SessionId, Kind]:
    """What the schedule has to know of each session: whose turn it shares, and how crowded its overlay leg is."""
    # Each choice ranks a whole location, and there are two a session.
    chosen = cache(partial(scouts, planner.topology.mesh))
    return {plan.session: _kind(planner, plan, chosen) for plan in plans}


def _kind(planner: Planner, plan: SessionPlan, chosen: Callable[[str, str], tuple[NodeName, ...]]) -> Kind:
    mesh, local = planner.topology.mesh, planner.local
    share = rest_share = crowd = between = 0
    part = 1
    behind: tuple[tuple[NodeName, int], ...] | None = None
    is_relay = is_between_relays = is_spare = False
    if plan.path != NO_PATH:
        path = planner.path(plan.path)
        remote = path.other_location(local.location)
        is_relay = plan.peer == path.relay_in(remote)
        is_between_relays = is_relay and local.name in path.relays
        is_spare = path.is_spare
        here, there = chosen(local.location, remote), chosen(remote, local.location)
        crowd = len(mesh.members(local.location)) + len(mesh.members(remote))
        part = _crowd_part(planner, remote)
        if local.name in here and plan.peer in there and not plan.is_advisory:
            between = 2 * len(here) * len(there)
            if path.is_primary and plan.flow is FlowClass.FRESH and plan.layer is Layer.RELAY:
                behind = followed(local.name, here, there)
                # One round for all of them: two would leave at one time by chance.
                is_relay = is_between_relays = False
        if plan.layer not in (Layer.WIREGUARD, Layer.UNDERLAY):
            # Outer ports are hashed alike in both directions: what crosses the leg of one scout, theirs and ours.
            share, rest_share = _share(planner, remote, plan.peer), len(here) + len(there)
        close_here = {*mesh.location(local.location).relays(), *here}
        close_there = {*mesh.location(remote).relays(), *there}
        if local.name in close_here and plan.peer in close_there:
            # All others together send as much as one part of them would. The leg of a relay is the most crowded; were
            # it not taken for all, two scouts would have no turn in common, and be asked at one time by chance.
            most = _share(planner, remote, path.relay_in(remote)) if share else 0
            share, part = min(most, len(close_here) + len(close_there) + most // part), 1
    elif plan.layer in (Layer.UNDERLAY, Layer.OVERLAY, Layer.IPIP):
        part = _neighbour_part(planner, plan.peer)
        share = rest_share = 0 if plan.layer is Layer.UNDERLAY else 2
    elif plan.layer is Layer.POD_NETWORK:
        crowd = _pod_network_crowd(planner, mesh.node(plan.peer).location)
    return Kind(
        plan.layer,
        plan.path,
        plan.flow,
        share if plan.flow is FlowClass.FRESH else 0,
        rest_share if plan.flow is FlowClass.FRESH else 0,
        is_relay,
        is_closed_port=plan.is_of_closed_port,
        is_advisory=plan.is_advisory,
        is_spare=is_spare,
        interval_ns=plan.canary.interval if plan.canary and plan.layer is Layer.POD else 0,
        crowd=crowd,
        crowd_part=part,
        scouts=between,
        followed=behind,
        is_between_relays=is_between_relays,
    )


def _crowd_part(planner: Planner, there: str) -> int:
    """By how much the sessions of one class over one path between two locations are more than SMALL_PAIR."""
    mesh, here = planner.topology.mesh, planner.local.location
    most = big_location(len(mesh.locations))
    ours, theirs = len(mesh.members(here)), len(mesh.members(there))
    sessions = ours * _out(planner, there, most) + theirs * _out(planner, here, most)
    return max(1, sessions // SMALL_PAIR)


def _neighbour_part(planner: Planner, peer: str) -> int:
    """The same within a location; of legs to its relays, which matter more, one more for each SMALL_LOCATION nodes."""
    mesh, local = planner.topology.mesh, planner.local
    nodes = len(mesh.members(local.location))
    if {local.name, peer} & {*mesh.location(local.location).relays()}:
        return max(1, nodes // SMALL_LOCATION)
    asked = nodes - 1 if nodes <= BIG_LOCATION else SUBSET
    return max(1, nodes * asked // SMALL_LOCATION**2)


def _pod_network_crowd(planner: Planner, there: str) -> int:
    """How many nodes share the turns among pods: those of the mesh, or as many as two large locations count for."""
    mesh, here = planner.topology.mesh, planner.local.location
    if here == there:
        return len(mesh.nodes)
    pair = len(mesh.members(here)) + len(mesh.members(there))
    return max(len(mesh.nodes), pair * _out(planner, there, big_location(len(mesh.locations))) // POD_NETWORK_PEERS)


def _share(planner: Planner, there: str, peer: str) -> int:
    """Fresh sessions of one path that cross the overlay leg of one node, theirs and ours: outer ports are hashed alike.

    The leg of either end counts, whichever is more crowded.
    """
    here, most = planner.local.location, big_location(len(planner.topology.mesh.locations))
    ours, theirs = len(planner.topology.mesh.members(here)), len(planner.topology.mesh.members(there))
    is_sought = peer in planner.topology.mesh.location(there).relays()
    return max(
        _out(planner, there, most) + _in(theirs, ours, most),
        _out(planner, here, most) + (ours if is_sought else _in(ours, theirs, most)),
    )


def _out(planner: Planner, location: str, most: int) -> int:
    """How many nodes of a location one node of another probes."""
    count = len(planner.topology.mesh.members(location))
    relays = planner.topology.mesh.location(location).relays()
    return count if count <= most else min(count, min(SUBSET, most) + len(relays))


def _in(observers: int, members: int, most: int) -> int:
    """How many of the observers probe one member of a location, on average."""
    return observers if members <= most else -(-observers * min(SUBSET, most) // members)
