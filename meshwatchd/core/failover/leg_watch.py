"""What a node sees of its own leg to the leader and of the ways around it, and whom it asks when it doubts the leg.

Two ways to the same nodes, the leaders of other locations, which differ in the leg and in nothing else. What answers
over the leg itself, from leader to member, is no part of it: it goes by the network of the pods. So the sessions of the
overlay between the two only raise doubt, and decide nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec

from meshwatchd.core.diagnosis.peer_views import PeerViews
from meshwatchd.core.failover.confirm_burst import CONFIRMED_NATS
from meshwatchd.core.failover.operator_holds import Orders
from meshwatchd.core.failover.topology_change_hold import Unrest
from meshwatchd.core.probing.detour_plan import leg_plans
from meshwatchd.core.probing.packet_budget import BURST_BUDGET, Allowance, Share, Use
from meshwatchd.core.probing.round_robin import GIVEN_UP_NS
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.routes.planner import Planner
from meshwatchd.core.session.session import Outcome, Session
from meshwatchd.core.session.shared_risk_group import Group
from meshwatchd.model.detour import Detour
from meshwatchd.model.ids import FlowClass, Layer, SessionId
from meshwatchd.model.settings import MINUTE, MS, Settings

DOUBT_NS = 60 * MS
"""How long one miss over the leg is asked about; what is asked then tells."""

SLICE_NS = 25 * MS
"""Between two bursts."""

SEEK_PART = 8
"""A leg that is down is asked about the less often the longer it is: so many times its age."""

FEW, MANY = 4, 12
"""Probes over the leg in a burst: after one miss, and after more."""

CONTROLS, TRIALS = 2, 2
"""Probes of established flows over the leg, and over each detour, for FEW over the leg."""

RESERVE = BURST_BUDGET // 2
"""What is kept for doubt that more than one miss speaks for."""


class LegParts(msgspec.Struct, kw_only=True):
    """Of the engine: what this shares with pairs of locations."""

    settings: Settings
    schedule: Schedule
    allowance: Allowance
    orders: Orders
    views: PeerViews
    unrest: Unrest
    rng: random.Random


class LegWatch:
    """Reads sessions and has them asked; decides nothing.

    Attributes:
        leader: whom the leg leads to.
        leg: sessions over it, to the leaders of other locations.
        effective: what follows real traffic to the same nodes.
    """

    def __init__(self, parts: LegParts) -> None:
        self.leader = ""
        self.leg = Group((), (), parts.schedule.timers)
        self.effective: tuple[Session, ...] = ()
        self._parts = parts
        self._around: dict[tuple[str, ...], Group] = {}
        self._judges: dict[SessionId, Group] = {}
        self._own: frozenset[SessionId] = frozenset()
        self._doubted_until = 0
        self._asked_at = -SLICE_NS
        self._share = Share()
        self._budget, self._budget_at = float(BURST_BUDGET), 0

    def select(self, planner: Planner) -> None:
        """Go on with the sessions of another mesh; what is known of the same leg and the same ways is kept."""
        schedule, topology = self._parts.schedule, planner.topology
        home = topology.local.location
        leader = topology.mesh.location(home).leader
        primary = [path for path in topology.local_paths() if path.is_primary] if topology.detours else []
        far = {path.number: path.relay_in(path.other_location(home)) for path in primary}
        fresh, pinned = (
            tuple(
                session
                for number, peer in far.items()
                for session in schedule.select(layer=Layer.RELAY, path=number, peer=peer, flow=flow)
            )
            for flow in (FlowClass.FRESH, FlowClass.PINNED)
        )
        if leader != self.leader:
            self.leader, self.leg = leader, Group((), (), schedule.timers)
        self.leg.change(fresh, pinned)
        known, self._around = self._around, {}
        self._judges = {session.plan.session: self.leg for session in (*fresh, *pinned)}
        for detour in topology.detours:
            group = self._around[detour.key] = known.get(detour.key) or Group((), (), schedule.timers)
            group.change(schedule.select(layer=Layer.RELAY, path=detour.number), ())
            self._judges |= {session.plan.session: group for session in group.sessions}
        plans = leg_plans(planner, (session.plan for session in schedule.sessions))
        self._own = frozenset(plan.session for plan in plans)
        self.leg.elsewhere = tuple(session for group in self._around.values() for session in group.sessions)
        self.effective = tuple(
            each for each in schedule.select(layer=Layer.EFFECTIVE) if each.plan.peer in far.values()
        )

    def group(self, detour: Detour) -> Group:
        """What judges a way around."""
        return self._around[detour.key]

    def observe(self, session: Session, outcome: Outcome, now: int) -> bool:
        """One of the node's sessions had an outcome; whether it is a reason to look at once."""
        index = session.plan.session
        group, is_news = self._judges.get(index), False
        if group is not None:
            was = group.suspect_since, group.down_since
            group.observe(session, outcome, now)
            is_news = was != (group.suspect_since, group.down_since)
        is_news_of_leg = group is self.leg or (index in self._own and _was_heard(session, now))
        if outcome is Outcome.MISS and is_news_of_leg:
            self._doubted_until, is_news = now + DOUBT_NS, is_news or not self.leg.is_down
        return is_news

    def is_in_doubt(self, now: int) -> bool:
        """Whether anything has just spoken against the leg."""
        return now < self._doubted_until or self.leg.is_suspect

    def note_absence(self, now: int) -> None:
        """A leg that was never seen up, as by a daemon started in the middle of a fault: that what goes around it is
        answered speaks against it, as another node's word does elsewhere.
        """
        if not self.leg.is_proven:
            self.leg.condemned_at = now

    def forget(self, now: int) -> None:
        """Drop the evidence that a stalled process gathered."""
        for group in (self.leg, *self._around.values()):
            group.forget(now)

    def press(self, now: int, doubted: Group | None = None) -> None:
        """Ask over the leg and over what goes around it, as closely as the doubt is grave, within a budget.

        `doubted` is the way around that carries traffic, where that is in doubt; else it is the leg.
        """
        doubted = doubted or self.leg
        age_ns = now - doubted.down_since if doubted.is_down else 0
        if now - self._asked_at < max(SLICE_NS, age_ns // SEEK_PART):
            return
        is_grave = doubted.nats >= CONFIRMED_NATS
        around = [session for group in self._around.values() for session in group.sessions]
        rounds = (MANY if is_grave else FEW) // max(1, len(self.leg.sessions)) or 1
        parts = MANY // FEW if is_grave else 1
        asked = ((self.leg.sessions, rounds), (self.leg.controls, CONTROLS * parts), (around, TRIALS * parts))
        cost = sum(len(sessions) * each for sessions, each in asked)
        earned = (now - self._budget_at) * BURST_BUDGET / MINUTE
        self._budget, self._budget_at = min(self._budget + earned, BURST_BUDGET), now
        use, reserve = (Use.DOUBT, 0) if is_grave else (Use.CHANCE, RESERVE)
        if self._budget < cost + reserve or self._parts.allowance.take(cost, now, use, self._share, of=cost) < cost:
            return
        self._asked_at, self._budget = now, self._budget - cost
        for sessions, each in asked:
            self._parts.schedule.confirm(sessions, now, rounds=each)

    def ask_all(self, sessions: Iterable[Session], now: int, *, rounds: int) -> bool:
        """Ask each of some sessions so often, or none of them; whether there was room."""
        asked = tuple(sessions)
        many = rounds * len(asked)
        if not many or self._parts.allowance.take(many, now, Use.REPEAT, of=many) < many:
            return False
        self._parts.schedule.confirm(asked, now, rounds=rounds)
        return True


def _was_heard(session: Session, now: int) -> bool:
    """Whether its silence is new: a gateway without a daemon, or one that misses an entry, says nothing for good."""
    return session.is_proven and now - session.last_heard <= GIVEN_UP_NS


def tally(sessions: Iterable[Session], instant: int) -> tuple[int, int]:
    """Hits and misses among the probes of some sessions that left at or after an instant."""
    outcomes = [session.since(instant) for session in sessions]
    return sum(won for won, _ in outcomes), sum(lost for _, lost in outcomes)
