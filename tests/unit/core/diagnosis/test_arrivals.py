"""Whether a direction works in which nothing is answered."""

from __future__ import annotations

import pytest

from meshwatchd.core.diagnosis.arrivals import HEARD_HISTORY, Arrivals
from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.model.ids import Layer
from meshwatchd.model.settings import MS, SECOND

ALIVE, DEAD, UNKNOWN = Leg.ALIVE, Leg.DEAD, Leg.UNKNOWN
START = 100 * SECOND


@pytest.mark.parametrize(("gap_ms", "expected"), [(200, ALIVE), (800, UNKNOWN), (2_000, DEAD)])
def test_the_direction_is_told_by_the_rate_heard_before(gap_ms, expected):
    """Three probes a second came before the suspicion; what comes since is measured by that, not by our own timers."""
    arrivals, since = Arrivals({"a1"}), START + 10 * SECOND
    for at in (*range(START, since, 300 * MS), *range(since, since + 3 * SECOND, gap_ms * MS)):
        arrivals.note("a1", Layer.OVERLAY, at)

    assert expected is arrivals.direction({"a1"}, Layer.OVERLAY, since, since + 3 * SECOND)
    assert UNKNOWN is arrivals.direction({"a1"}, Layer.OVERLAY, since, since + 500 * MS), "too early to tell"
    assert UNKNOWN is arrivals.direction({"a1"}, Layer.RELAY, since, since + 3 * SECOND), "nothing came before"


def test_nodes_that_are_gone_leave_nothing_behind():
    """And of those that stay no more than the last."""
    before = Arrivals({"a1", "a2"})
    for name in ("a1", "a2"):
        for number in range(2 * HEARD_HISTORY):
            before.note(name, Layer.RELAY, START + number)
    after = Arrivals({"a2"}, before)

    assert {("a2", Layer.RELAY): HEARD_HISTORY} == {key: len(times) for key, times in after.heard.items()}
