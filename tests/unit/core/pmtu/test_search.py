"""The search ends at the exact byte, whatever the limits, and soon."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.core.pmtu.search import Outcome, SizeSearch

FLOOR, TOP = 300, 9216


def _outcome(size: int, there: int, back: int) -> Outcome:
    if size > there:
        return Outcome.LOST
    return Outcome.ECHOED if size <= back else Outcome.ARRIVED


def _run(there: int, back: int, *, top: int = TOP, lies: tuple[int, ...] = ()) -> tuple[SizeSearch, int]:
    """A search against a path with these limits; the trials of the numbers in `lies` are lost by chance."""
    search = SizeSearch(passing_bytes=FLOOR, failing_bytes=top, is_arriving=there >= top)
    trials = 0
    while (size := search.next()) is not None:
        outcome = Outcome.LOST if trials in lies else _outcome(size, there, back)
        search.note(size, outcome)
        trials += 1
        assert trials < 200
    return search, trials


@given(there=st.integers(FLOOR, TOP - 1), back=st.integers(FLOOR, TOP - 1))
def test_both_limits_are_found_to_the_byte(there, back):
    """Answers tell the smaller limit, the count that of the way there; the number of trials is logarithmic."""
    search, trials = _run(there, back)

    assert min(there, back) == search.both_bytes
    assert there == search.outbound_bytes
    assert trials <= 2 * (math.ceil(math.log2(TOP - FLOOR)) + 1)


@given(back=st.integers(FLOOR, TOP - 1))
def test_a_limit_of_the_way_back_alone_leaves_the_way_there_open(back):
    """Everything arrives: outbound is as large as was asked for, and no trial is spent on it."""
    search, trials = _run(TOP, back)

    assert (back, TOP) == (search.both_bytes, search.outbound_bytes)
    assert trials <= math.ceil(math.log2(TOP - FLOOR)) + 1


@given(
    there=st.integers(FLOOR, TOP - 1),
    back=st.integers(FLOOR, TOP - 1),
    lie=st.integers(0, 9),
)
def test_a_trial_lost_by_chance_is_repaired(there, back, lie):
    """All probes of one trial were lost by chance: the size above the limit is asked again, which tells."""
    search, _ = _run(there, back, lies=(lie,))

    assert min(there, back) == search.both_bytes
    assert there == search.outbound_bytes


@given(passing=st.integers(FLOOR, 1499), changed_at=st.integers(0, 12), back=st.integers(FLOOR, 1499))
def test_nothing_above_the_size_that_failed_is_asked(passing, changed_at, back):
    """It passes again while it is searched: that is all that was to be known, and the own device may take no more."""
    search, trials = SizeSearch(passing_bytes=passing, failing_bytes=1500, is_arriving=False), 0
    while (size := search.next()) is not None:
        assert size <= 1500
        search.note(size, Outcome.ECHOED if trials >= changed_at else _outcome(size, back, back))
        trials += 1
        assert trials < 200

    assert search.both_bytes <= search.outbound_bytes <= 1500
    assert changed_at or 1500 == search.both_bytes


def test_a_path_that_keeps_changing_ends_the_search():
    """What passes once and not again is no limit: the search gives up instead of going on for ever."""
    search, trials = SizeSearch(passing_bytes=FLOOR, failing_bytes=1500, is_arriving=False), 0
    while (size := search.next()) is not None and trials < 500:
        search.note(size, Outcome.ECHOED if trials % 12 == 11 else Outcome.LOST)
        trials += 1

    assert trials < 100
