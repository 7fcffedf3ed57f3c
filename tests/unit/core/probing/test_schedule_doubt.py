"""How closely sessions in doubt are asked, and until when."""

from __future__ import annotations

from meshwatchd.core.probing.round_robin import GIVEN_UP_NS
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import SECOND
from tests.support.schedules import START, instants_of, schedule_of


def test_what_missed_an_answer_is_watched_closely():
    """A segment in doubt is asked at the pace of watching, and rests again once it has answered for a while."""
    schedule = schedule_of()
    instants_of(schedule, 20 * SECOND)
    session = schedule.select(layer=Layer.UNDERLAY)[0]
    schedule.probe(session, START + 20 * SECOND)
    close, missed = instants_of(schedule, 22 * SECOND)
    instants_of(schedule, 25 * SECOND)
    rest, _ = instants_of(schedule, 35 * SECOND)

    assert [session] == missed
    assert 8 <= len(close[session.plan.session]) <= 11
    assert 2 <= len(rest[session.plan.session]) <= 3


def test_who_is_suspected_is_not_left_to_rest():
    """Seven misses on a slow session: twelve answers do not acquit it, and the rest must not take half a minute."""
    schedule = schedule_of()
    instants_of(schedule, 20 * SECOND)
    session = schedule.select(layer=Layer.RELAY, path=1, flow=FlowClass.FRESH, peer="b3")[0]
    for _ in range(7):
        schedule.probe(session, START + 20 * SECOND)
    instants_of(schedule, 26 * SECOND)

    assert session.is_good
    assert session.lost == 7


def test_who_is_suspected_is_asked_closely_when_its_pair_goes_to_rest():
    """Thirteen misses condemn nothing and take sixty answers: at the pace of rest, half an hour."""
    schedule = schedule_of()
    instants_of(schedule, 10 * SECOND)
    session = schedule.select(path=1, flow=FlowClass.PINNED, peer="b3")[0]
    schedule.use_paths([0], START + 10 * SECOND, awake=range(5))
    for _ in range(13):
        schedule.probe(session, START + 10 * SECOND)
    instants_of(schedule, 12 * SECOND)
    schedule.use_paths([0], START + 12 * SECOND)

    assert not session.is_good
    instants_of(schedule, 25 * SECOND)
    assert session.is_good


def test_what_has_been_silent_for_a_minute_is_left_to_rest_until_it_answers():
    """Else its fresh probes would use up the outer flows of the leg, and a fault of new flows would go unseen."""
    schedule = schedule_of()
    instants_of(schedule, 20 * SECOND)
    session = schedule.select(layer=Layer.UNDERLAY)[0]
    session.last_heard = START + 20 * SECOND - GIVEN_UP_NS
    schedule.probe(session, START + 20 * SECOND)
    rest, missed = instants_of(schedule, 30 * SECOND)
    schedule.look_closely(session, START + 30 * SECOND)
    close, _ = instants_of(schedule, 32 * SECOND)

    assert [session] == missed
    assert 2 <= len(rest[session.plan.session]) <= 3
    assert 8 <= len(close[session.plan.session]) <= 11
