from typing import Any

from netnslab.bench.faulting import Judged, Trial, compare, first_after, summary
from netnslab.bench.stream_records import StreamOutage

MS = 1_000_000
STANDBY = 2


def test_a_detection_belongs_to_the_fault_it_falls_into():
    """Earlier ones and those after healing belong to others."""
    trial = Trial(before_ns=1_000, after_ns=1_010, healed_ns=2_000, wall_offset_ns=0)

    assert 1_500 == first_after([900, 1_800, 1_500, 2_000], trial)
    assert first_after([900, 2_000], trial) is None


def test_times_count_from_the_fault():
    """Detected after 130 ms, traffic back after 131, 1 ms behind the verdict."""
    found: Any = summary([_judged(130, 131)], standby=STANDBY)

    assert (1, 1) == (found["detected"], found["rerouted"])
    assert (130.0, 131.0, 1.0) == tuple(found[name]["p50"] for name in ("detect_ms", "outage_ms", "to_standby_ms"))


def test_traffic_that_came_back_by_itself_was_not_rerouted():
    """Healed before anybody acted: the next packet came over the link itself."""
    found: Any = summary([_judged(130, 600, interface=3)], standby=STANDBY)

    assert (1, 0, None) == (found["detected"], found["rerouted"], found["outage_ms"]["p50"])


def test_what_was_missed_is_not_counted_as_detected():
    """The number of trials tells."""
    found: Any = summary([_judged(None, 600, interface=3), _judged(100, 101)], standby=STANDBY)

    assert (2, 1) == (found["trials"], found["detected"])


def test_rows_are_compared_with_bird_in_the_same_run():
    """A quarter of BIRD's outage."""
    rows = compare([{"tool": tool, **summary([_judged(at, at + 1)], standby=STANDBY)} for tool, at in TOOLS])

    assert [1.0, 0.25] == [row["detect_p50_to_bird"] for row in rows]
    assert [1.0, 0.26] == [row["outage_p99_to_bird"] for row in rows]


def test_without_bird_nothing_is_compared():
    """A run of ours alone."""
    (row,) = compare([{"tool": "ours", **summary([_judged(33, 34)], standby=STANDBY)}])

    assert "detect_p50_to_bird" not in row


TOOLS = (("bird", 132), ("ours", 33))


def _judged(detected_ms, outage_ms, *, interface=STANDBY):
    began_ns = 5_000 * MS
    return Judged(
        detected_ns=None if detected_ms is None else began_ns + detected_ms * MS,
        outage=StreamOutage(began_ns=began_ns, first_ns=began_ns + outage_ms * MS, interface=interface, lost=outage_ms),
        began_ns=began_ns,
    )
