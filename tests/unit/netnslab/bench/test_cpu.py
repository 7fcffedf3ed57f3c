from netnslab.bench.cpu import Round, summarise
from netnslab.bench.usage import Usage


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    """Both were twice as slow in the second round: the machine, not the tools."""
    rounds = {"bird": [_round(10), _round(20), _round(10)], "ours-fresh": [_round(8), _round(16), _round(9)]}
    bird, ours = summarise(200, 50, rounds)

    assert (1.0, 0.8) == (bird["to_bird"], ours["to_bird"])
    assert {"median": 9.0, "min": 8.0, "max": 16.0} == ours["cpu_percent"]


def test_without_bird_there_is_no_ratio():
    """A run of ours alone."""
    (row,) = summarise(50, 50, {"ours-known": [_round(3, packets_per_s=2_000.4)]})

    assert (None, 2_000) == (row["to_bird"], row["packets_per_s"])


def _round(percent, *, packets_per_s=None):
    half = Usage(cpu_percent=percent / 2, rss_kib=5_000)
    return Round(near=half, far=half, up=200, packets_per_s=packets_per_s)
