"""One session: the probes of one flow class to one peer over one layer or path.

States follow BFD (RFC 5880 section 6.2) with a step between Up and Down borrowed from SWIM: a miss makes a session
suspect, and only the sequential test takes it down.

    INIT --3 answers--> UP --miss--> SUSPECT --test trips--> DOWN --test recovers--> UP
                         ^______________|  answers outweigh
"""

from __future__ import annotations

from array import array
from enum import StrEnum
from types import MappingProxyType

from meshwatchd.core.session.cusum import Cusum
from meshwatchd.core.session.rtt_estimator import DelayEstimator
from meshwatchd.core.session.source_ports import SourcePorts
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.service_check import ServiceSeen

UP_AFTER_HITS = 3
"""Answers in a row that make a new session Up: one could be luck, more delay the start.

They also end any doubt about a closed port, which is asked once a second: the test has it that a quarter of all flows
may be lost, and would take a minute and more.
"""

MAX_LATE_NS = 1_000_000_000
"""An answer later than this no longer heals its miss; the prober has closed its socket by then."""

HISTORY = 32


class SessionState(StrEnum):
    """What is known of a session."""

    INIT = "init"
    UP = "up"
    SUSPECT = "suspect"
    DOWN = "down"


class Input(StrEnum):
    """What moves a session."""

    PROVEN = "proven"
    DOUBTED = "doubted"
    ACQUITTED = "acquitted"
    CONDEMNED = "condemned"
    RECOVERED = "recovered"


TRANSITIONS = MappingProxyType(
    {
        SessionState.INIT: {Input.PROVEN: SessionState.UP},
        SessionState.UP: {Input.DOUBTED: SessionState.SUSPECT, Input.CONDEMNED: SessionState.DOWN},
        SessionState.SUSPECT: {Input.ACQUITTED: SessionState.UP, Input.CONDEMNED: SessionState.DOWN},
        SessionState.DOWN: {Input.RECOVERED: SessionState.UP},
    }
)


class Outcome(StrEnum):
    """What an answer or a timeout meant."""

    HIT = "hit"
    MISS = "miss"
    LATE = "late"
    UNKNOWN = "unknown"


class Session:
    """Mutable state of one session; `answered` and `expired` are its two inputs.

    Attributes:
        outstanding: when each probe left that is neither answered nor missed, by its number.
        history: when recent probes with an outcome were sent; bits inverted, and so negative, for those that were
            missed. One number each and no object: thousands of sessions keep it.
        seen: what a canary that asks for a service found last.
    """

    __slots__ = (
        "_missed",
        "_proof",
        "cusum",
        "delay",
        "history",
        "last_heard",
        "lost",
        "outstanding",
        "plan",
        "ports",
        "seen",
        "sent",
        "seq",
        "state",
        "tries",
    )

    def __init__(self, plan: SessionPlan, ports: SourcePorts, delay: DelayEstimator, hold_off_ns: int = 0) -> None:
        self.plan = plan
        self.ports = ports
        self.state = SessionState.INIT
        self.cusum = Cusum(hold_off_ns)
        self.history = array("q")
        self.seq = 0
        self.sent = 0
        self.lost = 0
        self.last_heard = 0
        self.tries = 0
        self.seen: ServiceSeen | None = None
        self._proof = 0
        self.delay = delay
        # Both in the order of sending, as dictionaries keep it; half of the memory of ordered ones.
        self.outstanding: dict[int, int] = {}
        # None before the first: most sessions never miss any.
        self._missed: dict[int, int] | None = None

    @property
    def is_proven(self) -> bool:
        """Whether the session was ever Up: one that never was proves nothing by being silent."""
        return self.state is not SessionState.INIT

    @property
    def is_good(self) -> bool:
        """Up, with nothing speaking against it."""
        return self.state is SessionState.UP

    @property
    def is_calm(self) -> bool:
        """Up, without a trace of evidence against it: one more answer changes nothing anybody has to know."""
        return self.state is SessionState.UP and self.cusum.nats == 0.0

    @property
    def rtt_ns(self) -> int:
        """Smoothed round-trip time of the session's leg."""
        return self.delay.srtt_ns

    @property
    def waiting(self) -> int:
        """How many probes are neither answered nor missed."""
        return len(self.outstanding)

    def is_overdue(self, now: int) -> bool:
        """Whether an answer takes longer than usual: less than a miss, and known sooner."""
        return bool(self.outstanding) and now - next(iter(self.outstanding.values())) > self.delay.usual_ns

    def begin(self, now: int) -> int:
        """Note that a probe leaves now; returns its sequence number."""
        self.seq += 1
        self.sent += 1
        self.outstanding[self.seq] = now
        return self.seq

    def cancel(self, seq: int) -> None:
        """The probe never left."""
        if self.outstanding.pop(seq, None) is not None:
            self.sent -= 1

    def unseen(self, seq: int, now: int) -> None:
        """Nobody asked, or nobody saw what came back: neither hit nor miss, also where it has counted as one."""
        self.cancel(seq)
        if self._missed and (missed_at := self._missed.pop(seq, None)) is not None:
            self.sent -= 1
            self.lost -= 1
            if ~missed_at in self.history:
                self.history.remove(~missed_at)
            self.cusum.heal(now)
            self._judge()

    def void(self) -> None:
        """What is on the way will be neither hit nor miss: this node itself may have lost the answer."""
        self.outstanding.clear()

    def forget_outstanding(self) -> None:
        """What is on the way proves nothing any more."""
        self.outstanding.clear()
        self.cusum.reset()
        self._judge()

    def answered(self, seq: int, rtt_ns: int, now: int) -> Outcome:
        """An authenticated answer to probe `seq` arrived."""
        sent_at = self.outstanding.pop(seq, None)
        if sent_at is not None:
            outcome = Outcome.HIT
            if self.cusum.nats:
                self.cusum.hit(now)
        elif self._missed and (missed_at := self._missed.pop(seq, None)) is not None:
            sent_at, outcome = missed_at, Outcome.LATE
            self.lost -= 1
            if ~sent_at in self.history:
                self.history.remove(~sent_at)
            self.cusum.heal(now)
        else:
            return Outcome.UNKNOWN
        self._remember(sent_at)
        self.last_heard = now
        self.delay.sample(rtt_ns, now)
        self._proof += 1
        if self._proof == UP_AFTER_HITS and self.plan.is_of_closed_port:
            self.cusum.acquit()
        if self.state is not SessionState.UP or self.cusum.nats:
            self._judge()
        return outcome

    def expired(self, seq: int, now: int) -> Outcome:
        """The wait for probe `seq` is over."""
        sent_at = self.outstanding.pop(seq, None)
        if sent_at is None:
            return Outcome.UNKNOWN
        missed = self._missed
        if missed is None:
            missed = self._missed = {}
        missed[seq] = sent_at
        while missed and now - missed[oldest := next(iter(missed))] > MAX_LATE_NS:
            del missed[oldest]
        self._remember(~sent_at)
        self.lost += 1
        self._proof = 0
        if self.is_proven:
            self.cusum.miss(now)
        self._judge()
        return Outcome.MISS

    @property
    def first_loss(self) -> int:
        """When the first of the latest probes in a row left that were missed; 0 where the latest one was answered."""
        first = 0
        for outcome in reversed(self.history):
            if outcome >= 0:
                break
            first = ~outcome
        return first

    def since(self, instant: int) -> tuple[int, int]:
        """Hits and misses among the probes sent at or after an instant."""
        hits = misses = 0
        for outcome in self.history:
            if outcome < 0:
                misses += ~outcome >= instant
            else:
                hits += outcome >= instant
        return hits, misses

    def streak(self, instant: int) -> int:
        """Answers in a row, up to the latest outcome, among the probes sent at or after an instant."""
        count = 0
        for outcome in reversed(self.history):
            if outcome < instant:
                break
            count += 1
        return count

    def _remember(self, outcome: int) -> None:
        self.history.append(outcome)
        if len(self.history) > HISTORY:
            del self.history[0]

    def _judge(self) -> None:
        if self.state is SessionState.INIT:
            if self._proof >= UP_AFTER_HITS:
                self.cusum = Cusum(self.cusum.hold_off_ns)
                self._move(Input.PROVEN)
        elif self.cusum.is_tripped:
            if self.state is not SessionState.DOWN:
                self._move(Input.CONDEMNED)
        elif self.state is SessionState.DOWN:
            self._move(Input.RECOVERED)
        elif self.cusum.is_suspect and self.state is SessionState.UP:
            self._move(Input.DOUBTED)
        elif not self.cusum.is_suspect and self.state is SessionState.SUSPECT:
            self._move(Input.ACQUITTED)

    def _move(self, cause: Input) -> None:
        self.state = TRANSITIONS[self.state][cause]
