"""When which session is probed.

Sessions of one kind are asked in turn, a step apart, so that a leg they share is seen as often as all of them
together: one heap entry serves them all, however many there are. Each probe leaves up to a tenth of its interval
early (RFC 5880 section 6.8.7 asks for jitter), so that nodes do not fall into step, and on a common grid, so that
one wake-up serves whatever is due about the same time (slow ones leave early for that, see `probing.company`).

The ends of waits are queues, one for each estimator of delay, since its waits end in the order they began. A queue
has one entry in the heap; what was answered meanwhile is skipped and wakes nobody.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType

from meshwatchd.core.probing.company import Company
from meshwatchd.core.probing.intervals import KNOWN_PART, Kind, Rate, Rates, RestStretch
from meshwatchd.core.probing.packet_budget import LATE_NS, Pace
from meshwatchd.core.probing.round_robin import GIVEN_UP_NS, Turn
from meshwatchd.core.probing.timeouts import Waits
from meshwatchd.core.session.rtt_estimator import DelayEstimator
from meshwatchd.core.session.session import Outcome, Session, SessionState
from meshwatchd.core.session.source_ports import FreshPorts, KnownPorts, PortWalk, SourcePorts
from meshwatchd.model.events import Coordination
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.model.port_map import known_flow_ports
from meshwatchd.model.settings import MS, SECOND, Settings
from meshwatchd.model.source_ports import split_ports

CANARY_WAIT_NS = 500 * MS
"""A service may take its time; its answer is no measure of the network's delay."""

GRID_NS = 1 * MS
"""Regular probes leave on multiples of this, early rather than late: a wake-up costs more than a probe."""

GRID_PROBES = 160
GRID_PARTS = 8
LEAST_GRID_PARTS = 4
"""Nodes that send more than one probe a millisecond have a coarser grid: the more they send, the fewer places to an
interval, from eight at one a millisecond to four at two, so that the four sessions of a leg stay apart. A wake-up at
either end costs as much as half a dozen probes, and the caches it finds cold as much again: 50 probes a wake-up instead
of 4 at 200 sessions of 50 ms. But a hundred and some at most, also at 4 000 of 100 ms: the last would leave late."""

SCATTER = 0x9E3779B1
"""A prime near 2**32 divided by the golden ratio: multiples of it, modulo 2**32, lie evenly and in no order that is
easily met (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""

MAX_TRIES = 8
"""Busy ports in a row after which a probe is given up; all ports of known flows have been tried by then."""

MAX_PROBES = 256
"""Of one look at the time: the wait for the last of them has begun some milliseconds before it leaves, and answers to
the first may be waiting in the socket. More than that are due at once only where an engine cannot keep up."""

LATENESS_SHARE = 4
"""Lateness of less than a quarter of the shortest wait is lost in it."""

MAX_WIDENING_NS = 1 * SECOND
"""The prober forgets probes that are older; a process that is later than that is stalled, not late."""

Address = tuple[str, str, int]
"""Source, destination and port of a session: those that share it share one place in the walk through source ports."""

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
        regular, burst = split_ports(settings.probe)
        self._walks = PortWalk(regular, node), PortWalk(burst, node)
        self._known = known_flow_ports(settings.probe.port)
        self._heap: list[tuple[int, int, Turn | Waits | Session]] = []
        self._pushed = self._close_ns = 0
        self._company = Company()
        self._turns: list[Turn] = []
        self._turn_of: dict[SessionId, Turn] = {}
        self._by_id: dict[SessionId, Session] = {}
        self._judging: tuple[Session, ...] = ()
        self._of: dict[str, dict[object, list[Session]]] = {"path": {}, "layer": {}}
        self._waits: dict[SessionId, Waits] = {}
        self._fresh_ports: dict[Address, FreshPorts] = {}
        self._used: frozenset[int] = frozenset()
        self._awake: frozenset[int] = frozenset()
        self._widening_ns, self._grid_ns, self._grid_jitter_ns = 0, GRID_NS, 0

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
            _leg(plan): (before[plan.session].delay, self._waits[plan.session])
            for plan in ordered
            if plan.session in before
        }
        ports: dict[Address, FreshPorts] = {}
        turns: dict[Kind, list[Session]] = {}
        self._by_id, waits = {}, {}
        for plan in ordered:
            delay, waits[plan.session] = legs.setdefault(_leg(plan), (self._estimator(plan), Waits()))
            kind = kinds.get(plan.session) or Kind(plan.layer, plan.path, plan.flow)
            source_ports = self._ports(ports, plan, now, kind)
            session = before.get(plan.session) or Session(plan, source_ports, delay, self.timers.silence_ns)
            session.plan = plan
            self._by_id[plan.session] = session
            turns.setdefault(kind, []).append(session)
        peers = {plan.peer for plan in ordered}
        for each in waits.values():
            each.retain(peers)
        self._waits, self._fresh_ports = waits, ports
        self.sessions = tuple(self._by_id.values())
        self._judging = tuple(session for session in self.sessions if not session.plan.is_advisory)
        self._of = {"path": {}, "layer": {}}
        for session in self.sessions:
            self._of["path"].setdefault(session.plan.path, []).append(session)
            self._of["layer"].setdefault(session.plan.layer, []).append(session)
        self._close_ns = self._rates.close_ns(len(self.sessions))
        self._take_turns(turns, now)
        self._clear_heap()

    def _take_turns(self, turns: Mapping[Kind, list[Session]], now: int) -> None:
        """Arrange the sessions by kind; rounds whose sessions are the same go on where they are."""
        before = {turn.kind: turn for turn in self._turns}
        spare = {_place(kind): turn for kind, turn in before.items() if kind not in turns}
        # Where only the shares of two kinds differ, the first takes the place of one that is gone.
        after = [before.get(kind) or spare.pop(_place(kind), None) or Turn(kind, []) for kind in turns]
        changed = []
        for turn, (kind, sessions) in zip(after, turns.items(), strict=True):
            known = {id(session) for session in turn.sessions}
            added = [session for session in sessions if id(session) not in known]
            if turn.sessions != sessions:
                changed.append((turn, bool(added), not turn.sessions))
            turn.replace(kind, sessions)
        self._turns = after
        self._turn_of = {session.plan.session: turn for turn in after for session in turn.sessions}
        self._keep_pace(now)
        for turn, has_new, is_new in changed:
            if has_new:
                turn.watch_closely(self._close_ns)
            if is_new:
                turn.at = turn.grid = now + self._rng.randrange(turn.interval_ns)
                self._push(turn.at, turn)
            else:
                self._hasten(turn, now)
        self._lay_grid()

    def _lay_grid(self) -> None:
        probes_per_grid = GRID_NS * sum(len(turn.sessions) / turn.rest_ns for turn in self._turns)
        self._grid_ns = GRID_NS
        self._company.lay_out(probes_per_grid)
        if probes_per_grid > 1:
            shortest_ns = min(turn.rest_ns for turn in self._turns)
            full_ns = GRID_PROBES * GRID_NS / probes_per_grid
            parts = max(LEAST_GRID_PARTS, GRID_PARTS / probes_per_grid, shortest_ns / full_ns)
            self._grid_ns = max(GRID_NS, shortest_ns // math.ceil(parts))
            self._grid_jitter_ns = min(self._grid_ns // 2, shortest_ns // 10)

    def _departure(self, turn: Turn) -> int:
        """When the next probe leaves: a little earlier than its turn, and on the grid.

        Jitter of single probes would be lost between the places of a coarse grid, or take a probe from one to the
        other. There it is the places that lie a little early, each by an amount of its own.
        """
        if self._grid_ns == GRID_NS:
            early = turn.grid - int(self._rng.random() * turn.jitter_ns)
            return early - early % GRID_NS
        place = turn.grid // self._grid_ns
        return place * self._grid_ns - (place * SCATTER % 2**32 * self._grid_jitter_ns >> 32)

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
                turn.rest_at(rate.interval_ns, self._close_ns, now)
                if not is_new:
                    self._hasten(turn, now)
            else:
                turn.pace(turn.interval_ns)

    def use_paths(self, paths: Iterable[int], now: int, *, awake: Iterable[int] = ()) -> None:
        """Probe these paths as what traffic depends on, and those that are awake as what something speaks against."""
        used, up = frozenset(paths), frozenset(awake)
        if (used, up) == (self._used, self._awake):
            return
        self._used, self._awake = used, up
        self._keep_pace(now)
        self._lay_grid()

    def rates(self) -> list[Rate]:
        """How often each kind of session is probed once it is known good; `rest` is what limits of bytes leave."""
        self._rates.rest = self.rest
        return self._rates.plan([(turn.kind, len(turn.sessions)) for turn in self._turns], self._used, self._awake)

    def widen(self, late_ns: int) -> None:
        """Add this process's own lateness to every wait from here on, unless it is small beside them.

        An answer that came in time is still read late by a process that is late itself, and looks as if the path
        had taken so long. 0 takes the widening back.
        """
        is_late = late_ns * LATENESS_SHARE > self.timers.miss_ns
        self._widening_ns = min(late_ns, MAX_WIDENING_NS) if is_late else 0

    def slow_down(self, factor: float, now: int) -> None:
        """Send so many times fewer probes than the budgets allow, from here on; 1 takes it back."""
        self._rates.slowdown = factor
        self._close_ns = self._rates.close_ns(len(self.sessions))
        for turn in self._turns:
            if turn.close_left:
                turn.interval_ns = max(turn.interval_ns, self._close_ns)
        self._keep_pace(now)
        self._lay_grid()

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
        turn.watch_closely(self._close_ns)
        self._hasten(turn, now)

    def session(self, identity: SessionId) -> Session | None:
        """The session of that id, or None for one of an earlier topology."""
        return self._by_id.get(identity)

    def select(self, **wanted: object) -> tuple[Session, ...]:
        """The sessions whose plans have all the given attribute values; advisory ones only when asked for."""
        if not wanted:
            return self._judging
        wanted.setdefault("is_advisory", False)
        # A pair of locations asks some twenty times for its own paths, and there may be fifty pairs.
        found: Iterable[Session] = self.sessions
        for name in ("path", "layer"):
            if name in wanted:
                found = self._of[name].get(wanted[name], ())
                break
        return tuple(s for s in found if all(getattr(s.plan, name) == value for name, value in wanted.items()))

    def _estimator(self, plan: SessionPlan) -> DelayEstimator:
        if plan.canary is not None:
            return DelayEstimator(min(CANARY_WAIT_NS, plan.canary.interval))
        return DelayEstimator(self.timers.miss_ns, self.timers.calm_miss_ns)

    def _ask(self, turn: Turn, now: int, probes: list[SendProbe]) -> None:
        """Send what is due of one kind; who slept through several intervals asks each session once."""
        turn.grid = max(turn.grid, now - turn.interval_ns + turn.step_ns)
        while turn.at <= now and len(probes) < MAX_PROBES:
            is_booked = turn.is_booked and now - turn.at <= LATE_NS
            if not is_booked and (at := self._pace.book(now)) > now:
                turn.at = turn.grid = at + -at % self._grid_ns
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
            turn.at = self._departure(turn)
        self._push(turn.at, turn)

    def _hasten(self, turn: Turn, now: int) -> None:
        """Ask the next session no later than a step from here: the step may have become shorter."""
        if turn.grid > now + turn.step_ns and not turn.is_booked:
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

    def _ports(self, ports: dict[Address, FreshPorts], plan: SessionPlan, now: int, kind: Kind) -> SourcePorts:
        """Sessions to one address and port share their place in the walk: else they would repeat each other's flows."""
        if plan.flow is FlowClass.PINNED:
            # Slow sessions keep to one flow: among eight, none would be asked often enough to be remembered.
            is_slow = plan.layer is not Layer.RELAY or (kind.crowd and not kind.scouts)
            turn_ns = self.timers.interval_ns * max(1, KNOWN_PART * kind.scouts)
            return KnownPorts(self._known[:1] if is_slow else self._known, turn_ns)
        # A canary's socket would keep a port from all others, which share it.
        is_apart = plan.canary is not None
        address = "" if is_apart else plan.source, plan.destination, plan.port
        if address not in ports:
            ports[address] = self._fresh_ports.get(address) or FreshPorts(*self._walks, now, is_apart=is_apart)
        return ports[address]

    def _push(self, at: int, item: Turn | Waits | Session) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (at, self._pushed, item))
        if type(item) is Turn:
            self._company.offer(item)


def _leg(plan: SessionPlan) -> tuple[int, ...]:
    """Sessions of one layer, path and family share an estimator: what delays one of them delays the others.

    Canaries have nothing in common.
    """
    return (plan.layer, plan.path, plan.is_ip6, -1 if plan.canary is None else plan.session)


def _place(kind: Kind) -> Kind:
    """What makes a round the same while the mesh around it changes: all but how crowded its leg is."""
    return kind._replace(share=0, rest_share=0)
