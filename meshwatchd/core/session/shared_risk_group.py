"""Shared-risk groups: the sessions that cross one leg, judged together.

The sessions of one path to the nodes of one remote location share everything up to the remote relay. They are phased
apart, so the leg is watched as often as all of them together, and their outcomes feed two sequential tests:

    all     fresh and known flows: finds what kills everything, as often as anything is probed
    fresh   fresh flows alone: finds what kills new flows only, which known ones would outvote

The group is condemned when a test trips and its witnesses are unanimous (see `witnesses`): one dead node behind a
healthy leg must not condemn the leg. An outcome costs the same however many sessions there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwatchd.core.session.class_sessions import ClassSessions, WitnessedTest
from meshwatchd.core.session.cusum import MISS_NATS, TRIP_NATS
from meshwatchd.core.session.session import Outcome, Session
from meshwatchd.model.ids import SessionId
from meshwatchd.model.settings import SECOND
from meshwatchd.model.timers import Timers

DISTURBED_NATS = 3 * MISS_NATS
"""From here on a group is not called good; one or two misses do not restart the wait to restore."""

SILENT_NS = 1 * SECOND
"""A node behind a condemned leg that has answered nothing for so long, while another answers, is dead itself:
with its misses the leg would stay condemned for as long as the node is dead."""

STREAK = 5
"""So many answers in a row come from a path of which half is broken in one case of 32."""

STALLED_NATS = TRIP_NATS / 2
"""A suspicion that got this far and was cleared was a stall: the leg is given more time from then on."""


UNHEARD = 3
"""So many probes of each session in vain, and hardly an answer, say as much as a suspicion does."""

STRAY_PART = 3
"""One answer to so many losses is a flow that the network below happens to remember: the leg is no better for it."""

ABSENT_NS = 2 * SECOND
"""A leg that has not come up for so long after it was first asked is down, where a node behind it answers over another
one and somebody to whom it was up doubts it: this daemon was started in the middle of a fault, and waiting for a
session to be up first would be waiting for the fault to end."""

WORD_NS = 2 * SECOND
"""How long the word of another node counts: each of its packets repeats it."""


class Group:
    """The sessions of one path that lead to the nodes traffic goes to.

    Attributes:
        sessions: of fresh flows.
        controls: of known flows to the same nodes; their answers prove that the path is not merely stalled.
        elsewhere: of fresh flows to the same nodes over other paths.
        condemned_at: when another node spoke last against the path.
    """

    __slots__ = (
        "_all",
        "_answered_at",
        "_asked_at",
        "_classes",
        "_fresh",
        "_has_known_answer",
        "_is_absent",
        "_is_calm",
        "_is_mixed",
        "_known",
        "_new",
        "_timers",
        "_worst_nats",
        "condemned_at",
        "controls",
        "down_since",
        "elsewhere",
        "good_since",
        "sessions",
        "suspect_since",
    )

    def __init__(self, sessions: Sequence[Session], controls: Sequence[Session], timers: Timers) -> None:
        self.sessions = tuple(sessions)
        self.controls = tuple(controls)
        self.suspect_since = 0
        self.down_since = 0
        self.good_since = 0
        self.elsewhere: tuple[Session, ...] = ()
        self.condemned_at = -WORD_NS
        self._asked_at = 0
        self._is_absent = False
        self._timers = timers
        self._all, self._fresh = WitnessedTest(), WitnessedTest()
        self._has_known_answer = False
        self._is_calm = self._is_mixed = False
        self._answered_at = 0
        self._worst_nats = 0.0
        self._classify()

    def change(self, sessions: Sequence[Session], controls: Sequence[Session]) -> None:
        """Nodes behind the leg have come or gone; the leg is the same, and so is the evidence about it."""
        if self.sessions == tuple(sessions) and self.controls == tuple(controls):
            return
        gone = {s.plan.peer for s in self.sessions} - {s.plan.peer for s in sessions}
        alone = *self._new.alone, *self._known.alone
        self.sessions, self.controls = tuple(sessions), tuple(controls)
        for test in (self._all, self._fresh):
            test.forget_nodes(sorted(gone))
        self._classify(alone)
        self._is_calm = False

    def _classify(self, alone: Sequence[SessionId] = ()) -> None:
        self._new = ClassSessions(self.sessions, (self._all, self._fresh))
        self._known = ClassSessions(self.controls, (self._all,))
        self._classes = {index: kind for kind in (self._new, self._known) for index in kind.sessions}
        for session in (*self.sessions, *self.controls):
            self._classes[session.plan.session].update(session)
        for kind in (self._new, self._known):
            kind.set_aside(index for index in alone if index in kind.sessions)

    @property
    def nats(self) -> float:
        """The evidence against the leg: the log-likelihood ratio of the test that has more."""
        return max(self._all.cusum.nats, self._fresh.cusum.nats)

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
        """Whether any fresh session of it was ever up, or it is known that it does not come up."""
        return self._new.is_proven or self._is_absent

    @property
    def is_missing(self) -> bool:
        """Whether it does not answer, or never has; one silent node is not enough."""
        return self.is_down or not self.is_proven

    @property
    def is_good(self) -> bool:
        """Proven, not condemned, and not more disturbed than by everyday loss."""
        return self.is_proven and self.good_since != 0

    @property
    def is_selective(self) -> bool:
        """Whether known flows to the same nodes were answered since the suspicion began, and others missed after."""
        return self.suspect_since != 0 and self._has_known_answer and self._is_mixed

    @property
    def is_about_new_flows(self) -> bool:
        """Whether the doubt is about new flows: known ones are answered, or none of them was missed yet."""
        return self._has_known_answer or self._fresh.cusum.nats >= self._all.cusum.nats

    @property
    def _is_lasting(self) -> bool:
        """Whether what is doubted goes on, as far as answers tell."""
        return self._is_mixed or not self._answered_at

    def isolated(self) -> tuple[Session, ...]:
        """Fresh sessions that are down alone: their node is to blame, not the leg."""
        return tuple(self._new.sessions[index] for index in sorted(self._new.alone))

    def observe(self, session: Session, outcome: Outcome, now: int) -> None:
        """Take in the outcome of one probe of one of the sessions or controls."""
        index = session.plan.session
        kind = self._classes[index]
        # Nearly all outcomes are answers where nothing is doubted: they change nothing.
        if self._is_calm and outcome is Outcome.HIT and session.is_calm and index in kind.calm:
            self._has_known_answer |= kind is self._known
            return
        kind.update(session)
        if self.is_down and outcome is Outcome.HIT:
            self._set_aside_silent(now)
        if session.is_proven and index not in kind.alone:
            if kind is self._known and outcome is Outcome.HIT and session.history[-1] >= self.suspect_since:
                self._has_known_answer = True
            if self.suspect_since:
                self._mix(session.history[-1])
            hold_off_ns = self._hold_off_ns(now)
            for test in kind.tests:
                test.cusum.hold_off_ns = hold_off_ns
                test.feed(session.plan.peer, outcome, now)
        self._judge(now)

    def told(self, now: int) -> None:
        """Another node has begun to doubt the path."""
        for test in (self._all, self._fresh):
            test.cusum.told(now)

    def forget(self, now: int) -> None:
        """Drop the evidence that a stalled process gathered."""
        for session in (*self.sessions, *self.controls):
            self._classes[session.plan.session].update(session)
        for test in (self._all, self._fresh):
            test.cusum.reset()
        self._distrust(now)
        self._worst_nats = 0.0
        self._asked_at, self._is_absent = 0, False
        self._judge(now)

    def is_overdue(self, now: int) -> bool:
        """Whether an answer over a fresh flow takes longer than usual."""
        return any(session.is_proven and session.is_overdue(now) for session in self.sessions)

    def verified_since(self, instant: int) -> bool:
        """Whether probes sent since an instant show every live session answering.

        That is: with one miss in eight at most, or, where machines that are short of CPU have cost the first answers,
        each of them STREAK times in a row by the latest.
        """
        hits = misses = 0
        are_steady = True
        for session in self.live():
            won, lost = session.since(instant)
            if won == 0:
                return False
            hits, misses = hits + won, misses + lost
            are_steady = are_steady and session.streak(instant) >= STREAK
        return hits > 0 and (are_steady or misses * 8 <= hits + misses)

    @property
    def is_reviving(self) -> bool:
        """Whether every live session has been answered since the last miss of any: soon the test will acquit.

        Established flows that miss count as well. Where they alone die each fresh probe is answered, and what has
        condemned the leg goes on. One that has missed nothing need not be asked first: they are asked less often.
        """
        controls = [each for each in self.controls if each.is_proven and each.plan.session not in self._known.alone]
        live = (*self.live(), *controls)
        missed = [~outcome for session in live for outcome in session.history if outcome < 0]
        are_answered = all(outcome >= 0 for each in controls for outcome in each.history[-1:])
        return are_answered and self.verified_since(max(missed, default=0) + 1)

    def may_carry(self, instant: int) -> bool:
        """Whether no live session has missed a probe sent since an instant, or they answer all the same.

        At rest a standby is asked seldom: what was not asked since another path is in doubt is not known to be down.
        """
        if not instant or self.verified_since(instant):
            return True
        return not any(session.since(instant)[1] for session in self.live())

    def live(self) -> Iterator[Session]:
        """The sessions of fresh flows that say something of the leg."""
        return (each for each in self.sessions if each.is_proven and each.plan.session not in self._new.alone)

    def _hold_off_ns(self, now: int) -> int:
        is_trusted = bool(self.sessions) and self.sessions[0].delay.is_trusted(now)
        if self.is_selective:
            return self._timers.calm_selective_ns if is_trusted else self._timers.selective_ns
        return self._timers.calm_silence_ns if is_trusted else self._timers.silence_ns

    def _mix(self, outcome: int) -> None:
        """Answers to probes that left since the doubt began, and misses of others that left no sooner, are of one time.

        Where all misses are older than the first answer, what was wrong is over: they were waited for, and that is all.
        """
        if outcome < 0:
            self._is_mixed |= 0 < self._answered_at <= ~outcome
        elif outcome >= self.suspect_since:
            self._answered_at = min(self._answered_at or outcome, outcome)

    def _distrust(self, now: int) -> None:
        """A stall is what trust speaks against, and the sessions of a path share one estimator."""
        if self.sessions:
            self.sessions[0].delay.distrust(now)

    def _judge(self, now: int) -> None:
        if not self.is_down:
            self._isolate()
        is_tripped = self._all.cusum.is_tripped or self._fresh.cusum.is_tripped
        self._is_absent = not self._new.is_proven and (self._is_absent or self._has_not_come_up(now))
        if self.is_down:
            if not (is_tripped or self._is_absent):
                self.down_since = self.suspect_since = 0
                self._distrust(now)
        elif self._is_absent or (self._is_lasting and (self._all.is_conclusive or self._fresh.is_conclusive)):
            self.down_since = now
        if not self.is_down:
            self._doubt(now, is_doubtful=is_tripped or self._all.cusum.is_suspect or self._fresh.cusum.is_suspect)
        is_calm = self._new.has_live and not self.is_down and self.nats < DISTURBED_NATS
        self.good_since = (self.good_since or now) if is_calm else 0
        self._is_calm = (
            is_calm and self.nats == 0.0 and not (self.suspect_since or self._new.has_down or self._known.has_down)
        )

    def _has_not_come_up(self, now: int) -> bool:
        """Whether nothing but stray answers has come for long, from nodes that answer over another path."""
        self._asked_at = self._asked_at or now
        return (
            now - self._asked_at >= ABSENT_NS
            and now - self.condemned_at <= WORD_NS
            and all(_is_unheard(session) for session in self.sessions)
            and any(session.is_good for session in self.elsewhere)
        )

    def _isolate(self) -> None:
        for kind in (self._new, self._known):
            if kind.isolate():
                self._all.restart()
                self._fresh.restart()

    def _set_aside_silent(self, now: int) -> None:
        """Behind a condemned leg somebody answers: who does not, in any flow, has a fault of its own besides.

        So has one that answers in no flow of a class in which a neighbour is well.
        """
        heard: dict[str, int] = {}
        for session in (*self.sessions, *self.controls):
            heard[session.plan.peer] = max(heard.get(session.plan.peer, 0), session.last_heard)
        silent = [peer for peer, at in heard.items() if now - at >= SILENT_NS]
        for kind in (self._new, self._known):
            if silent:
                kind.exclude_down(silent)
            kind.exclude_unanswered()

    def _doubt(self, now: int, *, is_doubtful: bool) -> None:
        if is_doubtful:
            if not self.suspect_since:
                self.suspect_since, self._has_known_answer, self._worst_nats = now, False, 0.0
                self._answered_at, self._is_mixed = 0, False
            self._worst_nats = max(self._worst_nats, self.nats)
            return
        if self.suspect_since and self._worst_nats >= STALLED_NATS:
            self._distrust(now)
        self.suspect_since = 0


def _is_unheard(session: Session) -> bool:
    answered = session.sent - session.lost - session.waiting
    return session.lost >= max(UNHEARD, STRAY_PART * answered)
