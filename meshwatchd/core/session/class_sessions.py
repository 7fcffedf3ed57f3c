"""The sessions of one flow class over a leg, and the sequential tests that their outcomes feed.

A session that is down while its neighbour is innocent is set aside: it has no say about the leg until it is answered.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from meshwatchd.core.session.cusum import MISS_NATS, Cusum
from meshwatchd.core.session.session import Outcome, Session, SessionState
from meshwatchd.core.session.witnesses import Witnesses
from meshwatchd.model.ids import SessionId

ISOLATED_NATS = MISS_NATS
"""Below this a session is innocent; while one is, a silent neighbour stands accused alone."""

UNANSWERED = 16
"""So many probes in vain, in a row, come from a leg that loses half of them in one case of 65 000. Behind a leg that is
condemned less would not do: flows that the network remembers are answered, and a neighbour looks innocent by luck."""


class WitnessedTest:
    """One sequential test and the witnesses to its evidence."""

    __slots__ = ("cusum", "nodes", "witnesses")

    def __init__(self) -> None:
        self.cusum = Cusum()
        self.witnesses = Witnesses()
        self.nodes: dict[str, int] = {}

    @property
    def is_conclusive(self) -> bool:
        """Whether it has tripped and all its witnesses agree."""
        arm = self.cusum.tripped_by
        return arm is not None and self.witnesses.are_unanimous(arm, len(self.nodes))

    def feed(self, peer: str, outcome: Outcome, now: int) -> None:
        """Take in what became of one probe to a node."""
        if self.cusum.nats == 0.0:
            self.witnesses.begin()
        if outcome is Outcome.HIT:
            self.cusum.hit(now)
            self.witnesses.hit(peer)
        elif outcome is Outcome.MISS:
            self.cusum.miss(now)
            self.witnesses.miss(peer)
        elif outcome is Outcome.LATE:
            self.cusum.heal(now)
            self.witnesses.heal(peer)

    def count(self, peer: str, by: int) -> None:
        """Sessions to a node that have a say in this test."""
        sessions = self.nodes.get(peer, 0) + by
        if sessions:
            self.nodes[peer] = sessions
        else:
            self.nodes.pop(peer, None)

    def forget_nodes(self, gone: Iterable[str]) -> None:
        """Count the nodes anew; those that are gone are no witnesses."""
        self.nodes.clear()
        for peer in gone:
            self.witnesses.forget(peer)

    def restart(self) -> None:
        """Forget the evidence, and keep the time for which doubt has to stand."""
        self.cusum = Cusum(self.cusum.hold_off_ns)


class ClassSessions:
    """The sessions of one flow class, by what is known of each: kept up to date session by session.

    Attributes:
        tests: those that take this class's outcomes.
        alone: sessions that are down while a neighbour is innocent; they have no say.
        calm: proven sessions that are innocent.
    """

    __slots__ = ("_fallen", "_proven", "alone", "calm", "sessions", "tests")

    def __init__(self, sessions: Sequence[Session], tests: tuple[WitnessedTest, ...]) -> None:
        self.sessions = {session.plan.session: session for session in sessions}
        self.tests = tests
        self.alone: dict[SessionId, None] = {}
        # Dictionaries: empty, as most classes of known flows are, they are a third of a set.
        self._proven: dict[SessionId, None] = {}
        self.calm: dict[SessionId, None] = {}
        self._fallen: dict[SessionId, None] = {}

    @property
    def is_proven(self) -> bool:
        """Whether one of them has ever been known to work."""
        return bool(self._proven)

    @property
    def has_live(self) -> bool:
        """Whether one that has worked has a say."""
        return len(self._proven) > len(self.alone)

    @property
    def has_down(self) -> bool:
        """Whether one is down."""
        return bool(self.alone or self._fallen)

    def update(self, session: Session) -> None:
        """Take note of what one session has become."""
        index = session.plan.session
        if session.is_proven and index not in self._proven:
            self._proven[index] = None
            self._count(session, 1)
        if session.is_proven and session.cusum.nats < ISOLATED_NATS:
            self.calm[index] = None
        else:
            self.calm.pop(index, None)
        if session.state is not SessionState.DOWN:
            self._fallen.pop(index, None)
            if index in self.alone:
                del self.alone[index]
                self._count(session, 1)
        elif index not in self.alone:
            self._fallen[index] = None

    def set_aside(self, alone: Iterable[SessionId]) -> None:
        """These were found to be down alone already."""
        for index in alone:
            if self._fallen.pop(index, "gone") is None:
                self.alone[index] = None
                self._count(self.sessions[index], -1)

    def isolate(self) -> bool:
        """Set aside the sessions that are down while a neighbour is innocent; whether there are new ones."""
        if not (self.calm and self._fallen):
            return False
        for index in self._fallen:
            self._count(self.sessions[index], -1)
        self.alone |= self._fallen
        self._fallen.clear()
        return True

    def exclude_down(self, peers: Container[str]) -> None:
        """Sessions that are down and lead to one of these nodes have no say until they are answered."""
        self._exclude([index for index in self._fallen if self.sessions[index].plan.peer in peers])

    def exclude_unanswered(self) -> None:
        """While a neighbour is innocent, sessions that are down and have long been answered nothing have no say."""
        if self.calm and self._fallen:
            self._exclude([index for index in self._fallen if _is_unanswered(self.sessions[index])])

    def _exclude(self, fallen: Iterable[SessionId]) -> None:
        for index in fallen:
            del self._fallen[index]
            self.alone[index] = None
            self._count(self.sessions[index], -1)

    def _count(self, session: Session, by: int) -> None:
        for test in self.tests:
            test.count(session.plan.peer, by)


def _is_unanswered(session: Session) -> bool:
    latest = session.history[-UNANSWERED:]
    return len(latest) == UNANSWERED and all(outcome < 0 for outcome in latest)
