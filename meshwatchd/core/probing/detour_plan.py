"""The sessions of a mesh whose members may go around their legs, and how closely these are watched.

A leg is one node's own, and nobody else asks over it: so each member asks its leader over it at a pace of its own,
established flows at the profile's. In a larger location all of them together ask the leader as often as NEAR would.
Detours are asked seldom, and by a burst before one is taken; the one that carries traffic as closely as a leg.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwatchd.core.probing import session_kinds, session_plan
from meshwatchd.core.probing.intervals import Kind
from meshwatchd.core.routes.detours import remote_leaders
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.detour import DETOUR_PATHS, is_detour
from meshwatchd.model.ids import NO_PATH, FlowClass, Layer, SessionId
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.port_map import path_port
from meshwatchd.model.timers import TIMERS

NEAR = 16
"""Nodes of a location that each ask their leader at the profile's own pace."""


def lay_out(planner: Planner, *, has_standby: bool, has_detours: bool) -> tuple[SessionPlan, ...]:
    """Every session of this node; see `session_plan.lay_out`. `has_detours`: their selectors are in place."""
    plans = session_plan.lay_out(planner, has_standby=has_standby)
    return (*plans, *_around(planner, first=len(plans))) if has_detours else plans


def kinds_of(planner: Planner, plans: Iterable[SessionPlan]) -> dict[SessionId, Kind]:
    """What the schedule has to know of each session."""
    known = tuple(plans)
    kinds = session_kinds.kinds_of(planner, (plan for plan in known if not is_detour(plan.path)))
    around = {
        plan.session: _kind(plan)._replace(is_spare=True, used_ns=_leg_ns(planner, plan))
        for plan in known
        if is_detour(plan.path)
    }
    legs = {
        plan.session: _kind(plan)._replace(interval_ns=_leg_ns(planner, plan)) for plan in leg_plans(planner, known)
    }
    return kinds | around | legs


def leg_plans(planner: Planner, plans: Iterable[SessionPlan]) -> tuple[SessionPlan, ...]:
    """Those of this node's own leg, where it may be gone around."""
    topology = planner.topology
    if not topology.detours:
        return ()
    leader = topology.mesh.location(topology.local.location).leader
    return tuple(
        plan
        for plan in plans
        if plan.layer is Layer.OVERLAY and plan.path == NO_PATH and plan.peer == leader and not plan.is_ip6
    )


def ports_answered(planner: Planner) -> tuple[int, ...]:
    """Where this node answers though no session of its own has these ports: detours of others lead to leaders."""
    mesh = planner.settings.mesh
    is_on = planner.settings.submariner.leg_detour
    if not is_on or Trait.DETOUR not in traits_of((mesh.profile,), mesh.traits):
        return ()
    return tuple(path_port(planner.settings.probe.port, number) for number in DETOUR_PATHS)


def _around(planner: Planner, *, first: int) -> Iterator[SessionPlan]:
    local = planner.topology.local
    leaders = remote_leaders(planner.topology)
    ways = ((detour, leader) for detour in planner.topology.detours for leader in leaders)
    for index, (detour, leader) in enumerate(ways, first):
        yield SessionPlan(
            session=SessionId(index),
            peer=leader.name,
            layer=Layer.RELAY,
            path=detour.number,
            flow=FlowClass.FRESH,
            source=local.node_ip,
            destination=leader.node_ip,
            port=path_port(planner.settings.probe.port, detour.number),
        )


def _kind(plan: SessionPlan) -> Kind:
    return Kind(plan.layer, plan.path, plan.flow)


def _leg_ns(planner: Planner, plan: SessionPlan) -> int:
    timers = TIMERS[planner.settings.probe.profile]
    crowd = len(planner.topology.mesh.members(planner.topology.local.location))
    # New flows of a leg are few (`intervals`): a pace that uses no more of them than segments have elsewhere.
    own_ns = timers.interval_ns if plan.flow is FlowClass.PINNED else timers.watch_ns
    return own_ns * max(1, -(-crowd // NEAR))
