"""One path measured: RFC 8899's states, to the byte, soon, and not shaken by loss."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.core.pmtu.session import EMSGSIZE, SizeSession
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.mtu import SMALL_BYTES, SizeAnswered, SizePlan, SizeState
from meshwatchd.model.settings import MS, SECOND

PLAN = SizePlan(
    session=0,
    peer=NodeName("b1"),
    layer=Layer.OVERLAY,
    path=0xFFFF,
    source="10.244.6.0",
    destination="10.244.4.0",
    port=18618,
    source_port=18698,
)
RTT_NS = 2 * MS


class Line:
    """A session and the path it measures, under a virtual clock.

    Attributes:
        there, back: the longest packet of each direction.
        loss: of each direction.
        device: the longest packet the own device takes.
        learned: what the kernel believes of the route.
        sent: sizes of all probes.
    """

    def __init__(self, *, goal=1450, there=9000, back=9000, loss=0.0, rtt_ns=RTT_NS, seed=1):
        self.there, self.back, self.loss, self.rtt_ns, self.device = there, back, loss, rtt_ns, 65_535
        self.learned = 0
        self.now = 10 * SECOND
        self.session = SizeSession(PLAN, interval_ns=SECOND, now=self.now)
        self.session.aim(expected_bytes=goal, goal_bytes=goal, now=self.now)
        self.sent: list[int] = []
        self._rng = random.Random(seed)
        self._count = 0
        self._replies: list[tuple[int, SizeAnswered]] = []

    def run(self, duration_ns, until=lambda: False):
        """Let time pass, or something happen; returns how long it took."""
        began = self.now
        while not until():
            at = min([self.session.due, *(due for due, _ in self._replies)])
            if at > began + duration_ns:
                self.now = began + duration_ns
                break
            self.now = max(self.now, at)
            for each in [each for each in self._replies if each[0] <= self.now]:
                self._replies.remove(each)
                self.session.answered(each[1], self.now)
            if self.session.due <= self.now:
                self._send(self.session.advance(self.now))
        return self.now - began

    def _send(self, probe):
        if probe is None:
            return
        if probe.size_bytes > self.device:
            self.session.unsent(probe.seq, EMSGSIZE, self.now)
            return
        self.sent.append(probe.size_bytes)
        if probe.size_bytes > self.there or self._rng.random() < self.loss:
            return
        count, self._count = self._count, self._count + 1
        if probe.size_bytes <= self.back and self._rng.random() >= self.loss:
            event = SizeAnswered(
                session=0, seq=probe.seq, rtt_ns=self.rtt_ns, count=count, learned_mtu_bytes=self.learned
            )
            self._replies.append((self.now + self.rtt_ns, event))

    def measured(self):
        """Both limits, once the search has ended."""
        return self.session.both_bytes, self.session.outbound_bytes

    def settle(self, limit_ns=30 * SECOND):
        """Until a black hole is proven and the search is over."""
        return self.run(limit_ns, lambda: self.session.is_blocked and self.session.is_measured)


def _watched(**kwargs):
    line = Line(**kwargs)
    line.run(3 * SECOND)
    assert SizeState.COMPLETE is line.session.state
    assert (line.session.goal_bytes,) * 2 == line.measured()
    return line


def test_a_path_that_carries_all_costs_one_probe_a_second():
    """The base is proven once, the full size once a round."""
    line = _watched()
    line.sent.clear()
    line.run(10 * SECOND)

    assert {1450} == set(line.sent)
    assert 9 <= len(line.sent) <= 11


@settings(max_examples=60, deadline=None)
@given(
    there=st.integers(SMALL_BYTES, 1449),
    back=st.integers(SMALL_BYTES, 1449),
    seed=st.integers(0, 2**16),
    loss=st.sampled_from([0.0, 0.02]),
)
def test_a_black_hole_is_proven_within_two_seconds_and_exact_within_ten(there, back, seed, loss):
    """Whatever the limits, and under 2 % loss each way; the number of packets is bounded."""
    line = _watched(seed=seed)
    line.there, line.back, line.loss = there, back, loss
    line.sent.clear()

    assert line.run(2 * SECOND, lambda: line.session.is_blocked) < 2 * SECOND
    line.settle()

    assert line.now <= 13 * SECOND + 10 * SECOND
    assert (min(there, back), there) == line.measured()
    assert len(line.sent) < 600


def test_loss_alone_blocks_nothing():
    """Five percent each way for an hour: looks are missed, trials are won."""
    line = _watched(seed=5)
    line.loss = 0.05
    for _ in range(3600):
        line.run(SECOND)
        assert not line.session.is_blocked


def test_a_path_that_dies_is_no_black_hole():
    """Small probes die as well: ERROR, and the measured size stands."""
    line = _watched()
    line.loss = 1.0
    line.run(10 * SECOND)

    assert SizeState.ERROR is line.session.state
    assert not line.session.is_blocked
    line.loss = 0.0
    line.run(3 * SECOND)
    assert line.session.is_measured


def test_a_dead_path_is_asked_by_small_probes_until_one_is_answered():
    """Large ones would fill what is left of the way: 21 a second for each session, and as many answers."""
    line = _watched()
    line.loss = 1.0
    line.run(10 * SECOND, lambda: line.session.state is SizeState.ERROR)
    line.sent.clear()
    line.run(60 * SECOND)

    assert {SMALL_BYTES} == set(line.sent)
    assert len(line.sent) <= 61
    line.loss, line.there = 0.0, 1400
    assert line.run(5 * SECOND, lambda: line.session.is_blocked) < 2 * SECOND
    line.settle()
    assert (1400, 1400) == line.measured()


def test_a_black_hole_on_a_path_that_was_dead_meanwhile_is_still_one():
    """What was proven stands, and the full size is asked for as soon as anything passes."""
    line = _watched()
    line.there = 1400
    line.settle()
    line.loss = 1.0
    line.run(30 * SECOND)
    assert line.session.is_blocked
    line.loss, line.there = 0.0, 9000

    assert line.run(10 * SECOND, lambda: not line.session.is_blocked) < 5 * SECOND


def test_recovery_is_seen_within_three_rounds():
    """The full size is asked for still."""
    line = _watched()
    line.there = 1400
    line.settle()
    assert (1400, 1400) == line.measured()

    line.there = 9000

    assert line.run(10 * SECOND, lambda: not line.session.is_blocked) <= 3.5 * SECOND
    assert (1450, 1450) == line.measured()


@pytest.mark.parametrize("limit", [1300, 1401, 1430])
def test_a_limit_that_moves_is_measured_again(limit):
    """A smaller one by the look at what passed, a larger one by the look at one byte more."""
    line = _watched()
    line.there = 1400
    line.settle()
    line.there = limit
    line.run(8 * SECOND)

    assert (limit, limit) == line.measured()
    assert line.session.is_blocked


@pytest.mark.parametrize("steps", [(9000,), (1440, 9000)])
def test_it_is_known_when_the_full_size_was_missed_last_and_when_it_passed_again(steps):
    """At once or by way of another limit: who lost it for the same reason is to be asked again first."""
    line = Line(there=1300)
    line.run(30 * SECOND, lambda: line.session.is_blocked and line.session.is_measured)
    assert -1 == line.session.healed_at
    began = line.now
    line.run(10 * SECOND)
    assert line.session.missed_at > began > line.session.failed_at

    for line.there in steps:
        line.run(20 * SECOND)
    assert not line.session.is_blocked
    assert line.session.missed_at < line.session.healed_at <= line.now


@pytest.mark.parametrize("device", [1400, 1450])
@pytest.mark.parametrize("seconds", [0, 1, 2])
def test_a_device_that_takes_no_more_than_the_full_size_hides_no_recovery(seconds, device):
    """Whichever of the three sizes is looked at first when all pass again; more than the device takes is not asked."""
    line = Line()
    line.device = device
    line.run(5 * SECOND)
    line.sent.clear()
    line.there = 1300
    line.settle()
    line.run(seconds * SECOND)

    line.there = 9000
    line.run(4 * SECOND)
    assert not line.session.is_blocked
    assert line.session.failed_at < line.session.healed_at
    assert device == max(line.sent)


def test_what_was_under_way_when_another_size_passed_again_was_missed_before():
    """The instant that counts is when it was asked, not when all answers to it were waited for."""
    line = _watched()
    line.there = 1400
    line.run(2 * SECOND, lambda: line.session.is_busy)
    asked = line.now
    line.run(SECOND, lambda: line.session.is_blocked)

    assert asked == line.session.missed_at < line.session.failed_at == line.now


def test_the_own_device_is_no_black_hole():
    """Whoever sends more is told so by the kernel: what is expected is what the device takes."""
    line = Line(goal=1450)
    line.device = 1400
    line.run(5 * SECOND)

    assert 1400 == line.session.expected_bytes == line.session.both_bytes
    assert not line.session.is_blocked


def test_the_peers_probes_tell_the_way_back():
    """Outbound is cut; the peer's full size still arrives here, or only what is smaller."""
    line = _watched()
    line.there = 1400
    line.settle()
    line.session.heard(1450, line.now)
    assert line.session.is_inbound_limited(line.now) is False

    line = _watched()
    line.there = 1400
    line.settle()
    line.run(3 * SECOND)
    assert line.session.is_inbound_limited(line.now) is None
    line.session.heard(1400, line.now)
    assert line.session.is_inbound_limited(line.now) is True


def test_a_sleeper_accuses_nobody():
    """After a long stall what was under way is begun again."""
    line = _watched()
    line.run(SECOND, lambda: line.session.trial is not None)
    line.session.void(line.now)

    assert line.session.trial is None
    assert line.session.due > line.now


def test_a_short_sleep_is_waited_out():
    """What was answered meanwhile waits in the socket: the look that it belongs to is no miss."""
    line = _watched()
    line.run(2 * SECOND, lambda: line.session.trial is not None)
    seq = len(line.sent) - 1
    line.now = line.session.due + 10 * MS
    line.session.wait_longer(70 * MS)
    assert line.session.due > line.now
    line.session.answered(SizeAnswered(session=0, seq=seq, rtt_ns=RTT_NS, count=99), line.now)

    assert line.session.trial is None
    assert line.session.due > line.now + SECOND // 2


def test_a_trial_that_fell_into_a_moment_of_silence_is_repeated_soon():
    """The peer does not run for 150 ms: the look that missed is followed up then, and not an interval later."""
    line = _watched()
    line.there = 1400
    line.run(2 * SECOND, lambda: line.session.is_busy)
    began, line.there = line.now, 0
    line.run(150 * MS)
    assert not line.session.is_blocked
    line.there = 1400

    assert line.run(2 * SECOND, lambda: line.session.is_blocked) < 500 * MS, line.now - began
    assert SizeState.ERROR is not line.session.state


def test_who_sleeps_again_and_again_proves_a_black_hole_all_the_same():
    """For 80 ms in every 100: a trial goes on where it was, and is not begun anew each time."""
    line = _watched()
    line.there = 1400
    began = line.now
    while not line.session.is_blocked and line.now < began + 3 * SECOND:
        line.run(20 * MS, lambda: line.session.is_blocked)
        line.now += 80 * MS
        line.session.wait_longer(80 * MS)

    assert line.session.is_blocked
    assert line.now < began + 3 * SECOND


def test_a_long_line_is_given_its_time():
    """300 ms of round trip: three of them are waited for, and the byte is found all the same."""
    line = _watched(rtt_ns=300 * MS)
    line.there = 1337
    line.settle()

    assert (1337, 1337) == line.measured()


def test_another_device_mtu_is_measured_anew():
    """The device takes more: the new size is looked for at once."""
    line = _watched(goal=1400)
    line.session.aim(expected_bytes=1450, goal_bytes=1450, now=line.now)
    line.run(SECOND)

    assert (1450, 1450) == line.measured()


def test_who_was_hastened_again_and_again_rests_no_longer_for_it():
    """Each look is one interval ahead of the next, and not as many as there were looks."""
    line = _watched()
    line.session.rest(30 * SECOND, line.now)
    for _ in range(10):
        line.session.hasten(line.now)
        line.run(SECOND)

    assert line.session.is_well
    assert line.session.due <= line.now + 30 * SECOND


def test_what_the_kernel_has_been_told_wrongly_is_asked_again_soon():
    """Else the verdict would stand for as long as a path rests after the kernel has forgotten it."""
    line = _watched()
    line.session.rest(60 * SECOND, line.now)
    line.run(61 * SECOND)
    line.learned = 950
    line.run(61 * SECOND, lambda: line.session.learned_mtu_bytes == 950)
    assert not line.session.is_well
    line.learned = 0

    assert line.run(60 * SECOND, lambda: line.session.is_well) <= 2 * SECOND
