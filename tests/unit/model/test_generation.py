"""Serial numbers: what comes after what, round the end and back."""

from __future__ import annotations

import pytest

from meshwatchd.model.generation import GENERATIONS, MOST_MISSED, following, is_comparable, moves_between, preceding


def test_after_the_last_comes_the_first():
    """0 is nobody's successor: it says that a node knows of no move."""
    assert [1, 2, GENERATIONS, 1] == [following(each) for each in (0, 1, GENERATIONS - 1, GENERATIONS)]
    assert [GENERATIONS, 1, GENERATIONS - 1] == [preceding(each) for each in (1, 2, GENERATIONS)]


@pytest.mark.parametrize(
    ("earlier", "later", "moves"),
    [
        (5, 6, 1),
        (6, 5, -1),
        (7, 7, 0),
        (GENERATIONS, 1, 1),
        (1, GENERATIONS, -1),
        (GENERATIONS - 2, 3, 5),
        (0, GENERATIONS, GENERATIONS),
        (GENERATIONS, 0, -GENERATIONS),
        (0, 0, 0),
    ],
)
def test_distance_goes_the_short_way_round(earlier, later, moves):
    """Except from a node that knows nothing, to which everything is news, and to it."""
    assert moves == moves_between(earlier, later)


def test_what_is_too_far_off_cannot_be_compared():
    """In either direction, round the end too."""
    for base in (1, 1000, GENERATIONS):
        far = base
        for _ in range(2):
            far = (far + MOST_MISSED // 2 - 1) % GENERATIONS + 1
        assert (True, False) == (is_comparable(base, far), is_comparable(base, following(far)))
        assert (True, False) == (is_comparable(far, base), is_comparable(following(far), base))
    assert not is_comparable(0, GENERATIONS)
