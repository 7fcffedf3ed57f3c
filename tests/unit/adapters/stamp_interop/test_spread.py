"""Statistics of delays."""

from __future__ import annotations

from meshwatchd.adapters.stamp_interop.spread import Spread, mean_step, spread_of


def test_a_hundred_delays_have_all_figures():
    """1 to 100 in order: percentiles are delays that occurred."""
    assert Spread(
        min_ns=1,
        mean_ns=50,
        median_ns=50,
        p95_ns=95,
        p99_ns=99,
        max_ns=100,
        deviation_ns=29,
        jitter_ns=1,
    ) == spread_of(range(1, 101))


def test_few_delays_have_their_largest_as_percentiles():
    """Of two, and of one, which does not vary."""
    two, one = spread_of([10, 30]), spread_of([7])
    assert two is not None
    assert one is not None
    assert (30, 30, 20, 10, 20) == (two.p95_ns, two.p99_ns, two.mean_ns, two.deviation_ns, two.jitter_ns)
    assert (7, 7, 0, 0) == (one.p99_ns, one.mean_ns, one.deviation_ns, one.jitter_ns)


def test_no_delays_have_none():
    """Nothing is made up."""
    assert spread_of([]) is None
    assert 0 == mean_step([])
