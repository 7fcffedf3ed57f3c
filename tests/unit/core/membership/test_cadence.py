"""What hellos cost between two locations, and how long a node of the other one may be silent."""

from __future__ import annotations

import pytest

from meshwatchd.core.membership.cadence import KNOWN_NS, MAX_PRESENT, PAIRS, SILENT_NS, cadence_between
from meshwatchd.model.settings import MINUTE

SIZES = [(10, 11), (30, 30), (100, 100), (1000, 1000), (1000, 3), (3, 1000), (20,) * 50]


def test_up_to_ten_and_ten_nodes_greet_each_other_every_half_minute():
    """And a node that is silent is dead as soon as before."""
    for sizes in ((3, 3), (10, 10), (100, 1), (4, 25)):
        cadence = cadence_between(*sizes, sum(sizes))

        assert (KNOWN_NS, False) == cadence
        assert SILENT_NS == cadence.patience_ns


@pytest.mark.parametrize("sizes", SIZES)
def test_hellos_between_two_locations_are_bounded(sizes):
    """However many nodes; and one that is gone is so within an hour, long before it would be forgotten."""
    cadence = cadence_between(sizes[0], sizes[1], sum(sizes))

    assert cadence.hellos_s(sizes[0], sizes[1]) * KNOWN_NS / 1e9 <= 1.01 * PAIRS
    assert SILENT_NS <= cadence.patience_ns <= 60 * MINUTE


@pytest.mark.parametrize("sizes", [(100, 100), (1000, 1000), (50, 1000), (200,) * 5])
def test_neighbours_can_name_all_that_greet_a_location(sizes):
    """What one hears in the half minute between two hellos of its own fits into one of them."""
    received = 0.0
    for size in sizes[1:]:
        cadence = cadence_between(size, sizes[0], sum(sizes))
        assert cadence.is_in_turn
        received += size * KNOWN_NS / cadence.interval_ns / sizes[0]

    assert received <= 1.1 * MAX_PRESENT


@pytest.mark.parametrize(("sizes", "hellos_s"), [((3, 3), 0.3), ((10, 10), 3.33), ((1000, 1000), 3.33)])
def test_hellos_are_counted(sizes, hellos_s):
    """Of all nodes of a location to all of another."""
    senders, receivers = sizes
    cadence = cadence_between(senders, receivers, sum(sizes))
    assert hellos_s == round(cadence.hellos_s(senders, receivers), 2)
