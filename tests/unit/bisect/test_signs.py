"""Counts become signs relative to the stage before; too few, none and unknown are three things."""

from __future__ import annotations

import pytest

from meshwatchd.bisect.signs import Amount, amount, read_flows, read_signs
from meshwatchd.model.bisection import Flows, SeriesName
from tests.support.bisection import HEALTHY, counts, crafted, kernel, observed, there


@pytest.mark.parametrize(
    ("seen", "of", "expected"),
    [
        (12, 12, Amount.ALL),
        (11, 12, Amount.ALL),
        (10, 12, Amount.SOME),
        (2, 12, Amount.SOME),
        (1, 12, Amount.NONE),
        (0, 12, Amount.NONE),
        (3, 4, Amount.SOME),
        (13, 12, Amount.ALL),
        (0, 0, Amount.UNKNOWN),
        (None, 12, Amount.UNKNOWN),
        (5, None, Amount.UNKNOWN),
    ],
)
def test_amount(seen, of, expected):
    """One in eight may be lost, or seen, without a meaning."""
    assert expected is amount(seen, of)


def test_stages_are_compared_with_the_one_before():
    """What nothing reached is unknown, not dead."""
    signs = read_signs(observed(kernel(12, 0)))

    assert (Amount.ALL, Amount.NONE) == (signs.entered, signs.left)
    assert (Amount.UNKNOWN, Amount.UNKNOWN) == (signs.came_back, signs.delivered)


def test_the_peers_counts_take_their_place_in_the_row_of_stages():
    """Answers are expected from what the peer has sent, not from what we have."""
    signs = read_signs(observed(kernel(12, 12, 6, 6, echoed=6), peer_counts=there(12, 6, 6, 6)))

    assert (Amount.ALL, Amount.SOME) == (signs.peer_heard, signs.peer_took)
    assert (Amount.ALL, Amount.ALL, Amount.ALL) == (signs.peer_answered, signs.peer_replied, signs.came_back)


def test_without_a_lower_tap_the_overlay_stands_for_it():
    """A tunnel whose outer packets cannot be recognised."""
    signs = read_signs(observed(counts(SeriesName.KERNEL, 12, 12, None, None, 0), peer_counts=()))

    assert (Amount.UNKNOWN, Amount.NONE, Amount.UNKNOWN) == (signs.left, signs.came_back, signs.delivered)


def test_queue_drops_count_only_if_they_explain_what_is_missing():
    """Two drops do not explain twelve lost packets, and no drops explain none."""
    assert read_signs(observed(kernel(12, 0), queue_dropped=12)).queue_drops
    assert not read_signs(observed(kernel(12, 0), queue_dropped=2)).queue_drops
    assert not read_signs(observed(kernel(12, 12), queue_dropped=2)).queue_drops


@pytest.mark.parametrize(
    ("seen", "flows"),
    [
        (HEALTHY, Flows.NONE),
        (observed(kernel(12, 12), known=(8, 8)), Flows.NEW),
        (observed(kernel(12, 12), known=(8, 0)), Flows.ALL),
        (observed(kernel(12, 12), known=(2, 2)), Flows.SOME),
        (observed(kernel(12, 12, 6, 6, echoed=6), crafted(8)), Flows.NEW),
        (observed(kernel(12, 12, 6, 6, echoed=6), crafted(8, 4)), Flows.SOME),
    ],
)
def test_flows(seen, flows):
    """Known flows tell new from all; without them crafted ones, which are new to any network, tell what they can."""
    assert flows is read_flows(read_signs(seen))
