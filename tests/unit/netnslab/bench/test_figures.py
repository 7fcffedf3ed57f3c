from netnslab.bench.figures import MS, difference, histogram_percentile, percentile, ratio, spread


def test_percentiles_are_nearest_ranks():
    """p50 of 25 is the 13th, p99 the slowest: no value is made up between two."""
    values = list(range(25, 0, -1))

    assert (13, 25, 1) == (percentile(values, 50), percentile(values, 99), percentile(values, 1))


def test_nothing_has_no_percentile():
    """A tool that detected nothing shows no figure instead of a good one."""
    assert percentile([], 50) is None
    assert {"n": 0, "p50": None, "p99": None, "min": None, "max": None} == spread([])


def test_a_spread_is_in_the_unit_that_is_asked_for():
    """Nanoseconds in, milliseconds out."""
    assert {"n": 2, "p50": 1.5, "p99": 3.25, "min": 1.5, "max": 3.25} == spread([3_250_000, 1_500_000], unit=MS)


def test_a_ratio_needs_both():
    """Without BIRD in the run there is nothing to compare with."""
    assert 0.25 == ratio(33, 132)
    assert ratio(33, None) is None
    assert ratio(None, 132) is None
    assert ratio(33, 0) is None


def test_histograms_have_percentiles_of_what_they_count():
    """Ninety-nine wake-ups within 10 us and one within 50."""
    counts = {10_000: 99, 50_000: 1}

    assert (10_000, 10_000, 50_000) == tuple(histogram_percentile(counts, percent) for percent in (50, 99, 100))
    assert histogram_percentile({}, 99) is None


def test_a_span_is_the_difference_of_two_histograms():
    """What was counted before the span, the start among it, does not belong to it."""
    assert {10: 3, 30: 1} == difference({10: 5, 20: 2, 30: 1}, {10: 2, 20: 2})
