"""When which session is probed.

One heap of instants holds everything pending: regular probes, confirm probes, the ends of waits. Sessions of one kind
are phased evenly over their interval, so that a leg they share is seen as often as all of them together. Each interval
is shortened by a random tenth (RFC 5880 section 6.8.7 asks for jitter), so that nodes do not fall into step.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable

from meshwatchd.core.delay import DelayEstimator
from meshwatchd.core.layout import PINNED_PORT_OFFSET
from meshwatchd.core.permutation import PortPermutation
from meshwatchd.core.session import Outcome, Session, SessionState
from meshwatchd.model.events import Coordination
from meshwatchd.model.ids import FlowClass, Layer, SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.model.settings import MS, RESERVED_PORTS, TIMERS, Settings
from meshwatchd.model.units import parse_duration, parse_port_range

ADVISORY_FACTOR = 4
"""IPv6 sessions move no traffic. So seldom, too, that what a peer sends by IPv6 alone does not look like all it sends
(`core.pair` counts its fresh probes, whatever their family)."""

CANARY_WAIT_NS = 500 * MS
"""A service may take its time; its answer is no measure of the network's delay."""

CONTROL_FACTOR = 2
"""Control sessions only have to be known good before a fault; during one the confirm burst asks them."""

KNOWN_FLOWS = 8
"""Pinned sessions go round so many source ports, all of them round the same."""

_REGULAR, _CONFIRM, _EXPIRY = range(3)

Missed = Callable[[Session, SessionState], None]
"""Told of a session that missed an answer, and of its state before."""


class Schedule:
    """Owns the sessions and the heap; `advance` sends what is due and reports what was missed."""

    def __init__(self, settings: Settings, rng: random.Random) -> None:
        self.timers = TIMERS[settings.probe.profile]
        self.sessions: tuple[Session, ...] = ()
        self._rng = rng
        self._first_port, self._last_port = parse_port_range(settings.probe.source_ports)
        self._reserved = range(settings.probe.port, settings.probe.port + RESERVED_PORTS)
        first = settings.probe.port + PINNED_PORT_OFFSET
        self._known_ports = range(first, first + KNOWN_FLOWS)
        self._heap: list[tuple[int, int, int, int, int]] = []
        self._pushed = 0
        self._fast_paths: frozenset[int] = frozenset()

    def start(self, plans: Iterable[SessionPlan], now: int) -> None:
        """Begin with new sessions; earlier ones and all that is pending for them are forgotten."""
        self._heap.clear()
        delays: dict[tuple[int, int], DelayEstimator] = {}
        self.sessions = tuple(
            Session(plan, self._ports(), self._delay(delays, plan), self.timers.silence_ns)
            for plan in sorted(plans, key=lambda plan: plan.session)
        )
        shared: dict[tuple[int, int, str], list[Session]] = {}
        for session in self.sessions:
            shared.setdefault((session.plan.layer, session.plan.path, session.plan.flow), []).append(session)
        for group in shared.values():
            start = now + self._rng.randrange(self.timers.watch_ns)
            for position, session in enumerate(group):
                session.next_due = start + self._interval(session) * position // len(group)
                self._push(session.next_due, _REGULAR, session)

    def use_paths(self, paths: Iterable[int]) -> None:
        """Probe these paths at full rate; the others are only watched."""
        self._fast_paths = frozenset(paths)

    def deadline(self) -> int | None:
        """The next instant at which `advance` has something to do."""
        return self._heap[0][0] if self._heap else None

    def advance(self, now: int, missed: Missed) -> list[SendProbe]:
        """Send everything due and give every probe whose wait is over to `missed`."""
        probes = []
        while self._heap and self._heap[0][0] <= now:
            _, _, kind, index, seq = heapq.heappop(self._heap)
            session = self.sessions[index]
            if kind == _EXPIRY:
                before = session.state
                if session.expired(seq, now) is Outcome.MISS:
                    missed(session, before)
                continue
            if kind == _REGULAR:
                self._repeat(session, now)
            probes.append(self.probe(session, now, is_confirm=kind == _CONFIRM))
        return probes

    def probe(
        self,
        session: Session,
        now: int,
        *,
        is_confirm: bool = False,
        coordination: Coordination | None = None,
    ) -> SendProbe:
        """One probe of a session, its wait begun."""
        seq = session.begin(now)
        self._push(now + session.delay.wait_ns(now), _EXPIRY, session, seq)
        is_pinned = session.plan.flow is FlowClass.PINNED
        return SendProbe(
            session=session.plan.session,
            seq=seq,
            source_port=self._known_ports[seq % len(self._known_ports)] if is_pinned else session.ports.next(),
            is_confirm=is_confirm,
            coordination=coordination,
        )

    def confirm(self, sessions: Iterable[Session], now: int, *, rounds: int) -> None:
        """Spread confirm probes over the sessions in turn, a gap apart, `rounds` for each."""
        ordered = tuple(sessions)
        for turn in range(rounds):
            for position, session in enumerate(ordered):
                step = turn * len(ordered) + position
                offset = self.timers.burst_gap_ns * step // max(1, len(ordered) // 4)
                self._push(now + offset, _CONFIRM, session)

    def postpone(self, late_ns: int) -> None:
        """Wait longer for everything outstanding: whoever slept for that long has heard nothing meanwhile."""
        self._heap = [
            (at + late_ns if kind == _EXPIRY else at, order, kind, index, seq)
            for at, order, kind, index, seq in self._heap
        ]
        heapq.heapify(self._heap)

    def session(self, identity: SessionId) -> Session | None:
        """The session of that id, or None for one of an earlier topology."""
        return self.sessions[identity] if 0 <= identity < len(self.sessions) else None

    def select(self, **wanted: object) -> tuple[Session, ...]:
        """The sessions whose plans have all the given attribute values; advisory ones only when asked for."""
        wanted.setdefault("is_advisory", False)
        return tuple(s for s in self.sessions if all(getattr(s.plan, name) == value for name, value in wanted.items()))

    def _interval(self, session: Session) -> int:
        plan = session.plan
        if plan.canary is not None:
            return parse_duration(plan.canary.interval)
        if plan.is_advisory:
            return self.timers.watch_ns * ADVISORY_FACTOR
        if plan.layer is Layer.RELAY and plan.flow is FlowClass.FRESH and plan.path in self._fast_paths:
            return self.timers.interval_ns
        if plan.layer is Layer.WIREGUARD and plan.flow is FlowClass.FRESH:
            return self.timers.interval_ns
        is_control = plan.flow is FlowClass.PINNED or plan.layer is Layer.EFFECTIVE
        return self.timers.watch_ns * CONTROL_FACTOR if is_control else self.timers.watch_ns

    def _repeat(self, session: Session, now: int) -> None:
        """Keep the session's phase: jitter is taken from a fixed grid, not added up."""
        interval_ns = self._interval(session)
        session.next_due = max(session.next_due + interval_ns, now + interval_ns // 2)
        self._push(session.next_due - self._rng.randrange(interval_ns // 10 + 1), _REGULAR, session)

    def _delay(self, delays: dict[tuple[int, int], DelayEstimator], plan: SessionPlan) -> DelayEstimator:
        """One estimator for all sessions of a layer and path: what delays one of them delays the others.

        But for canaries, which have nothing in common.
        """
        if plan.canary is not None:
            return DelayEstimator(min(CANARY_WAIT_NS, parse_duration(plan.canary.interval)))
        return delays.setdefault((plan.layer, plan.path), DelayEstimator(self.timers.miss_ns))

    def _ports(self) -> PortPermutation:
        return PortPermutation(self._first_port, self._last_port, self._rng, self._reserved)

    def _push(self, at: int, kind: int, session: Session, seq: int = 0) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (at, self._pushed, kind, session.plan.session, seq))
