"""How long to wait: as long as the leg has recently needed, and never for ever."""

from __future__ import annotations

from meshwatchd.core.delay import HALF_LIFE_NS, MAX_WAIT_NS, DelayEstimator
from meshwatchd.model.settings import MS, SECOND


def _estimator(*rtts_ms, now=0):
    delay = DelayEstimator(30 * MS)
    for rtt_ms in rtts_ms:
        delay.sample(rtt_ms * MS, now)
    return delay


def test_a_leg_without_a_past_is_given_the_shortest_wait():
    """The profile's floor."""
    assert 30 * MS == _estimator().wait_ns(0)


def test_a_quick_steady_leg_is_judged_at_the_floor():
    """10 ms every time: an answer later than 30 ms is no answer."""
    assert 30 * MS == _estimator(*[10] * 50).wait_ns(0)


def test_a_slow_leg_is_waited_for():
    """150 ms across an ocean is no loss."""
    assert _estimator(*[150] * 50).wait_ns(0) >= 300 * MS


def test_the_worst_recent_delay_is_remembered_and_fades():
    """A queue that held packets for 80 ms may do so again soon; half as likely after each half-life."""
    delay = _estimator(*[10] * 50, 80, *[10] * 50)

    assert 160 * MS == delay.wait_ns(0)
    assert 80 * MS == delay.wait_ns(HALF_LIFE_NS)
    assert delay.wait_ns(100 * SECOND) < 80 * MS


def test_a_larger_peak_replaces_the_faded_one():
    """The peak that counts is the one that weighs most at this instant."""
    delay = _estimator(80)
    delay.sample(50 * MS, HALF_LIFE_NS)

    assert 100 * MS <= delay.wait_ns(HALF_LIFE_NS)


def test_the_wait_is_bounded():
    """The prober has closed its socket by then."""
    assert MAX_WAIT_NS == _estimator(5_000).wait_ns(0)


def test_the_mean_follows_slowly():
    """RFC 6298: an eighth of the difference."""
    assert 10 * MS + (90 * MS - 10 * MS) // 8 == _estimator(10, 90).srtt_ns
