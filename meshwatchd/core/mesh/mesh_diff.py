"""From one mesh to the next: what stays the same when a leader changes, a node comes or a location goes.

Numbers shift: a session's id, a path's number, a pair's index are positions in sorted lists. So everything is known
here by what it is:

    session   whom it asks, on which layer, from and to which address and port, over which path
    path      its locations, its relays, and whether it is the mesh's own
    pair      the location at the other end

What is the same by that measure goes on with its state and its history. Sessions over a path with another relay begin
anew even if their packets look the same: what was learnt of the old relay says nothing about the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from meshwatchd.model.ids import Layer, PathNumber, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.topology import Topology

MAX_TOLD = 12
"""Differences in one fact; a mesh that differs in more is another one."""


class Numbered(NamedTuple):
    """A table of sessions, and which of them go on under the same id."""

    plans: tuple[SessionPlan, ...]
    kept: frozenset[SessionId]


def number(
    plans: Sequence[SessionPlan],
    topology: Topology,
    before: Iterable[SessionPlan] = (),
    topology_before: Topology | None = None,
) -> Numbered:
    """Give sessions their ids: those that were there before keep theirs, new ones take the lowest that are free.

    Ids of sessions that end here are not free yet: answers to them may be on their way.
    """
    listed = tuple(before)
    taken = {plan.session for plan in listed}
    known = {} if topology_before is None else _by_key(listed, topology_before)
    ids = [known.get(key) for key in _keys(plans, topology)]
    kept = frozenset(each for each in ids if each is not None)
    free = (SessionId(each) for each in range(len(plans) + len(taken)) if each not in taken)
    named = tuple(
        msgspec.structs.replace(plan, session=next(free) if identity is None else identity)
        for plan, identity in zip(plans, ids, strict=True)
    )
    return Numbered(named, kept)


Key = tuple[object, ...]


def _by_key(plans: Sequence[SessionPlan], topology: Topology) -> dict[Key, SessionId]:
    return {key: plan.session for key, plan in zip(_keys(plans, topology), plans, strict=True)}


def _keys(plans: Iterable[SessionPlan], topology: Topology) -> Iterator[Key]:
    """What each session is, whatever its number."""
    paths = {path.number: path for path in topology.local_paths()}
    detours = {detour.number: detour for detour in topology.detours}
    for plan in plans:
        path = paths.get(PathNumber(plan.path))
        detour = detours.get(plan.path)
        way: object = path.key if path is not None else detour and detour.key
        if path is not None and plan.layer is Layer.EFFECTIVE:
            # What follows real traffic depends on no relay: it asks whatever is in use.
            way = path.locations
        ends = plan.source, plan.destination, plan.port, plan.device
        yield plan.peer, plan.layer, plan.flow, *ends, plan.canary, way


def is_same(one: Topology | None, other: Topology) -> bool:
    """Whether two topologies differ in words only; a host mesh's device that is gone is still what was below."""
    carrier = other.carrier or (one.carrier if one is not None else "")
    return one is not None and msgspec.structs.replace(one, why=other.why) == msgspec.structs.replace(
        other, carrier=carrier
    )


def differences(before: Topology, after: Topology) -> tuple[str, ...]:
    """What has changed, as sentences, the first MAX_TOLD of them."""
    return tuple(text for text, _ in zip(_differences(before, after), range(MAX_TOLD), strict=False))


def _differences(before: Topology, after: Topology) -> Iterator[str]:
    homes = {location.name: location for location in before.mesh.locations}
    for location in after.mesh.locations:
        old = homes.pop(location.name, None)
        if old is None:
            yield f"location {location.name} is new"
        elif old.leader != location.leader:
            yield f"{location.name} is led by {location.leader} instead of {old.leader}"
        elif old.standbys != location.standbys:
            yield f"standbys of {location.name}: {', '.join(location.standbys) or 'none'}"
    yield from (f"location {name} is gone" for name in homes)
    nodes = {node.name: node for node in before.mesh.nodes}
    for node in after.mesh.nodes:
        known = nodes.pop(node.name, None)
        if known is None:
            yield f"node {node.name} is new in {node.location}"
        elif known != node:
            yield f"node {node.name} has changed"
    yield from (f"node {name} is gone" for name in nodes)
    if before.hops != after.hops:
        yield "the way to neighbours is another one"
    if [each.key for each in before.detours] != [each.key for each in after.detours]:
        yield f"the leg can be gone around by {', '.join(each.relay for each in after.detours) or 'nobody'}"
    if before.windows != after.windows:
        first = after.windows[0].first if after.windows else "the configured priority"
        yield f"rules of ours stand from {first} on: a foreign rule was asked before them"
