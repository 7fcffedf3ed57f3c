"""Black holes of large packets: what every layer of every path carries, to the byte and in both directions.

    Snapshot -> stack -> expected sizes ----------------+
    plans of the ordinary sessions -> paths to measure  |
                                        |               v
    SizeAnswered, SizeUnsent -> one SizeSession each -> findings -> classifier
    size probes of peers ---------------^

In rest a session looks seldom, with one probe of full size (`rest_intervals`). A look that is missed is followed at
once by a trial with small companions, and one that fails by the search of the limit (`session`). When one session has
found a black hole all others look at once: only so is the lowest broken layer named and not the first that was asked.
Peers hear that too: sizes between small and full are only ever sent by a node that searches for a limit.

ICMP is not listened to. It is filtered where black holes are, and anybody can forge it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from meshwatchd.core.pmtu.expected_mtu import Stack, read_stack
from meshwatchd.core.pmtu.rest_intervals import TURN_NS, RestIntervals
from meshwatchd.core.pmtu.session import SizeSession
from meshwatchd.core.pmtu.session_plan import SizeKey, key_of, measured
from meshwatchd.core.probing.packet_budget import Allowance, Use
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.events import RequestReceived
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.mtu import (
    SMALL_BYTES,
    ConfigureSizes,
    SendSizeProbe,
    SizeAnswered,
    SizeMeasured,
    SizePlan,
    SizeState,
    SizeUnsent,
)
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.settings import MS, SECOND, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.topology import Path

ROUND_NS = 1 * SECOND
"""Between two looks of a session that does not know the full size to pass."""

SPREAD = 4
"""Intervals of rest differ by up to a part in so many."""

CALL_NS, CALL_PAUSE_NS = 1 * SECOND, 1 * SECOND
"""Two different sizes that a peer sends within the first are a search: in rest one that has found its limit asks for
one of them a round. A node looks at everything for that no more often than once in the second of these times."""

SLOW_ROUNDS = 5
"""Sessions that accuse nobody by themselves look so much less often."""

PACKETS_SHARE = 40
"""One packet in so many of `probe.packets_per_second`: 50 large ones a second with the default, 0.6 Mbit/s."""

MAX_TRIALS = 10
"""At once: each is 1.5 Mbit/s for less than a tenth of a second."""

BUSY_NS = 50 * MS
"""Between looks at whether there is something more urgent to ask than sizes."""

SETTLE_NS = SECOND
"""After the first black hole, at most, until all other sessions have looked, and been tried where they missed."""

VERIFY_PAIRS = 5
"""Of the trial after a move: 40 ms, and half of its small ones have to be answered."""


class SizeWatch:
    """All size sessions of one node.

    Attributes:
        sessions: in the order of their plans.
        stack: what the own devices promise.
        settled_at: until then a black hole is not spoken of, since a lower layer may be to blame.
    """

    def __init__(self, settings: Settings, allowance: Allowance | None = None) -> None:
        self._allowance = allowance or Allowance(settings.probe.packets_per_second)
        self.sessions: tuple[SizeSession, ...] = ()
        self.stack = Stack()
        self.settled_at = self._alarmed_at = 0
        self._settings = settings
        self._planner: Planner | None = None
        self._by_id: dict[int, SizeSession] = {}
        self._of: dict[tuple[Layer, int], list[SizeSession]] = {}
        self._by_path: dict[tuple[str, Layer, int], SizeSession] = {}
        # Ids are not used again: the peers' replay windows would take a session's first probes for old ones.
        self._ids: dict[SizeKey, int] = {}
        self._next_id = 0
        self._limits: set[int] = set()
        self._due = 0
        self._used: frozenset[int] = frozenset()
        self._silent: tuple[NodeName, ...] = ()
        # Of a search that was heard: its last size, when that was, and when this node looks at everything for one.
        self._searched: tuple[int, int] = (0, -CALL_NS)
        self._called_at = -CALL_PAUSE_NS

    def start(
        self, planner: Planner, plans: Iterable[SessionPlan], snapshot: Snapshot, now: int
    ) -> Iterator[ConfigureSizes]:
        """Measure the paths of a topology; what is known of paths that stay is kept."""
        if not self._settings.mtu.enabled:
            return
        self._planner = planner
        has_fragments = self._settings.mtu.fragments
        chosen = (plan for plan in measured(plans, planner) if has_fragments or not plan.may_fragment)
        found = tuple(self._named(plan) for plan in chosen)
        self._ids = {key_of(plan): plan.session for plan in found}
        before = {key_of(session.plan): session for session in self.sessions}
        interval_ns = self._interval_ns(len(found))
        self.sessions = tuple(
            self._session(plan, before.get(key_of(plan)), interval_ns, now + interval_ns * place // len(found))
            for place, plan in enumerate(found)
        )
        self._by_id = {session.plan.session: session for session in self.sessions}
        self._of.clear()
        for session in self.sessions:
            self._of.setdefault((session.plan.layer, session.plan.path), []).append(session)
        self._by_path = {(s.plan.peer, s.plan.layer, s.plan.path): s for s in self.sessions if not s.plan.may_fragment}
        self._pace(now)
        self.observe(snapshot, now)
        yield ConfigureSizes(plans=found)

    def observe(self, snapshot: Snapshot, now: int) -> None:
        """The kernel's devices have changed, or may have."""
        if self._planner is None:
            return
        self.stack = read_stack(snapshot, self._planner)
        for session in self.sessions:
            expected, goal = self.stack.expected(session.plan, self._planner)
            session.aim(expected_bytes=expected, goal_bytes=goal, now=now)
        self._reckon()

    def use_paths(self, paths: Iterable[int], now: int) -> None:
        """Look at these paths as what traffic depends on."""
        self._used = frozenset(paths)
        self._pace(now)
        self._reckon()

    def _pace(self, now: int) -> None:
        if self._planner is None:
            return
        rests = RestIntervals(self._planner, self._used, self._silent)
        for place, session in enumerate(self.sessions):
            rest_ns = rests.of(session.plan)
            if rest_ns > TURN_NS:
                # Each a little different, or all that began together would look together for good.
                rest_ns += rest_ns * (2 * place - len(self.sessions)) // (2 * SPREAD * len(self.sessions))
            session.rest(max(session.interval_ns, rest_ns), now)

    def deadline(self) -> int | None:
        """When `advance` is due; None while nothing is measured."""
        return self._due if self.sessions else None

    def is_due(self, now: int) -> bool:
        """Whether `advance` has something to do."""
        return bool(self.sessions) and now >= self._due

    def wait(self, now: int) -> None:
        """Sizes can wait while it is decided whether a path carries anything."""
        self._due = now + BUSY_NS

    def advance(self, now: int) -> list[SendSizeProbe | SizeMeasured]:
        """Everything that is due."""
        if not self.sessions or now < self._due:
            return []
        outputs: list[SendSizeProbe | SizeMeasured] = []
        for session in self.sessions:
            while session.due <= now:
                if session.wants_turn and sum(each.is_busy for each in self.sessions) >= MAX_TRIALS:
                    session.postpone(now)
                    break
                if session.wants_to_send and not self._allowance.take(1, now, Use.REPEAT):
                    session.postpone(now)
                    break
                probe = session.advance(now)
                if probe is not None:
                    outputs.append(probe)
            outputs += self._news(session, now)
        silent = tuple(session.plan.peer for session in self.sessions if session.state is SizeState.ERROR)
        if silent != self._silent:
            self._silent = silent
            self._pace(now)
        self._reckon()
        return outputs

    def answered(self, event: SizeAnswered, now: int) -> list[SizeMeasured]:
        """An answer came."""
        session = self._by_id.get(event.session)
        if session is None:
            return []
        session.answered(event, now)
        news = list(self._news(session, now))
        self._reckon()
        return news

    def unsent(self, event: SizeUnsent, now: int) -> list[SizeMeasured]:
        """A probe did not leave."""
        session = self._by_id.get(event.session)
        if session is None:
            return []
        session.unsent(event.seq, event.errno, now)
        news = list(self._news(session, now))
        self._reckon()
        return news

    def heard(self, event: RequestReceived, now: int) -> None:
        """A size probe of a peer arrived."""
        session = self._by_path.get((event.peer, event.layer, event.path))
        if session is None:
            return
        session.heard(event.size_bytes, now)
        if SMALL_BYTES < event.size_bytes < session.goal_bytes:
            self._hear_search(event.size_bytes, now)
        elif event.size_bytes >= session.goal_bytes:
            session.spare(now)
            self._reckon()

    def _hear_search(self, size_bytes: int, now: int) -> None:
        """A peer searches for a limit, so it has found a black hole: what it crosses this node may cross as well.

        What is heard within the pause counts when that is over: the limit before may have gone, and this be another.
        """
        before, at = self._searched
        self._searched = size_bytes, now
        is_search = size_bytes != before and now - at < CALL_NS
        if is_search and now >= self._called_at:
            self._called_at = max(now, self._called_at + CALL_PAUSE_NS)
            self._hasten(self.sessions, self._called_at)

    def wait_longer(self, late_ns: int) -> None:
        """This process was not running for a moment: what it is told of that moment it is told late."""
        for session in self.sessions:
            session.wait_longer(late_ns)
        self._reckon()

    def void(self, now: int) -> None:
        """This process was not running for long, or answers were dropped before it read them."""
        for session in self.sessions:
            session.void(now)
        self._reckon()

    # -- moves -------------------------------------------------------------------------------------------------

    def verify(self, path: Path, now: int) -> None:
        """Ask, by probes that follow real traffic, whether these still pass at full size."""
        for session in self._effective(path):
            session.try_now(session.goal_bytes, VERIFY_PAIRS, now)
            self._due = min(self._due, session.due)

    def is_cramped(self, path: Path) -> tuple[str, ...]:
        """The peers that real traffic reaches with small packets only, by the trials since `verify`."""
        return tuple(
            session.plan.peer for session in self._effective(path) if session.trial is None and session.is_blocked
        )

    def carries(self, path: Path) -> bool | None:
        """Whether a path carries what its devices promise; None before it was measured."""
        sessions = self.of(Layer.RELAY, path.number)
        if any(session.is_blocked for session in sessions):
            return False
        return True if any(session.is_measured for session in sessions) else None

    def is_known_limit(self, size_bytes: int) -> bool:
        """Whether a size was measured as a limit: then a kernel that has learned it was told the truth."""
        return size_bytes in self._limits

    def of(self, layer: Layer, path: int = NO_PATH) -> Sequence[SizeSession]:
        """The sessions of one layer over one path, or over none."""
        return self._of.get((layer, path), ())

    def _effective(self, path: Path) -> Sequence[SizeSession]:
        return self.of(Layer.EFFECTIVE, path.number)

    # -- bookkeeping -------------------------------------------------------------------------------------------

    def _interval_ns(self, count: int) -> int:
        share = max(1, self._settings.probe.packets_per_second // PACKETS_SHARE)
        return max(ROUND_NS, count * SECOND // share)

    def _named(self, plan: SizePlan) -> SizePlan:
        known = self._ids.get(key_of(plan))
        if known is None:
            known, self._next_id = self._next_id, self._next_id + 1
        return msgspec.structs.replace(plan, session=known)

    def _session(self, plan: SizePlan, before: SizeSession | None, interval_ns: int, now: int) -> SizeSession:
        if before is not None and before.plan == plan:
            return before
        is_slow = plan.may_fragment or plan.layer is Layer.EFFECTIVE
        return SizeSession(
            plan,
            interval_ns=interval_ns * (SLOW_ROUNDS if is_slow else 1),
            now=now,
            is_searching=not is_slow,
        )

    def _news(self, session: SizeSession, now: int) -> Iterator[SizeMeasured]:
        """What became known; the first black hole makes all others look."""
        if session.is_blocked and session.failed_at == now and now >= self.settled_at:
            # Who was called by a search has begun to look at everything then.
            is_called = 0 <= now - self._called_at < SETTLE_NS
            self.settled_at, self._alarmed_at = now + SETTLE_NS, self._called_at if is_called else now
            self._hasten((each for each in self.sessions if not each.has_looked_since(self._alarmed_at)), now)
        if now < self.settled_at and all(each.has_looked_since(self._alarmed_at) for each in self.sessions):
            self.settled_at = now
        if session.is_changed and session.healed_at == now:
            # The others that lost large packets may have lost them for the same reason.
            self._hasten((each for each in self.sessions if each.is_blocked), now)
        if session.is_changed:
            session.is_changed = False
            self._limits.add(session.both_bytes)
            yield SizeMeasured(
                peer=session.plan.peer,
                layer=session.plan.layer,
                path=session.plan.path,
                outbound_bytes=session.outbound_bytes,
                inbound_bytes=session.both_bytes,
                expected_bytes=session.expected_bytes,
            )

    def _hasten(self, sessions: Iterable[SizeSession], now: int) -> None:
        for place, session in enumerate(sessions):
            session.hasten(now + place * MS)
            self._due = min(self._due, session.due)

    def _reckon(self) -> None:
        """What was waited for may have come, or not be due any more: nobody wakes for it."""
        self._due = min((session.due for session in self.sessions), default=0)
