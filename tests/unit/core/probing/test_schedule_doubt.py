"""How closely sessions in doubt are asked, and until when."""

from __future__ import annotations

import random

from meshwatchd.core.probing.round_robin import GIVEN_UP_NS
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.probing.session_plan import kinds_of, lay_out
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import MS, SECOND, Settings
from tests.support.lab_mesh import planner_of

START = 10 * SECOND


def _schedule():
    schedule, planner = Schedule(Settings(), random.Random(3), "a3"), planner_of("a3")
    schedule.use_paths([0], START)
    plans = lay_out(planner, has_standby=True)
    schedule.start(plans, START, kinds_of(planner, plans))
    return schedule


def _instants(schedule, duration_ns):
    """When each session is probed, from deadline to deadline."""
    instants: dict[int, list[int]] = {}
    missed = []
    end = START + duration_ns
    while (now := schedule.deadline()) is not None and now <= end:
        for probe in schedule.advance(now, lambda session, _before: missed.append(session)):
            instants.setdefault(probe.session, []).append(now)
            schedule.session(probe.session).answered(probe.seq, 5 * MS, now)
    return instants, missed


def test_what_missed_an_answer_is_watched_closely():
    """A segment in doubt is asked at the pace of watching, and rests again once it has answered for a while."""
    schedule = _schedule()
    _instants(schedule, 20 * SECOND)
    session = schedule.select(layer=Layer.UNDERLAY)[0]
    schedule.probe(session, START + 20 * SECOND)
    close, missed = _instants(schedule, 22 * SECOND)
    _instants(schedule, 25 * SECOND)
    rest, _ = _instants(schedule, 35 * SECOND)

    assert [session] == missed
    assert 8 <= len(close[session.plan.session]) <= 11
    assert 4 <= len(rest[session.plan.session]) <= 6


def test_who_is_suspected_is_not_left_to_rest():
    """Seven misses on a slow session: twelve answers do not acquit it, and the rest must not take half a minute."""
    schedule = _schedule()
    _instants(schedule, 20 * SECOND)
    session = schedule.select(layer=Layer.RELAY, path=1, flow=FlowClass.FRESH, peer="b3")[0]
    for _ in range(7):
        schedule.probe(session, START + 20 * SECOND)
    _instants(schedule, 26 * SECOND)

    assert session.is_good
    assert session.lost == 7


def test_who_is_suspected_is_asked_closely_when_its_pair_goes_to_rest():
    """Thirteen misses condemn nothing and take sixty answers: at the pace of rest, half an hour."""
    schedule = _schedule()
    _instants(schedule, 10 * SECOND)
    session = schedule.select(path=1, flow=FlowClass.PINNED, peer="b3")[0]
    schedule.use_paths([0], START + 10 * SECOND, awake=range(5))
    for _ in range(13):
        schedule.probe(session, START + 10 * SECOND)
    _instants(schedule, 12 * SECOND)
    schedule.use_paths([0], START + 12 * SECOND)

    assert not session.is_good
    _instants(schedule, 25 * SECOND)
    assert session.is_good


def test_what_has_been_silent_for_a_minute_is_left_to_rest_until_it_answers():
    """Else its fresh probes would use up the outer flows of the leg, and a fault of new flows would go unseen."""
    schedule = _schedule()
    _instants(schedule, 20 * SECOND)
    session = schedule.select(layer=Layer.UNDERLAY)[0]
    session.last_heard = START + 20 * SECOND - GIVEN_UP_NS
    schedule.probe(session, START + 20 * SECOND)
    rest, missed = _instants(schedule, 30 * SECOND)
    schedule.look_closely(session, START + 30 * SECOND)
    close, _ = _instants(schedule, 32 * SECOND)

    assert [session] == missed
    assert 4 <= len(rest[session.plan.session]) <= 6
    assert 8 <= len(close[session.plan.session]) <= 11
