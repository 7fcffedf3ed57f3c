"""What bench-cures promises: every trial within every target, medians and maxima told."""

from dataclasses import replace

from netnslab.bench_cures import Hole, Wedge, is_kept, place_of, settings, summarise, traffic_pairs
from netnslab.topology_file import load

WEDGE = Wedge(
    fault="fdb-entry-missing",
    named_ms=150.0,
    repaired_ms=40.0,
    is_restored=True,
    others_lost=0,
    others=400,
    peer_outage_ms=190.0,
)
HOLE = Hole(
    first_ms=900.0,
    last_ms=1500.0,
    named_by=4,
    nodes=4,
    size_ms=1200.0,
    size_bytes=1328,
    node="c1",
    peer="d1",
    layer="wireguard",
    is_exact=True,
)


def test_one_trial_that_misses_one_target_breaks_the_promise():
    """A median says nothing of the worst one."""
    assert is_kept([WEDGE] * 5, [HOLE] * 5)
    for wedge in (replace(WEDGE, repaired_ms=1001.0), replace(WEDGE, is_restored=False), replace(WEDGE, others_lost=1)):
        assert not is_kept([WEDGE, wedge], [HOLE])
    for hole in (
        replace(HOLE, last_ms=3001.0),
        replace(HOLE, size_ms=10_001.0),
        replace(HOLE, is_exact=False),
        replace(HOLE, named_by=3),
    ):
        assert not is_kept([WEDGE], [HOLE, hole])
    assert not is_kept([], []), "nothing was tried"


def test_median_and_maximum_are_told():
    """Of three, the middle one and the last; an outage without an end is in no median."""
    slow = replace(WEDGE, repaired_ms=90.0, others_lost=2, peer_outage_ms=None)
    total = summarise([WEDGE, slow, replace(WEDGE, repaired_ms=50.0)], [HOLE, replace(HOLE, is_exact=False)])

    assert {"median": 50.0, "max": 90.0} == total["repaired_ms"]
    assert {"median": 190.0, "max": 190.0} == total["peer_outage_ms"]
    assert (3, 2, 1200, 1) == (total["wedges"], total["others_lost"], total["others"], total["exact"])
    assert not total["is_kept"]
    assert {"median": None, "max": None} == summarise([WEDGE], [])["size_ms"]


def test_the_wedged_pair_is_one_that_nobody_else_needs():
    """Under Kilo two members; what others lose is then the repair's doing. Both ways of two others are watched."""
    assert ("b3", "b2") == place_of(load("kilo-flannel"))
    assert ("c1", "d1") == place_of(load("flannel-wg"))
    pairs = traffic_pairs(load("kilo-flannel"))

    assert ("b3", "b2") == pairs[0]
    assert [("b3", "a1"), ("b3", "b1"), ("a1", "b3"), ("b1", "b3")] == pairs[1:]


def test_only_single_entries_may_be_repaired():
    """No rung that touches a whole device is needed."""
    assert {"neighbour": True, "fdb": True, "route": True, "actions_per_minute": 60} == settings()["repair"]
    assert "enforce" == settings()["daemon"]["mode"]
