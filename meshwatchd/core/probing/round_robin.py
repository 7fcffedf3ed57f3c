"""Sessions of one kind take turns, a step apart, so that what they share is seen as often as they all are."""

from __future__ import annotations

from meshwatchd.core.probing.intervals import CLOSED_PORT_NS, UNWELL_NS, Kind
from meshwatchd.core.session.session import Session
from meshwatchd.model.settings import MS, SECOND

CLOSE_ROUNDS = 12
"""Slow sessions that have begun or missed an answer are asked more often for so many probes: ten answers acquit."""

FEW_ROUNDS = 2
"""Among many that share the time so many are enough: a session that misses one of these answers is watched on."""

SCOUT_JITTER_NS = 12 * MS
"""No earlier where scouts keep apart by themselves: a tenth of their interval is nearly the way to the next one."""

GIVEN_UP_NS = 60 * SECOND
"""What has not answered for so long is left to its pace until it does: watched closely for good, it would use up the
outer flows of its leg, and a fault of new flows would go unseen."""


class Turn:
    """Sessions of one kind, asked one after the other.

    Attributes:
        at, grid: when the next one is asked, and its place on the grid that jitter leaves alone.
        early_at: from when on it may leave together with something else.
        rest_ns: the interval of each session while nothing speaks against any of them.
        jitter_ns: how early a probe may leave at most: a tenth of its interval, but not before the one ahead of it, and
            hardly where scouts keep apart.
        close_left: probes for which they are watched more closely.
        is_booked: the node has room for the next one at `at`.
        is_patient: they keep their pace whatever is missed: they move no traffic, and the node has no packets to spare.
    """

    __slots__ = (
        "at",
        "close_left",
        "early_at",
        "grid",
        "interval_ns",
        "is_booked",
        "is_patient",
        "jitter_ns",
        "kind",
        "position",
        "rest_ns",
        "sessions",
        "step_ns",
    )

    def __init__(self, kind: Kind, sessions: list[Session]) -> None:
        self.kind, self.sessions = kind, sessions
        self.position = 0
        self.close_left = 0
        self.is_booked = self.is_patient = False
        self.at = self.early_at = self.grid = self.interval_ns = self.rest_ns = self.step_ns = self.jitter_ns = 0

    def replace(self, kind: Kind, sessions: list[Session]) -> None:
        """Ask these from here on, from the same place in the round."""
        self.kind, self.sessions = kind, sessions
        self.position %= len(sessions)

    def pace(self, interval_ns: int) -> None:
        """Ask each session once in an interval."""
        self.interval_ns = interval_ns
        self.step_ns = max(1, interval_ns // len(self.sessions))
        self.jitter_ns = min(interval_ns // 10, self.step_ns)
        if self.kind.followed is not None:
            self.jitter_ns = min(self.jitter_ns, SCOUT_JITTER_NS)

    def watch_closely(self, interval_ns: int) -> None:
        """For some rounds, where the interval of rest is longer; one that is asked for, or of patient ones, is kept."""
        if self.kind.is_closed_port:
            interval_ns = max(interval_ns, CLOSED_PORT_NS)
        if interval_ns < self.rest_ns and not self.kind.interval_ns and not self.is_patient:
            rounds = max(FEW_ROUNDS, CLOSE_ROUNDS // self.kind.crowd_part)
            self.close_left = rounds * len(self.sessions)
            self.pace(interval_ns)

    def rest_at(self, interval_ns: int, close_ns: int, now: int) -> None:
        """Ask each session so seldom from here on, but closely who is watched, or is under suspicion now."""
        self.rest_ns = interval_ns
        self.pace(min(interval_ns, self.interval_ns) if self.close_left else interval_ns)
        if any(is_watched(session, now) for session in self.sessions):
            self.watch_closely(close_ns)

    def rest(self, now: int) -> None:
        """Unless one of them is under suspicion still: acquittal at the pace of rest would take half a minute."""
        if any(is_watched(session, now) for session in self.sessions):
            self.close_left = len(self.sessions)
        elif all(session.is_good for session in self.sessions):
            self.pace(self.rest_ns)
        else:
            self.close_left = len(self.sessions)
            self.pace(min(self.rest_ns, UNWELL_NS))

    def next(self) -> Session:
        """Whose turn it is."""
        session = self.sessions[self.position]
        self.position = (self.position + 1) % len(self.sessions)
        return session


def is_watched(session: Session, now: int) -> bool:
    """Whether something speaks against a session that was answered not long ago."""
    return session.is_proven and not session.is_good and now - session.last_heard <= GIVEN_UP_NS
