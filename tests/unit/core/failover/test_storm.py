"""When most locations go bad at once, the cause is near."""

from __future__ import annotations

from meshwatchd.core.failover.storm import WINDOW_NS, Storm
from meshwatchd.model.settings import SECOND

NOW = 1_000 * SECOND


def _storm(pairs, *down):
    storm = Storm(3)
    storm.begin(pairs)
    for pair, at in enumerate(down):
        storm.note(pair, at)
    return storm


def test_most_locations_at_once_are_a_storm():
    """It began with the first of them."""
    assert NOW - 3 == _storm(4, NOW - 2, NOW - 3, NOW - 1).began(NOW)


def test_few_or_the_smaller_part_are_none():
    """Two prove nothing, and three of six may have troubles of their own."""
    assert 0 == _storm(2, NOW, NOW).began(NOW)
    assert 0 == _storm(6, NOW, NOW, NOW).began(NOW)
    assert NOW == _storm(5, NOW, NOW, NOW).began(NOW)


def test_what_came_one_after_the_other_is_none():
    """A minute apart they share no cause."""
    assert 0 == _storm(3, NOW, NOW - WINDOW_NS, NOW - 2 * WINDOW_NS).began(NOW)


def test_what_recovers_is_forgotten():
    """One after the other, and all of it when there are other pairs."""
    storm = _storm(3, NOW, NOW, NOW)
    storm.note(1, 0)
    assert 0 == storm.began(NOW)
    storm.note(1, NOW)
    assert NOW == storm.began(NOW)
    storm.begin(3)
    assert 0 == storm.began(NOW)
