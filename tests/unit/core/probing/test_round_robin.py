"""Who is asked next, and how often."""

from __future__ import annotations

import random

from meshwatchd.core.probing.intervals import UNWELL_NS, Kind
from meshwatchd.core.probing.round_robin import CLOSE_ROUNDS, FEW_ROUNDS, GIVEN_UP_NS, Turn, is_watched
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import MS, SECOND, Settings
from tests.support.lab_mesh import planner_of

NOW = 10 * SECOND


def _sessions(count=3):
    schedule = Schedule(Settings(), random.Random(1), "a3")
    schedule.start(lay_out(planner_of("a3"), has_standby=True), NOW)
    return list(schedule.sessions[:count])


def _turn(interval_ns=0, crowd_part=1):
    kind = Kind(Layer.RELAY, 0, FlowClass.FRESH, interval_ns=interval_ns, crowd_part=crowd_part)
    turn = Turn(kind, _sessions())
    turn.rest_ns = 900 * MS
    turn.pace(turn.rest_ns)
    return turn


def test_sessions_take_turns_a_step_apart():
    """Round after round in one order."""
    turn = _turn()

    assert 300 * MS == turn.step_ns
    assert turn.sessions * 2 == [turn.next() for _ in range(6)]


def test_other_sessions_go_on_from_the_same_place():
    """Also where there are fewer of them."""
    turn = _turn()
    turn.next()
    turn.next()
    turn.replace(turn.kind, turn.sessions[:2])

    assert turn.sessions[0] is turn.next()


def test_they_are_watched_closely_for_some_rounds():
    """Where that is faster, and unless somebody has asked for an interval."""
    turn, asked = _turn(), _turn(interval_ns=900 * MS)
    for each in (turn, asked):
        each.watch_closely(90 * MS)

    assert (CLOSE_ROUNDS * 3, 30 * MS) == (turn.close_left, turn.step_ns)
    assert (0, 300 * MS) == (asked.close_left, asked.step_ns)


def test_those_of_a_crowd_are_watched_for_fewer_rounds():
    """All of them are new at one time where a large mesh starts, and what misses an answer is watched on."""
    some, many = _turn(crowd_part=4), _turn(crowd_part=100)
    for each in (some, many):
        each.watch_closely(90 * MS)

    assert [CLOSE_ROUNDS // 4 * 3, FEW_ROUNDS * 3] == [some.close_left, many.close_left]


def test_rest_waits_for_those_that_are_under_suspicion():
    """Until they are acquitted, or silent for so long that they are given up."""
    turn = _turn()
    turn.watch_closely(90 * MS)
    session = turn.sessions[1]
    for seq in range(1, 4):
        session.begin(NOW)
        session.answered(seq, MS, NOW)
    assert not is_watched(session, NOW)

    session.begin(NOW)
    session.expired(4, NOW)
    turn.rest(NOW)
    assert (3, 30 * MS) == (turn.close_left, turn.step_ns)

    turn.rest(NOW + GIVEN_UP_NS + 1)
    assert 300 * MS == turn.step_ns


def test_what_is_not_known_good_is_asked_every_few_seconds():
    """A standby link that came up late, or was repaired, is to be known before it is needed; in health it may rest."""
    turn = _turn()
    turn.rest_ns = 72 * SECOND
    turn.watch_closely(90 * MS)
    turn.rest(NOW)
    assert UNWELL_NS == turn.interval_ns

    for session in turn.sessions:
        for seq in range(1, 4):
            session.begin(NOW)
            session.answered(seq, MS, NOW)
    turn.rest(NOW)
    assert 72 * SECOND == turn.interval_ns
