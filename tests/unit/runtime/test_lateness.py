"""Percentiles of the loop's own lateness, from a handful of buckets."""

from __future__ import annotations

import pytest

from meshwatchd.runtime.lateness import EVENT_NS, STALL_NS, WINDOW, Lateness, stopped_ns

MS = 1_000_000


def _of(*late_ns: int) -> Lateness:
    lateness = Lateness()
    for each in late_ns:
        lateness.note(each)
    lateness.turn_over()
    return lateness


def test_nothing_measured_is_no_lateness():
    """A loop without timers is never late."""
    assert {"loop-lateness-max-ns": 0, "loop-lateness-p50-ns": 0, "loop-lateness-p99-ns": 0} == _of().export()


def test_wake_ups_by_packets_do_not_count():
    """They say nothing about the timer, and would hide it: there are many more of them."""
    lateness = _of(*[0] * 1_000, *[4 * MS] * 10)

    assert 2 * MS <= lateness.p50_ns <= 4 * MS


@pytest.mark.parametrize("late_ns", [1, 999, 1_000, 30_000, 5 * MS, 3_000 * MS, 10**15])
def test_single_value_is_its_own_percentile_within_its_bucket(late_ns):
    """Never above the maximum, never below half of it, but for what is less than the unit."""
    lateness = _of(late_ns)

    assert late_ns == lateness.max_ns
    assert lateness.p99_ns <= late_ns
    assert lateness.p99_ns >= min(late_ns // 2, 10**12) - 1_000


def test_rare_stall_is_in_the_maximum_only():
    """One in a thousand moves no percentile."""
    lateness = _of(*[100_000] * 999, 500 * MS)

    assert lateness.p99_ns < MS < lateness.max_ns


def test_two_in_a_hundred_are_the_p99():
    """That is what widens the waits."""
    lateness = _of(*[100_000] * 98, *[16 * MS] * 2)

    assert lateness.p50_ns < MS
    assert 8 * MS <= lateness.p99_ns <= 16 * MS


def test_what_is_over_is_forgotten_after_two_windows():
    """Percentiles are of the recent past; the maximum is of all time."""
    lateness = _of(*[16 * MS] * 100)
    seen = []
    for _ in range(2 * WINDOW):
        lateness.note(50_000)
        lateness.turn_over()
        seen.append(lateness.p99_ns)

    assert seen[WINDOW] > MS > seen[-1]
    assert 16 * MS == lateness.max_ns


@pytest.mark.parametrize(
    ("worked_ns", "events", "expected_ns"),
    [
        (STALL_NS, 0, 0),
        (STALL_NS + 1, 0, STALL_NS + 1),
        (5 * STALL_NS, 5 * STALL_NS // EVENT_NS, 0),
        (5 * STALL_NS, 2 * STALL_NS // EVENT_NS, 3 * STALL_NS),
    ],
)
def test_work_is_no_stall_and_a_stop_in_the_middle_of_it_is_one(worked_ns, events, expected_ns):
    """A turn may take long because there is so much to do; what it takes beyond that was no work."""
    assert expected_ns == stopped_ns(worked_ns, events=events)
