"""How long to wait: as long as the leg has recently needed, and never for ever."""

from __future__ import annotations

from meshwatchd.core.session.rtt_estimator import HALF_LIFE_NS, MAX_WAIT_NS, TRUSTED_AFTER_NS, DelayEstimator
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


def test_the_usual_is_known_without_the_worst():
    """RFC 6298's estimate: four variations above the mean; one slow answer of long ago has no part in it."""
    delay = _estimator(80, *[10] * 200)

    assert 10 * MS <= delay.usual_ns < 12 * MS
    assert delay.wait_ns(0) > 10 * delay.usual_ns


def test_the_wait_is_bounded():
    """The prober has closed its socket by then."""
    assert MAX_WAIT_NS == _estimator(5_000).wait_ns(0)


def test_the_mean_follows_slowly():
    """RFC 6298: an eighth of the difference."""
    assert 10 * MS + (90 * MS - 10 * MS) // 8 == _estimator(10, 90).srtt_ns


def _watched(*rtts_ms, for_ns=TRUSTED_AFTER_NS):
    """An estimator that may trust, after answers spread evenly over a time."""
    delay = DelayEstimator(30 * MS, 10 * MS)
    for turn, rtt_ms in enumerate(rtts_ms):
        delay.sample(rtt_ms * MS, for_ns * turn // (len(rtts_ms) - 1))
    return delay


def test_trust_takes_a_minute_and_shortens_the_wait():
    """A young leg has the profile's wait, a calm one of a minute's standing the calm one."""
    delay = _watched(*[1] * 61)

    assert (False, True) == (delay.is_trusted(TRUSTED_AFTER_NS - 1), delay.is_trusted(TRUSTED_AFTER_NS))
    assert 30 * MS == delay.wait_ns(TRUSTED_AFTER_NS - 1)
    assert 10 * MS == delay.wait_ns(TRUSTED_AFTER_NS)


def test_one_slow_answer_ends_the_trust_for_a_minute():
    """It stalls after all; and the peak is waited for besides."""
    delay = _watched(*[1] * 61)
    delay.sample(6 * MS, TRUSTED_AFTER_NS)

    assert not delay.is_trusted(2 * TRUSTED_AFTER_NS - 1)
    assert delay.is_trusted(2 * TRUSTED_AFTER_NS)


def test_a_long_leg_is_trusted_by_its_own_measure():
    """100 ms across an ocean, every time, is calm; half as long again is not."""
    steady, shaky = _watched(*[100] * 61), _watched(*[100] * 30, 160, *[100] * 30)

    assert (True, False) == (steady.is_trusted(TRUSTED_AFTER_NS), shaky.is_trusted(TRUSTED_AFTER_NS))
    assert steady.wait_ns(TRUSTED_AFTER_NS) >= 190 * MS


def test_trust_can_be_taken_away_by_what_no_answer_tells():
    """A stall in which everything is lost leaves no slow answer; where nothing was seen there is no trust to lose."""
    delay, blank = _watched(*[1] * 61), DelayEstimator(30 * MS, 10 * MS)
    delay.distrust(TRUSTED_AFTER_NS)
    blank.distrust(0)

    assert not delay.is_trusted(TRUSTED_AFTER_NS)
    assert not blank.is_trusted(TRUSTED_AFTER_NS)


def test_without_a_calm_wait_there_is_no_trust():
    """Nothing to gain by it."""
    delay = _estimator(*[1] * 61)

    assert not delay.is_trusted(10 * TRUSTED_AFTER_NS)
