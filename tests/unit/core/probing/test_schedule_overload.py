"""What an engine that cannot keep up asks, and what it holds to be over."""

from __future__ import annotations

import pytest

from meshwatchd.core.probing.schedule import MAX_PROBES
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import MS, SECOND, ProbeProfile
from meshwatchd.model.timers import TIMERS
from tests.support.schedules import START, schedule_of

TIMERS_DEFAULT = TIMERS[ProbeProfile.DEFAULT]


def _known(schedule):
    return schedule.select(layer=Layer.RELAY, path=0, flow=FlowClass.PINNED)


def _answer_all(schedule, until):
    while (now := schedule.deadline()) <= until:
        for probe in schedule.advance(now, lambda *_: None):
            schedule.session(probe.session).answered(probe.seq, 5 * MS, now)


def test_a_wait_that_ends_after_the_last_look_into_the_sockets_goes_on():
    """Its answer may be here and not read yet; once everything has been heard up to its end, it is over."""
    schedule = schedule_of()
    session = schedule.sessions[0]
    schedule.probe(session, START)
    end = START + TIMERS_DEFAULT.miss_ns
    missed = []
    for heard in (START, end - 1):
        schedule.advance(end + 50 * MS, lambda missing, _before: missed.append(missing), heard)

        assert [] == missed
        assert schedule.deadline() <= end + 50 * MS

    schedule.advance(end + 60 * MS, lambda missing, _before: missed.append(missing), end)
    assert [session] == missed


def test_no_more_leaves_at_once_than_soon_gets_away():
    """The wait for each begins when it is asked for: the rest is asked for in the next turn, at the same instant."""
    schedule = schedule_of()
    schedule.confirm(_known(schedule), START, rounds=2 * MAX_PROBES)
    sizes: list[int] = []
    while schedule.deadline() <= START + 20 * SECOND and len(sizes) < 9:
        sizes.append(len(schedule.advance(START + 20 * SECOND, lambda *_: None)))

    assert MAX_PROBES == max(sizes)
    assert sum(sizes) > 2 * MAX_PROBES


@pytest.mark.parametrize("factor", [2.0, 5.0])
def test_an_engine_that_cannot_keep_up_sends_less(factor):
    """All kinds together by so much; at the full pace again it is as if nothing had been."""
    schedule = schedule_of()
    before = [(rate.kind, rate.interval_ns) for rate in schedule.rates()]
    per_second = sum(rate.sessions * SECOND / rate.interval_ns for rate in schedule.rates())
    schedule.slow_down(factor, START)
    slowed = sum(rate.sessions * SECOND / rate.interval_ns for rate in schedule.rates())
    schedule.slow_down(1.0, START)

    assert per_second / factor == pytest.approx(slowed, rel=0.01)
    assert before == [(rate.kind, rate.interval_ns) for rate in schedule.rates()]


def test_who_slows_down_watches_nobody_closely_at_the_old_pace():
    """Misses of an overload must not make for more probes."""
    schedule = schedule_of()
    _answer_all(schedule, START + 20 * SECOND)
    session = schedule.select(layer=Layer.UNDERLAY)[0]
    schedule.look_closely(session, START + 20 * SECOND)
    turn = schedule._turn_of[session.plan.session]
    close_ns = turn.interval_ns
    schedule.slow_down(2.0, START + 20 * SECOND)

    assert close_ns < turn.rest_ns
    assert 2 * close_ns <= turn.interval_ns
