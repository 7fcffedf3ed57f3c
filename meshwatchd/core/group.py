"""Shared-risk groups: the sessions that cross one leg, judged together.

The fresh sessions of one path to the nodes of one remote location share everything up to the remote relay. They are
phased apart, so the leg is watched as often as all of them together, and their outcomes feed one sequential test.
The group is condemned only when every session of it has evidence against it: one dead node behind a healthy leg must
not condemn the leg.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshwatchd.core.detector import MISS_NATS, Cusum
from meshwatchd.core.session import Outcome, Session, SessionState
from meshwatchd.model.settings import Timers

ISOLATED_NATS = MISS_NATS
"""Below this a session is innocent; while one is, a silent neighbour stands accused alone."""

DISTURBED_NATS = 3 * MISS_NATS
"""From here on a group is not called good; one or two misses do not restart the wait to restore."""


class Group:
    """The fresh sessions of one path that lead to the nodes traffic goes to.

    Attributes:
        controls: the pinned sessions to the same nodes; their answers prove that the path is not merely stalled.
    """

    __slots__ = ("_loner", "_timers", "controls", "cusum", "down_since", "good_since", "sessions", "suspect_since")

    def __init__(self, sessions: Sequence[Session], controls: Sequence[Session], timers: Timers) -> None:
        self.sessions = tuple(sessions)
        self.controls = tuple(controls)
        self.cusum = Cusum(timers.silence_ns)
        self._timers = timers
        self.suspect_since = 0
        self.down_since = 0
        self.good_since = 0
        self._loner: set[int] = set()

    @property
    def is_down(self) -> bool:
        """Whether the leg is condemned."""
        return self.down_since != 0

    @property
    def is_suspect(self) -> bool:
        """Whether there is evidence, not yet enough."""
        return self.suspect_since != 0 and not self.is_down

    @property
    def is_proven(self) -> bool:
        """Whether any session of it was ever up."""
        return any(session.is_proven for session in self.sessions)

    @property
    def is_good(self) -> bool:
        """Proven, not condemned, and not more disturbed than by everyday loss."""
        return self.is_proven and self.good_since != 0

    def isolated(self) -> tuple[Session, ...]:
        """Sessions that are down alone: their node is to blame, not the leg."""
        return tuple(session for session in self.sessions if session.plan.session in self._loner)

    def observe(self, session: Session, outcome: Outcome, now: int) -> None:
        """Take in the outcome of one probe of one of the sessions."""
        if session.plan.session not in self._loner and session.is_proven:
            self.cusum.hold_off_ns = self._timers.selective_ns if self._is_selective() else self._timers.silence_ns
            _feed(self.cusum, outcome, now)
        self._judge(now)

    def forget(self, now: int) -> None:
        """Drop the evidence that a stalled process gathered."""
        self.cusum.reset()
        self._judge(now)

    def verified_since(self, instant: int) -> bool:
        """Whether probes sent since an instant show every live session answering, with one miss in eight at most."""
        hits = misses = 0
        for session in self._live():
            won, lost = session.since(instant)
            if won == 0:
                return False
            hits, misses = hits + won, misses + lost
        return hits > 0 and misses * 8 <= hits + misses

    def _is_selective(self) -> bool:
        """Whether old flows to the same nodes have been answered since the suspicion began."""
        since = self.suspect_since
        return bool(since) and any(session.since(since)[0] for session in self.controls)

    def _live(self) -> list[Session]:
        return [session for session in self.sessions if session.is_proven and session.plan.session not in self._loner]

    def _judge(self, now: int) -> None:
        self._isolate()
        live = self._live()
        is_unanimous = bool(live) and all(session.cusum.nats >= ISOLATED_NATS for session in live)
        if self.is_down:
            if not self.cusum.is_tripped:
                self.down_since = self.suspect_since = 0
        elif self.cusum.is_tripped and is_unanimous:
            self.down_since = now
        if not self.is_down:
            is_doubtful = self.cusum.is_suspect or self.cusum.is_tripped
            self.suspect_since = (self.suspect_since or now) if is_doubtful else 0
        is_calm = bool(live) and not self.is_down and self.cusum.nats < DISTURBED_NATS
        self.good_since = (self.good_since or now) if is_calm else 0

    def _isolate(self) -> None:
        """Set aside sessions that are down while a neighbour is innocent; take them back once they are up."""
        if self.is_down:
            return
        down = [session for session in self.sessions if session.state is SessionState.DOWN]
        innocent = any(s.is_proven and s.cusum.nats < ISOLATED_NATS for s in self.sessions)
        for session in self.sessions:
            if session.state is not SessionState.DOWN:
                self._loner.discard(session.plan.session)
        if innocent and down:
            newly = {session.plan.session for session in down} - self._loner
            self._loner |= newly
            if newly:
                self.cusum = Cusum(self._timers.silence_ns)


def _feed(cusum: Cusum, outcome: Outcome, now: int) -> None:
    if outcome is Outcome.HIT:
        cusum.hit(now)
    elif outcome is Outcome.MISS:
        cusum.miss(now)
    elif outcome is Outcome.LATE:
        cusum.heal(now)
