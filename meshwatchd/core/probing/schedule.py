"""When which session is probed.

Sessions of one kind are asked in turn, a step apart, so that a leg they share is seen as often as all of them
together: one heap entry serves them all, however many there are. Each probe leaves up to a tenth of its interval early
(RFC 5880 section 6.8.7), so that nodes do not fall into step, and scouts keep apart (`probing.interleaving`). And on
a common grid: one wake-up serves whatever is due about one time (slow ones leave early for that, `probing.company`).

The ends of waits are queues, one for each estimator of delay, since its waits end in the order they began. A queue
has one entry in the heap; what was answered meanwhile is skipped and wakes nobody.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType

from meshwatchd.core.probing.company import Company
from meshwatchd.core.probing.grid import Grid
from meshwatchd.core.probing.interleaving import Interleaving
from meshwatchd.core.probing.intervals import Kind, Rate, Rates, RestStretch
from meshwatchd.core.probing.packet_budget import LATE_NS, Pace
from meshwatchd.core.probing.round_robin import GIVEN_UP_NS, Turn
from meshwatchd.core.probing.session_index import SessionIndex
from meshwatchd.core.probing.session_resources import SessionResources, leg_of
from meshwatchd.core.probing.timeouts import Waits, widening_ns
from meshwatchd.core.session.session import Outcome, Session, SessionState
from meshwatchd.model.events import Coordination
from meshwatchd.model.ids import Layer, NodeName, SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.model.settings import Settings

MAX_TRIES = 8
"""Busy ports in a row after which a probe is given up; all ports of known flows have been tried by then."""

MAX_PROBES = 256
"""Of one look at the time: the wait for the last of them has begun some milliseconds before it leaves, and answers to
the first may be waiting in the socket. More than that are due at once only where an engine cannot keep up."""

Missed = Callable[[Session, SessionState], None]
"""Told of a session that missed an answer, and of its state before."""


class Schedule:
    """Owns the sessions and the heap; `advance` sends what is due and reports what was missed."""

    def __init__(self, settings: Settings, rng: random.Random, node: NodeName | str = "") -> None:
        self._rates = Rates(settings.probe)
        self._pace = Pace(settings.probe.packets_per_second)
        self.timers, self.rest = self._rates.timers, RestStretch()
        self.sessions: tuple[Session, ...] = ()
        self._rng = rng
        self._resources = SessionResources(settings.probe, node)
        self._grid, self._company, self.interleaving = Grid(rng), Company(), Interleaving()
        self._heap: list[tuple[int, int, Turn | Waits | Session]] = []
        self._pushed = self._widening_ns = 0
        self._turns: list[Turn] = []
        self._turn_of: dict[SessionId, Turn] = {}
        self._by_id: dict[SessionId, Session] = {}
        self._index = SessionIndex()
        self._waits: dict[SessionId, Waits] = {}
        self._used: frozenset[int] = frozenset()
        self._awake: frozenset[int] = frozenset()

    def start(
        self,
        plans: Iterable[SessionPlan],
        now: int,
        kinds: Mapping[SessionId, Kind] = MappingProxyType({}),
        kept: Container[SessionId] = (),
    ) -> None:
        """Take over another table of sessions.

        Sessions that are kept go on as they are: state, history, delay, ports, what is outstanding, and their place in
        the round where the round is the same. All others begin anew, and what was pending for those that are gone is
        forgotten.

        Args:
            plans: each with an id of its own.
            now: nanoseconds.
            kinds: what the budgets need to know of sessions; of others, what their plans say.
            kept: ids that stand for the same session as before.
        """
        ordered = sorted(plans, key=lambda plan: plan.session)
        before = {number: session for number, session in self._by_id.items() if number in kept}
        for number, session in self._by_id.items():
            if number not in before:
                session.forget_outstanding()
        legs = {
            leg_of(plan): (before[plan.session].delay, self._waits[plan.session])
            for plan in ordered
            if plan.session in before
        }
        turns: dict[Kind, list[Session]] = {}
        self._by_id, waits = {}, {}
        for plan in ordered:
            delay, waits[plan.session] = legs.setdefault(leg_of(plan), (self._resources.estimator(plan), Waits()))
            kind = kinds.get(plan.session) or Kind(plan.layer, plan.path, plan.flow)
            ports = self._resources.ports(plan, kind, now)
            session = before.get(plan.session) or Session(plan, ports, delay, self.timers.silence_ns)
            session.plan = plan
            self._by_id[plan.session] = session
            turns.setdefault(kind, []).append(session)
        peers = {plan.peer for plan in ordered}
        for each in waits.values():
            each.retain(peers)
        self._waits = waits
        self._resources.retain(ordered)
        self.sessions = tuple(self._by_id.values())
        self._index = SessionIndex(self.sessions)
        self._take_turns(turns, now)
        self._clear_heap()

    def _take_turns(self, turns: Mapping[Kind, list[Session]], now: int) -> None:
        """Arrange the sessions by kind; rounds whose sessions are the same go on where they are."""
        before = {turn.kind: turn for turn in self._turns}
        spare = {kind.place: turn for kind, turn in before.items() if kind not in turns}
        # Where only the shares of two kinds differ, the first takes the place of one that is gone.
        after = [before.get(kind) or spare.pop(kind.place, None) or Turn(kind, []) for kind in turns]
        changed = []
        for turn, (kind, sessions) in zip(after, turns.items(), strict=True):
            known = {id(session) for session in turn.sessions}
            added = [session for session in sessions if id(session) not in known]
            if turn.sessions != sessions:
                changed.append((turn, bool(added), not turn.sessions))
            turn.replace(kind, sessions)
        self._turns = after
        self._turn_of = {session.plan.session: turn for turn in after for session in turn.sessions}
        self.interleaving.lay_out(after)
        self._keep_pace(now)
        for turn, has_new, is_new in changed:
            if has_new:
                turn.watch_closely(self._close_ns(turn))
            if is_new:
                turn.at = turn.grid = now + self._rng.randrange(turn.interval_ns)
                self._push(turn.at, turn)
            else:
                self._hasten(turn, now)
        self._company.lay_out(self._grid.lay_out(self._turns))

    def _clear_heap(self) -> None:
        """Drop what belongs to sessions and rounds that are gone."""
        alive = {id(each) for each in (*self.sessions, *self._turns, *self._waits.values())}
        self._heap = [entry for entry in self._heap if id(entry[2]) in alive]
        heapq.heapify(self._heap)
        self._company.retain(self._turns)

    def _keep_pace(self, now: int) -> None:
        """Give every round the pace that the budgets leave it."""
        for turn, rate in zip(self._turns, self.rates(), strict=True):
            turn.is_patient = rate.stretch > 1 and rate.kind.layer is Layer.POD_NETWORK
            if rate.interval_ns != turn.rest_ns:
                is_new = not turn.rest_ns
                turn.rest_at(rate.interval_ns, self._close_ns(turn), now)
                if not is_new:
                    self._hasten(turn, now)
            else:
                turn.pace(turn.interval_ns)

    def _close_ns(self, turn: Turn) -> int:
        return self._rates.close_ns(len(self.sessions), turn.kind.crowd_part)

    def use_paths(self, paths: Iterable[int], now: int, *, awake: Iterable[int] = ()) -> None:
        """Probe these paths as what traffic depends on, and those that are awake as what something speaks against."""
        used, up = frozenset(paths), frozenset(awake)
        if (used, up) == (self._used, self._awake):
            return
        self._used, self._awake = used, up
        self._keep_pace(now)
        self._company.lay_out(self._grid.lay_out(self._turns))

    def rates(self) -> list[Rate]:
        """How often each kind of session is probed once it is known good; `rest` is what limits of bytes leave."""
        self._rates.rest = self.rest
        return self._rates.plan([(turn.kind, len(turn.sessions)) for turn in self._turns], self._used, self._awake)

    def widen(self, late_ns: int) -> None:
        """Add this process's own lateness to every wait from here on, unless it is small beside them.

        An answer that came in time is still read late by a process that is late itself, and looks as if the path
        had taken so long. 0 takes the widening back.
        """
        self._widening_ns = widening_ns(late_ns, self.timers.miss_ns)

    def slow_down(self, factor: float, now: int) -> None:
        """Send so many times fewer probes than the budgets allow, from here on; 1 takes it back."""
        self._rates.slowdown = factor
        for turn in self._turns:
            if turn.close_left:
                turn.interval_ns = max(turn.interval_ns, self._close_ns(turn))
        self._keep_pace(now)
        self._company.lay_out(self._grid.lay_out(self._turns))

    def deadline(self) -> int | None:
        """The next instant at which `advance` has something to do."""
        heap = self._heap
        while heap:
            at, _, item = heap[0]
            if type(item) is Waits:
                if at != item.armed_at:
                    heapq.heappop(heap)
                    continue
                end = item.armed_at = item.end(self._widening_ns)
                if end is None:
                    heapq.heappop(heap)
                    continue
                if end != at:
                    self._pushed += 1
                    heapq.heapreplace(heap, (end, self._pushed, item))
                    continue
            elif type(item) is Turn and item.at != at:
                heapq.heappop(heap)
                continue
            return at
        return None

    @property
    def early_at(self) -> int | None:
        """From when on `advance` may have something to do for who is awake anyway; None for nothing."""
        return self._company.at

    def advance(self, now: int, missed: Missed, heard: int = 0) -> list[SendProbe]:
        """What is due: a batch of probes to send; ended waits are given to `missed`.

        Args:
            now: nanoseconds.
            missed: told of every wait that is over.
            heard: answers that have arrived later may not have been read yet, so that no wait which ends later is
                over; 0 stands for `now`.

        Returns:
            MAX_PROBES at most; where more are due `deadline` has not moved past `now`.
        """
        probes: list[SendProbe] = []
        heard = heard or now
        heap, unheard = self._heap, list[tuple[int, Waits]]()
        while heap and heap[0][0] <= now and len(probes) < MAX_PROBES:
            at, _, item = heapq.heappop(heap)
            if type(item) is Turn:
                if item.at == at:
                    self._ask(item, now, probes)
            elif type(item) is Waits:
                if item.armed_at == at:
                    if at <= heard:
                        self._expire(item, now, missed, heard)
                    else:
                        unheard.append((at, item))
            elif isinstance(item, Session):
                port = item.ports.take(now, is_burst=True)
                if port is not None:
                    probes.append(self._begin(item, now, port, is_confirm=True))
        for at, waits in unheard:
            self._push(at, waits)
        for turn in self._company.take(now):
            turn.at = now
            self._ask(turn, now, probes)
        return probes

    def probe(
        self,
        session: Session,
        now: int,
        *,
        is_confirm: bool = False,
        coordination: Coordination | None = None,
    ) -> SendProbe:
        """One probe that must leave, since it carries a message; its wait has begun."""
        port = session.ports.take(now, is_burst=is_confirm, is_forced=True)
        assert port is not None, "a forced probe has a port"
        return self._begin(session, now, port, is_confirm=is_confirm, coordination=coordination)

    def retry(self, session: Session, seq: int, now: int) -> SendProbe | None:
        """A probe whose port is taken by another process, from the next port.

        Returns:
            None after MAX_TRIES in a row: the probe is given up. It never left, so its miss proves nothing.
        """
        session.cancel(seq)
        session.tries += 1
        port = session.ports.take(now, is_burst=False) if session.tries < MAX_TRIES else None
        return None if port is None else self._begin(session, now, port)

    def confirm(self, sessions: Iterable[Session], now: int, *, rounds: int) -> None:
        """Spread confirm probes over the sessions in turn, a gap apart, `rounds` for each."""
        ordered = tuple(sessions)
        for turn in range(rounds):
            for position, session in enumerate(ordered):
                step = turn * len(ordered) + position
                offset = self.timers.burst_gap_ns * step // max(1, len(ordered) // 4)
                self._push(now + offset, session)

    def answered(self, session: Session) -> None:
        """A probe of this session was answered in time: what left before it for the same node has been outrun."""
        plan, sent_at = session.plan, session.history[-1]
        waits = self._waits[plan.session]
        if sent_at > waits.outrun.get(plan.peer, 0):
            waits.outrun[plan.peer] = sent_at
            end = waits.end(self._widening_ns)
            if end is not None and waits.armed_at is not None and end < waits.armed_at:
                self._arm(waits, end)

    def postpone(self, late_ns: int) -> None:
        """Wait longer for everything outstanding: whoever slept for that long has heard nothing meanwhile."""
        for waits in {id(waits): waits for waits in self._waits.values()}.values():
            waits.outrun.clear()
            waits.queue = [(at + late_ns, session, seq) for at, session, seq in waits.queue]

    def look_closely(self, session: Session, now: int) -> None:
        """Ask this session, and those of its kind, more often for a while: something about it is new."""
        turn = self._turn_of[session.plan.session]
        turn.watch_closely(self._close_ns(turn))
        self._hasten(turn, now)

    def session(self, identity: SessionId) -> Session | None:
        """The session of that id, or None for one of an earlier topology."""
        return self._by_id.get(identity)

    def select(self, **wanted: object) -> tuple[Session, ...]:
        """The sessions whose plans have all the given attribute values; advisory ones only when asked for."""
        return self._index.select(wanted)

    def _ask(self, turn: Turn, now: int, probes: list[SendProbe]) -> None:
        """Send what is due of one kind; who slept through several intervals asks each session once."""
        turn.grid = max(turn.grid, now - turn.interval_ns + turn.step_ns)
        while turn.at <= now and len(probes) < MAX_PROBES:
            is_booked = turn.is_booked and now - turn.at <= LATE_NS
            if not is_booked and (at := self._pace.book(now)) > now:
                turn.at = turn.grid = at + -at % self._grid.step_ns
                turn.is_booked = True
                break
            turn.is_booked = False
            # Without a port the session waits for its next turn: a probe that is not fresh would prove nothing.
            session = turn.next()
            session.tries = 0
            port = session.ports.take(now, is_burst=False)
            if port is not None:
                probes.append(self._begin(session, now, port))
            if turn.close_left:
                turn.close_left -= 1
                if not turn.close_left:
                    turn.rest(now)
            turn.grid += turn.step_ns
            turn.at = self._grid.departure(turn)
        self._push(turn.at, turn)

    def _hasten(self, turn: Turn, now: int) -> None:
        """Ask the next session no later than a step from here: the step may have become shorter."""
        # What leaves early leaves the grid where it is: else each call would have all leave earlier.
        if turn.grid > now + turn.step_ns + turn.jitter_ns and not turn.is_booked:
            turn.at = turn.grid = now + turn.step_ns
            self._push(turn.at, turn)

    def _expire(self, waits: Waits, now: int, missed: Missed, heard: int) -> None:
        queue = waits.queue
        while (end := waits.end(self._widening_ns)) is not None and end <= heard:
            _, session, seq = queue.pop(0)
            before = session.state
            if session.expired(seq, now) is Outcome.MISS:
                missed(session, before)
                if now - session.last_heard <= GIVEN_UP_NS:
                    self.look_closely(session, now)
        self._arm(waits, end)

    def _arm(self, waits: Waits, end: int | None) -> None:
        waits.armed_at = end
        if end is not None:
            self._push(end, waits)

    def _begin(
        self,
        session: Session,
        now: int,
        port: int,
        *,
        is_confirm: bool = False,
        coordination: Coordination | None = None,
    ) -> SendProbe:
        seq = session.begin(now)
        waits = self._waits[session.plan.session]
        queue = waits.queue
        end = now + session.delay.wait_ns(now) + self._widening_ns
        if queue and queue[-1][0] > end:
            end = queue[-1][0]
        queue.append((end, session, seq))
        if waits.armed_at is None:
            self._arm(waits, end)
        return SendProbe(
            session=session.plan.session,
            seq=seq,
            source_port=port,
            is_confirm=is_confirm,
            coordination=coordination,
        )

    def _push(self, at: int, item: Turn | Waits | Session) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (at, self._pushed, item))
        if type(item) is Turn:
            self._company.offer(item)
