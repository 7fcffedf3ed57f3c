"""The engine of the rig: sessions, groups and suspicion of the product, without a mesh around them."""

from __future__ import annotations

import random
import sys
from array import array
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import msgspec

from enginerig.config import RigConfig
from enginerig.notes import Lateness
from meshwatchd.core.engine import EADDRINUSE, LONG_STALL_NS
from meshwatchd.core.failover.confirm_burst import ConfirmBurst
from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.failover.state_machine import MoveState
from meshwatchd.core.probing.intervals import Rate
from meshwatchd.core.probing.overload import Load
from meshwatchd.core.probing.packet_budget import Allowance, Pace
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.session.session import Outcome, Session, SessionState
from meshwatchd.core.session.shared_risk_group import Group
from meshwatchd.model.events import (
    Event,
    LatenessMeasured,
    ReplyReceived,
    RequestReceived,
    SendFailed,
    Stalled,
    SwitchApplied,
    Tick,
)
from meshwatchd.model.faults import Severity
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.load import AnswersDropped, EngineOverloaded, LoadMeasured
from meshwatchd.model.outputs import ApplySwitch, ConfigureSessions, Output, SessionPlan
from meshwatchd.model.plan import Rule, Switch
from meshwatchd.model.settings import Settings
from meshwatchd.model.status import Status

if TYPE_CHECKING:
    from enginerig.notes import Notes

MOST_PACKETS = 1_000_000
"""A second, which no bench comes to."""


class _Watch:
    """One path, no standby, nobody to agree with: what a leader's pair comes to that has nowhere to move to."""

    __slots__ = ("groups",)

    is_decider = is_close = True
    paths = segments = to_deciders = ()

    def __init__(self, group: Group) -> None:
        self.groups = {0: group}

    def group(self, _path: object) -> Group:
        """The only one."""
        return self.groups[0]

    def replacing(self, _path: object) -> tuple[()]:
        """No path could take its place."""
        return ()

    def explaining(self) -> tuple[()]:
        """No layer is asked why."""
        return ()


class _Context:
    """What suspicion asks of the pair it belongs to."""

    __slots__ = ("allowance", "schedule", "watch")

    is_enforcing = False
    mover = SimpleNamespace(active=SimpleNamespace(number=0, is_primary=True), state=MoveState.IDLE)

    def __init__(self, watch: _Watch, schedule: Schedule, allowance: Allowance) -> None:
        self.watch, self.schedule, self.allowance = watch, schedule, allowance

    def is_unsettled(self, _now: int) -> bool:
        """There is no mesh's agent."""
        return False


class Leg:
    """One group with the product's suspicion at work on it."""

    def __init__(self, schedule: Schedule, sessions: list[Session], allowance: Allowance) -> None:
        fresh = [session for session in sessions if session.plan.flow is FlowClass.FRESH]
        known = [session for session in sessions if session.plan.flow is FlowClass.PINNED]
        # A leg of known flows alone is judged by these.
        self.group = Group(fresh or known, known if fresh else (), schedule.timers)
        context = _Context(_Watch(self.group), schedule, allowance)
        self._suspicion = ConfirmBurst(cast("PairContext", context))
        self.is_down = False

    def observe(self, session: Session, outcome: Outcome, now: int) -> None:
        """One outcome; a burst may be scheduled."""
        self.group.observe(session, outcome, now)
        if self.group.suspect_since or self._suspicion.is_raised:
            self.review(now)

    def review(self, now: int) -> None:
        """Let the burst go on; the facts it states are for an agent."""
        for _fact in self._suspicion.review(now):
            pass

    @property
    def next_step(self) -> int | None:
        """When to look again, whatever is heard until then; None without suspicion."""
        return self._suspicion.next_step if self._suspicion.is_raised else None

    @property
    def is_suspect(self) -> bool:
        """Whether a burst is going on."""
        return self._suspicion.is_raised

    def is_trusted(self, now: int) -> bool:
        """Whether the leg has earned the shorter waits of a calm one."""
        return self.group.sessions[0].delay.is_trusted(now)


class SteadySchedule(Schedule):
    """The product's schedule at one interval for all sessions, whatever its budgets say: BFD has no such budgets."""

    def __init__(self, settings: Settings, rng: random.Random, node: str, *, interval_ns: int) -> None:
        super().__init__(settings, rng, node)
        self._pace = Pace(MOST_PACKETS)
        if interval_ns:
            self.timers = msgspec.structs.replace(self.timers, interval_ns=interval_ns)

    def rates(self) -> list[Rate]:
        """The same for every kind, slower by what an overloaded engine backs off."""
        interval_ns = int(self.timers.interval_ns * self.slowdown)
        return [rate._replace(interval_ns=interval_ns, stretch=self.slowdown) for rate in super().rates()]

    @property
    def slowdown(self) -> float:
        """By how much fewer probes are sent than were asked for."""
        return self._rates.slowdown


class RigEngine:
    """Takes the place of core.engine.Engine in the loop."""

    def __init__(self, config: RigConfig, settings: Settings, *, rng: random.Random, notes: Notes, now: int) -> None:
        self._node, self._begin_ns = NodeName(config.node), now
        self._notes, self._switched = notes, config.switch
        self._groups = array("H", (listed.group for listed in config.sessions))
        self.schedule = SteadySchedule(settings, rng, config.node, interval_ns=config.interval_ns)
        self._plans = plans_of(config)
        self._legs: list[Leg] = []
        self._leg_of: list[Leg] = []
        self._is_started = False
        self._unproven = set(range(len(self._plans)))
        self._missed: list[Session] = []
        self._raised: list[Leg] = []
        self._suspicions = 0
        self._generation = 0
        self._load, self._late_ns = Load(), 0
        # When the oldest probe of this turn was due; the effects note how late it left.
        self.due_ns = 0
        self.wakeups = Lateness()

    def deadline(self) -> int | None:
        """As soon as it was made; then whenever a probe or a wait is due."""
        if not self._is_started:
            return self._begin_ns
        due_ns = self.schedule.deadline()
        for leg in self._raised:
            step_ns = leg.next_step
            if step_ns is not None and (due_ns is None or step_ns < due_ns):
                due_ns = step_ns
        return due_ns

    def early_at(self) -> int | None:
        """What a benchmark asks for is never slow."""
        return None

    def handle(self, event: Event, now: int) -> list[Output]:
        """Take in one event, as core.engine does the events of probes."""
        match event:
            case ReplyReceived():
                return self._replied(event, now)
            case RequestReceived():
                # What it says of a mesh is nothing to a rig.
                return []
            case Tick() if not self._is_started:
                return self._start(now)
            case Tick():
                return self._tick(now, event.heard_ns)
            case SendFailed():
                return self._send_failed(event, now)
            case LatenessMeasured():
                self._late_ns = event.p99_ns
                self.schedule.widen(event.p99_ns)
            case LoadMeasured():
                self._pace(event, now)
            case AnswersDropped():
                self._load.dropped(event.packets)
                self._notes.tell("dropped", now, count=event.packets)
                for session in self.schedule.sessions:
                    session.void()
            case Stalled():
                self._notes.tell("stalled", now, late_ns=event.late_ns)
                self._stalled(event, now)
            case SwitchApplied():
                self._notes.tell("applied", now)
        return []

    def status(self, now: int, counters: Mapping[str, int]) -> Status:
        """That nothing is wrong: nobody reads it."""
        return Status(
            at_ns=now,
            node=self._node,
            location="",
            role="",
            mode="",
            is_ready=self._is_started,
            severity=Severity.OK,
            pairs=(),
            sessions=(),
            counters=dict(counters),
        )

    def states(self) -> dict[str, int]:
        """How many sessions are in which state, legs condemned, and suspicions raised since the start."""
        found = Counter(str(session.state) for session in self.schedule.sessions)
        return {**found, "suspicions": self._suspicions, "condemned": sum(leg.is_down for leg in self._legs)}

    def _start(self, now: int) -> list[Output]:
        self._is_started = True
        self.schedule.use_paths({plan.path for plan in self._plans}, now)
        self.schedule.start(self._plans, now)
        members: list[list[Session]] = [[] for _ in range(1 + max(self._groups, default=-1))]
        for session, group in zip(self.schedule.sessions, self._groups, strict=True):
            members[group].append(session)
        allowance = Allowance(MOST_PACKETS)
        self._legs = [Leg(self.schedule, sessions, allowance) for sessions in members]
        self._leg_of = [self._legs[group] for group in self._groups]
        self._notes.tell("started", now)
        # An empty table would close the ports that a mere answerer listens on.
        return [ConfigureSessions(sessions=self._plans)] if self._plans else []

    def _pace(self, event: LoadMeasured, now: int) -> None:
        before = self._load.slowdown
        for told in self._load.measured(event, self._late_ns):
            kind = "overloaded" if isinstance(told, EngineOverloaded) else "relieved"
            self._notes.tell(kind, now, slowdown=round(self._load.slowdown, 2), dropped=told.dropped)
        if self._load.slowdown != before:
            self.schedule.slow_down(self._load.slowdown, now)

    def _tick(self, now: int, heard: int) -> list[Output]:
        due_ns = self.schedule.deadline()
        missed = self._missed
        outputs: list[Output] = [*self.schedule.advance(now, self._note_missed, heard)]
        if outputs and due_ns is not None:
            self.due_ns = due_ns
            self.wakeups.note(now - due_ns)
        if missed:
            for session in missed:
                outputs += self._observe(session, Outcome.MISS, now)
            missed.clear()
        for leg in tuple(self._raised):
            if (leg.next_step or now) <= now:
                leg.review(now)
                self._note_suspicion(leg)
        return outputs

    def _note_missed(self, session: Session, _before: SessionState) -> None:
        self._missed.append(session)

    def _replied(self, event: ReplyReceived, now: int) -> list[Output]:
        session = self.schedule.session(event.session)
        if session is None:
            return []
        outcome = session.answered(event.seq, event.rtt_ns, now)
        if outcome is Outcome.UNKNOWN:
            return []
        if outcome is Outcome.HIT:
            self.schedule.answered(session)
        return self._observe(session, outcome, now)

    def _send_failed(self, event: SendFailed, now: int) -> list[Output]:
        session = self.schedule.session(event.session)
        if session is None or event.errno != EADDRINUSE:
            return []
        probe = self.schedule.retry(session, event.seq, now)
        return [] if probe is None else [probe]

    def _stalled(self, event: Stalled, now: int) -> None:
        if event.late_ns < LONG_STALL_NS:
            self.schedule.postpone(event.late_ns)
            return
        for session in self.schedule.sessions:
            session.forget_outstanding()
        for leg in self._legs:
            leg.group.forget(now)

    def _observe(self, session: Session, outcome: Outcome, now: int) -> list[Output]:
        leg = self._leg_of[session.plan.session]
        leg.observe(session, outcome, now)
        if leg.is_suspect is not (leg in self._raised):
            self._note_suspicion(leg)
        if self._unproven and session.is_proven:
            self._unproven.discard(session.plan.session)
            if not self._unproven:
                self._unproven = set()  # a set does not shrink
                self._notes.tell("all-up", now)
        if leg.group.is_down is leg.is_down:
            return []
        leg.is_down = leg.group.is_down
        group = self._legs.index(leg)
        self._notes.tell("down" if leg.is_down else "up", now, group=group, is_trusted=leg.is_trusted(now))
        return self._switch(is_on=leg.is_down)

    def _note_suspicion(self, leg: Leg) -> None:
        if not leg.is_suspect:
            self._raised.remove(leg)
        elif leg not in self._raised:
            self._raised.append(leg)
            self._suspicions += 1

    def _switch(self, *, is_on: bool) -> list[Output]:
        if self._switched is None:
            return []
        rule = (Rule(priority=self._switched.priority, table=self._switched.table),)
        self._generation += 1
        switch = Switch(add=rule) if is_on else Switch(delete=rule)
        return [ApplySwitch(pair=0, generation=self._generation, switch=switch)]


def plans_of(config: RigConfig) -> tuple[SessionPlan, ...]:
    """The plans of the listed sessions, their ids in the order of the list.

    JSON has each name as often as it is used; in a mesh the plans share those of its nodes.
    """
    return tuple(
        SessionPlan(
            session=SessionId(index),
            peer=NodeName(sys.intern(listed.peer)),
            layer=Layer.RELAY,
            path=listed.path,
            flow=FlowClass.PINNED if listed.is_pinned else FlowClass.FRESH,
            source=sys.intern(listed.source),
            destination=sys.intern(listed.destination),
            port=listed.port,
        )
        for index, listed in enumerate(config.sessions)
    )
