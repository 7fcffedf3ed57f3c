"""The size of one path, measured by probes that the peer answers: RFC 8899 with proofs instead of ICMP.

    BASE        a small probe is asked for until one is answered
    SEARCHING   the full size does not pass: the limit is being searched
    COMPLETE    the limit is known; in rest one probe of that size a round, and one of the full size where they differ
    ERROR       small probes die as well: the path is down, and nobody speaks of sizes; asked for like BASE

RFC 8899 waits 10 minutes before it tries a larger size again. Here every third round does, so that a fault is seen to
be over when it is; the full size costs no more than any other.
"""

from __future__ import annotations

from meshwatchd.core.pmtu.probe_round import GAP_NS, GRACE_NS, Trial
from meshwatchd.core.pmtu.search import Outcome, SizeSearch
from meshwatchd.model.mtu import SMALL_BYTES, SendSizeProbe, SizeAnswered, SizePlan, SizeState
from meshwatchd.model.settings import MS, SECOND

CONFIRM_PAIRS = 10
"""Of the trial that accuses: see `mtu_trial`."""

SEARCH_PAIRS = 6
"""Of each step of a search: at a loss of 2 % each way one step in 200 million goes wrong, and is asked again."""

LEAST_WAIT_NS, MOST_WAIT_NS, FIRST_WAIT_NS = 60 * MS, SECOND, 300 * MS
"""For an answer: three round trips within these bounds, and something before the first is known."""

RETRY_NS = 200 * MS
"""Before a trial is repeated whose small probes were lost: once for the one that accuses, more often for a search."""

MAX_RETRIES = 5

EMSGSIZE = 90
"""asm-generic/errno.h."""

OTHER_WAY_ROUNDS = 2
"""After so many intervals the peer would have shown here that its full size arrives."""

LOOKS_IN_VAIN = 2
"""At a size that was proven not to pass: so many more say that it does not pass still."""


class SizeSession:
    """One path through one layer to one peer.

    Attributes:
        expected_bytes: what the devices promise to carry in one piece; 0 while nothing tells.
        goal_bytes: what may be sent: more than that where a device's MTU is too large.
        both_bytes, outbound_bytes: measured limits, see `SizeSearch`; 0 before.
        is_blocked: the full size was proven not to pass; stays through the search.
        failed_at: when it was.
        missed_at: when the full size was last asked for and found not to pass.
        healed_at: when it passed after it had not; -1 for never.
        passed_at: when it was last asked for and passed; -1 for never.
        learned_mtu_bytes: what the kernel believes of the route, 0 for nothing.
        due: when `advance` has something to do.
        rest_ns: between two looks while the full size passes; `interval_ns` is for everything else.
    """

    def __init__(self, plan: SizePlan, *, interval_ns: int, now: int, is_searching: bool = True) -> None:
        self.plan = plan
        self.interval_ns = self.rest_ns = interval_ns
        self.state = SizeState.BASE
        self.expected_bytes = self.goal_bytes = 0
        self.both_bytes = self.outbound_bytes = 0
        self.is_blocked = False
        self.failed_at = self.missed_at = 0
        self.healed_at = -1
        self.passed_at = -1
        self._looks_in_vain = 0
        self._asked_at = now
        self.learned_mtu_bytes = 0
        self.due = now
        self.rtt_ns = 0
        self.trial: Trial | None = None
        self.is_changed = False
        self.last_outcome: Outcome | None = None
        self._is_searching = is_searching
        self._search: SizeSearch | None = None
        self._refused_bytes = 0
        self._retries = 0
        self._round = 0
        self._seq = 0
        self._rest_at = now
        self._sent_at: dict[int, int] = {}
        self._heard_at = self._heard_full_at = -1

    # -- what is known -----------------------------------------------------------------------------------------

    @property
    def is_measured(self) -> bool:
        """Whether a limit is known."""
        return self.state is SizeState.COMPLETE

    @property
    def is_well(self) -> bool:
        """Whether the full size passes, and the kernel believes so."""
        is_passing = self.is_measured and not self.is_blocked and self.both_bytes >= self.goal_bytes
        return is_passing and not self.has_learned_less

    @property
    def has_learned_less(self) -> bool:
        """Whether the kernel believes that less than the full size passes."""
        return 0 < self.learned_mtu_bytes < self.goal_bytes

    @property
    def _is_unheard(self) -> bool:
        """Whether not even small probes are known to pass."""
        return self.state in (SizeState.BASE, SizeState.ERROR)

    @property
    def _is_resting(self) -> bool:
        return self.is_well and self.trial is None and self._search is None

    @property
    def is_busy(self) -> bool:
        """Whether more than a look is under way."""
        return self.trial is not None and self.trial.pairs > 0 and self.trial.is_begun

    @property
    def is_searching(self) -> bool:
        """Whether the limit is being searched."""
        return self._search is not None

    @property
    def wants_turn(self) -> bool:
        """Whether what is due next is more than a look: only so many may be at that at one time."""
        if self.trial is not None:
            return self.trial.pairs > 0 and not self.trial.is_begun
        return self._search is not None

    @property
    def wants_to_send(self) -> bool:
        """Whether what is due next is a probe, and not the end of a wait."""
        return self.trial is None or not self.trial.is_sent

    def is_inbound_limited(self, now: int) -> bool | None:
        """Whether the full size does not arrive from the peer; None while nothing tells.

        The peer measures the same path the other way: its full size arrives here, or only what is smaller does.
        """
        if self.outbound_bytes > self.both_bytes:
            return True
        if self._heard_full_at > self.failed_at:
            return False
        is_due = now - self.failed_at > OTHER_WAY_ROUNDS * self.interval_ns
        return True if is_due and self._heard_at > self.failed_at else None

    def has_looked_since(self, at: int) -> bool:
        """Whether the full size was asked for since then, and the answer is known."""
        return self.is_searching or (self.trial is None and self._asked_at >= at)

    # -- what happens ------------------------------------------------------------------------------------------

    def aim(self, *, expected_bytes: int, goal_bytes: int, now: int) -> None:
        """Expect another size from here on."""
        if (expected_bytes, goal_bytes) == (self.expected_bytes, self.goal_bytes):
            return
        self.expected_bytes, self.goal_bytes, self._refused_bytes = expected_bytes, goal_bytes, 0
        if self.state is not SizeState.BASE:
            self._abandon()
            self.is_blocked, self.state = False, SizeState.COMPLETE
            self.both_bytes = self.outbound_bytes = min(self.both_bytes, goal_bytes)
            self.hasten(now)

    def rest(self, rest_ns: int, now: int) -> None:
        """Look so often from here on while the full size passes."""
        if rest_ns == self.rest_ns:
            return
        self.rest_ns = rest_ns
        if self._is_resting:
            self._rest_at = self.due = min(self.due, now + rest_ns)

    def spare(self, now: int) -> None:
        """The peer has shown that the full size passes, one way: the next look may be as late after that."""
        if self._is_resting:
            self._rest_at = self.due = max(self.due, now + self.rest_ns // 2)

    def hasten(self, now: int) -> None:
        """Look at once: something on the way has changed."""
        if self.trial is None and self._search is None:
            self._round, self.due = 0, min(self.due, now)

    def postpone(self, now: int) -> None:
        """Not yet: others are at it."""
        self.due = now + 5 * GAP_NS

    def wait_longer(self, late_ns: int) -> None:
        """Whoever slept for that long has read nothing meanwhile; large and small probes wait alike."""
        if self.trial is not None and self.trial.is_sent:
            self.due += late_ns

    def void(self, now: int) -> None:
        """Answers may be lost: what is under way proves nothing and is begun anew."""
        if self.trial is not None:
            self._abandon_trial()
            self.due = now + GAP_NS

    def advance(self, now: int) -> SendSizeProbe | None:
        """Send the probe that is due, or conclude what has waited long enough."""
        if self.trial is not None and self.trial.is_sent:
            self._conclude(self.trial, now)
            return None
        if self.trial is None:
            self.trial = self._begin(now)
        if not self.trial.is_begun:
            self._asked_at = now
        size = self.trial.next(self._seq)
        probe = SendSizeProbe(session=self.plan.session, seq=self._seq, size_bytes=size)
        self._sent_at[self._seq] = now
        self._seq += 1
        self.due = now + (self._wait_ns() if self.trial.is_sent else GAP_NS)
        return probe

    def answered(self, event: SizeAnswered, now: int) -> None:
        """An answer to a probe of this session."""
        if self._sent_at.pop(event.seq, None) is None:
            return
        rtt_ns = event.rtt_ns
        self.rtt_ns = rtt_ns if not self.rtt_ns else max(rtt_ns, self.rtt_ns - (self.rtt_ns - rtt_ns) // 8)
        self.learned_mtu_bytes = event.learned_mtu_bytes
        if not self.is_well:
            self._rest_at = min(self._rest_at, now + self.interval_ns)
        trial = self.trial
        if trial is None or not trial.answered(event.seq, event.count):
            return
        if trial.is_decided:
            self._conclude(trial, now)
        elif trial.is_overtaken:
            self.due = min(self.due, now + GRACE_NS + self.rtt_ns // 2)

    def unsent(self, seq: int, errno: int, now: int) -> None:
        """The kernel did not take a probe."""
        self._sent_at.pop(seq, None)
        if self.trial is not None and errno == EMSGSIZE:
            size = self.trial.size_bytes
            self._refused_bytes = min(self._refused_bytes or size, size)
            self.trial.refused()
            self._conclude(self.trial, now)

    def heard(self, size_bytes: int, now: int) -> None:
        """A size probe of the peer has arrived here over this path."""
        self._heard_at = now
        if size_bytes >= self.goal_bytes:
            self._heard_full_at = now

    def try_now(self, size_bytes: int, pairs: int, now: int) -> None:
        """Try one size out of turn; `last_outcome` tells what came of it."""
        self._abandon()
        self.last_outcome = None
        self.trial, self.due = Trial(size_bytes, pairs), now

    # -- how it goes on ----------------------------------------------------------------------------------------

    def _begin(self, now: int) -> Trial:
        if self._search is not None:
            size = self._search.next()
            assert size is not None, "a search that has ended is put away"
            return Trial(size, SEARCH_PAIRS)
        interval_ns = self.rest_ns if self.is_well else self.interval_ns
        # On its grid; but who has been hastened again and again has not looked ahead for that long.
        self._rest_at = min(max(self._rest_at + interval_ns, now), now + interval_ns)
        # What is dead is dead for small packets too, and large ones would only burden what is left.
        return Trial(SMALL_BYTES if self._is_unheard else self._rest_bytes(), 0)

    def _rest_bytes(self) -> int:
        """The full size; where it does not pass also the size that does, and one byte more."""
        limits = self.goal_bytes, self.both_bytes, self.both_bytes + 1
        size = limits[self._round % 3] if self.both_bytes and self.is_blocked else self.goal_bytes
        self._round += 1
        return max(SMALL_BYTES, size)

    def _conclude(self, trial: Trial, now: int) -> None:
        outcome = trial.outcome()
        self.last_outcome = outcome
        self._abandon_trial()
        self.due = self._rest_at = max(self._rest_at, now)
        if self._search is not None:
            self._step(self._search, trial.size_bytes, outcome, now)
        elif outcome is Outcome.ECHOED:
            self._passed(trial.size_bytes, now)
        elif trial.size_bytes == SMALL_BYTES and self._is_unheard:
            return
        elif self.is_blocked and trial.size_bytes > self.both_bytes:
            self._missed_again(trial)
        elif outcome is not None:
            self._failed(trial.size_bytes, outcome, now)
        elif not trial.pairs:
            self.trial, self.due, self._retries = Trial(trial.size_bytes, CONFIRM_PAIRS), now, 0
        elif not self._retries:
            # Was it the path, or a moment in which the peer did not run? The next look would ask an interval later.
            self.trial, self.due, self._retries = Trial(trial.size_bytes, CONFIRM_PAIRS), now + RETRY_NS, 1
        else:
            self.state = SizeState.ERROR

    def _missed_again(self, trial: Trial) -> None:
        """A look at the full size was in vain, which one alone may be by chance."""
        if self.is_blocked and trial.size_bytes >= self.goal_bytes:
            self._looks_in_vain += 1
            if self._looks_in_vain >= LOOKS_IN_VAIN:
                self.missed_at, self._looks_in_vain = self._asked_at, 0

    def _passed(self, size_bytes: int, now: int) -> None:
        if self._is_unheard and size_bytes == SMALL_BYTES:
            if self.goal_bytes and self.state is SizeState.BASE:
                self.both_bytes = self.outbound_bytes = SMALL_BYTES
            if self.goal_bytes:
                self.state, self.due = SizeState.COMPLETE, now
            return
        self.state = SizeState.COMPLETE
        if size_bytes >= self.goal_bytes:
            self.is_changed = self.is_changed or self.is_blocked
            self.healed_at = now if self.is_blocked else self.healed_at
            self.both_bytes = self.outbound_bytes = self.goal_bytes
            self.is_blocked, self.passed_at = False, self._asked_at
        elif size_bytes > self.both_bytes and self._is_searching:
            self._look_for(size_bytes, is_arriving=self.outbound_bytes >= self.goal_bytes, now=now)

    def _failed(self, size_bytes: int, outcome: Outcome, now: int) -> None:
        """The size was proven not to pass while small probes do."""
        is_refused = 0 < self._refused_bytes <= size_bytes
        if not is_refused and not self.is_blocked:
            self.is_blocked, self.failed_at, self.missed_at = True, now, self._asked_at
            self._looks_in_vain = 0
        is_goal = size_bytes >= self.goal_bytes
        if self._is_searching:
            self._look_for(SMALL_BYTES, is_arriving=is_goal and outcome is Outcome.ARRIVED, now=now)
        else:
            self.state = SizeState.COMPLETE
            self.both_bytes = SMALL_BYTES
            self.outbound_bytes = size_bytes if outcome is Outcome.ARRIVED else SMALL_BYTES

    def _look_for(self, passing_bytes: int, *, is_arriving: bool, now: int) -> None:
        self._search = SizeSearch(passing_bytes=passing_bytes, failing_bytes=self.goal_bytes, is_arriving=is_arriving)
        self.state, self._retries, self.due = SizeState.SEARCHING, 0, now
        if self._search.next() is None or self.goal_bytes <= passing_bytes:
            self._search_ended(self._search, now)

    def _step(self, search: SizeSearch, size_bytes: int, outcome: Outcome | None, now: int) -> None:
        self.due = now
        if outcome is None:
            self._retries += 1
            self.due = now + RETRY_NS
            if self._retries > MAX_RETRIES:
                self._search, self.state = None, SizeState.ERROR
            return
        search.note(size_bytes, outcome)
        if search.next() is None:
            self._search_ended(search, now)

    def _search_ended(self, search: SizeSearch, now: int) -> None:
        self._search, self.state = None, SizeState.COMPLETE
        before = self.both_bytes, self.outbound_bytes
        self.both_bytes, self.outbound_bytes = search.both_bytes, search.outbound_bytes
        if self.is_blocked and self.both_bytes >= self.goal_bytes:
            self.is_blocked, self.healed_at = False, now
        if self._refused_bytes and self.both_bytes + 1 >= self._refused_bytes:
            # The own device takes no more, and says so to everybody: that is no black hole.
            self.expected_bytes = self.goal_bytes = self.both_bytes
            self.outbound_bytes, self.is_blocked = self.both_bytes, False
        self.is_changed = self.is_changed or before != (self.both_bytes, self.outbound_bytes)
        self._round = 0
        self.due = self._rest_at = now + self.interval_ns

    def _wait_ns(self) -> int:
        if not self.rtt_ns:
            return FIRST_WAIT_NS
        return min(MOST_WAIT_NS, max(LEAST_WAIT_NS, 3 * self.rtt_ns))

    def _abandon_trial(self) -> None:
        self.trial = None
        self._sent_at.clear()

    def _abandon(self) -> None:
        self._abandon_trial()
        self._search = None
