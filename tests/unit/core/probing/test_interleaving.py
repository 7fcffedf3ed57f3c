"""Scouts of two locations ask in turn without a clock in common: each moves towards its place between the others."""

from __future__ import annotations

import pytest

from meshwatchd.core.probing.interleaving import GAIN, followed
from meshwatchd.core.probing.round_robin import SCOUT_JITTER_NS
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.settings import MS, SECOND
from tests.support.schedules import START, instants_of, schedule_of

PLACE_NS = 50 * MS
ROUND_NS = 8 * PLACE_NS
"""Of the four scouts of three nodes and three, each of which asks two."""

HALF_RTT_NS = 5 * MS // 2


def _names(*names):
    return tuple(map(NodeName, names))


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        # One and one: the second asks half a round after it was asked.
        (("a1",), ("b1",), {"a1": ()}),
        (("b1",), ("a1",), {"b1": (("a1", 1),)}),
        # One and two: it asks both in turn, and each answers with its own request one place later.
        (("b1",), ("a1", "a2"), {"b1": ()}),
        (("a1", "a2"), ("b1",), {"a1": (("b1", 1),), "a2": (("b1", 1),)}),
        # Two and two, a round of eight places: a2 is asked four places after a1.
        (("a1", "a2"), ("b1", "b2"), {"a1": (), "a2": (("b1", 1 - 4),)}),
        (("b1", "b2"), ("a1", "a2"), {"b1": (("a1", 1),), "b2": (("a1", 3 - 4), ("a2", 1 - 4))}),
    ],
)
def test_scouts_alternate_between_the_sides(here, there, expected):
    """The places of all are different, and nobody follows who follows him."""
    assert expected == {name: followed(NodeName(name), _names(*here), _names(*there)) for name in here}


def _round(name):
    """A node's schedule after ten seconds, when nothing is watched closely, and its round of fresh flows."""
    schedule = schedule_of(name)
    instants_of(schedule, 10 * SECOND)
    return schedule, next(turn for turn in schedule._turns if turn.kind.followed and turn.kind.path == 0)


def test_a_request_moves_the_next_place_a_part_of_the_way():
    """B's first scout asked a3 with place 2: its own request is due one place later, or half a round from that."""
    schedule, turn = _round("a3")
    assert (Layer.RELAY, FlowClass.FRESH) == (turn.kind.layer, turn.kind.flow)
    assert ROUND_NS == 2 * turn.step_ns == turn.interval_ns == turn.rest_ns
    place = START + 20 * SECOND
    for ahead_ns in (0, 40 * MS, -40 * MS):
        turn.grid = before = place + PLACE_NS - ahead_ns
        # Half of what a probe may leave early it leaves early on average.
        schedule.interleaving.heard("b2", 0, place - turn.jitter_ns // 2 + HALF_RTT_NS)
        assert before + ahead_ns // GAIN == turn.grid


def test_only_a_round_at_rest_follows_and_only_who_comes_before():
    """Its partner's path, a follower's request, and a round that is watched closely leave all places as they are."""
    schedule, turn = _round("a3")
    before = turn.grid
    schedule.interleaving.heard("b3", 0, START + 20 * SECOND)
    schedule.interleaving.heard("b2", 7, START + 20 * SECOND)
    turn.pace(turn.interval_ns // 2)
    schedule.interleaving.heard("b2", 0, START + 20 * SECOND)

    assert before == turn.grid


def test_scouts_leave_evenly_and_hardly_early():
    """A tenth of the interval would be nearly the way to the next scout's place; chance is left to all other rounds."""
    schedule, turn = _round("a3")
    standby = next(other for other in schedule._turns if other.kind.scouts and other.kind.path == 1)

    assert PLACE_NS // 4 >= turn.jitter_ns == SCOUT_JITTER_NS
    assert standby.kind.followed is None
    assert standby.jitter_ns > SCOUT_JITTER_NS
