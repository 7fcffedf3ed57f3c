"""An observation finds the counts of a series by name."""

from __future__ import annotations

from meshwatchd.bisect.observation import Observation
from meshwatchd.model.bisection import PeerCounts, SeriesName
from tests.support.bisection import HEALTHY, observed, there


def test_a_series_that_was_not_sent_has_zeros():
    """So that nothing needs to ask whether it was."""
    assert 12 == HEALTHY.counts(SeriesName.KERNEL).sent
    assert 0 == Observation(peer="b1", via="b1").counts(SeriesName.FRAMED).sent


def test_what_the_peer_saw_is_none_where_it_did_not_look():
    """None is no count."""
    seen = observed(peer_counts=there(3))

    assert HEALTHY.counts_there(SeriesName.KERNEL) is None
    assert seen.counts_there(SeriesName.CRAFTED) is None
    assert PeerCounts(name=SeriesName.KERNEL, at_lower=3, at_overlay=0, answers_at_overlay=0, answers_at_lower=0) == (
        seen.counts_there(SeriesName.KERNEL)
    )
