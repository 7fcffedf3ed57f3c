"""What leaves early because something else leaves, and what never does."""

from __future__ import annotations

import itertools

from meshwatchd.core.probing.company import EARLY_PART, QUIET_PROBES, SLOW_NS, Company
from meshwatchd.core.probing.intervals import Kind
from meshwatchd.core.probing.round_robin import Turn
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import MS, SECOND
from tests.support.schedules import START, schedule_of

SETTLED_NS, WATCHED_NS = 60 * SECOND, 120 * SECOND


def _departures(wakes_ns=0):
    """When each session of a healthy mesh is asked, and its interval; awake at what is due, and every `wakes_ns`."""
    schedule = schedule_of()
    found: dict[int, list[int]] = {}
    now = START
    while now < START + SETTLED_NS + WATCHED_NS:
        due, early = schedule.deadline(), schedule.early_at
        assert due is not None
        awake = due if not wakes_ns or early is None else max(early, now + 1)
        now = min(due, awake + -awake % (wakes_ns or 1))
        for probe in schedule.advance(now, lambda *_: None):
            session = schedule.session(probe.session)
            assert session is not None
            session.answered(probe.seq, 5 * MS, now)
            if now >= START + SETTLED_NS:
                found.setdefault(probe.session, []).append(now)
    intervals = {each.plan.session: turn.interval_ns for turn in schedule._turns for each in turn.sessions}
    return found, intervals


def test_slow_probes_leave_with_others():
    """Each wake-up costs more than a probe: there is a third fewer of them than probes."""
    found, _ = _departures()
    probes = sum(map(len, found.values()))
    wake_ups = len({at for instants in found.values() for at in instants})

    assert wake_ups < probes * 2 // 3


def test_who_is_woken_by_packets_sends_slow_probes_then():
    """A packet every 40 ms: what is slow leaves at such an instant, and wakes nobody."""
    found, intervals = _departures(wakes_ns=40 * MS)
    slow = [at for session, instants in found.items() if intervals[session] >= SLOW_NS for at in instants]
    fast = {at for session, instants in found.items() if intervals[session] < SLOW_NS for at in instants}

    assert slow
    assert len([at for at in slow if at % (40 * MS) and at not in fast]) < len(slow) // 20


def test_company_changes_no_average():
    """A probe that has left early does not bring the next one forward, and none is early by more than a quarter."""
    found, intervals = _departures(wakes_ns=40 * MS)
    for session, instants in found.items():
        gaps = [after - before for before, after in itertools.pairwise(instants)]
        assert abs(len(instants) - WATCHED_NS / intervals[session]) <= 1.5
        assert all(gap >= intervals[session] - intervals[session] // EARLY_PART - 2 * MS for gap in gaps)


def test_what_notices_faults_keeps_its_pace():
    """Scouts' probes watch a leg together: in steps of equal length, whatever else leaves."""
    alone, intervals = _departures()
    found, _ = _departures(wakes_ns=40 * MS)
    fast = [session for session, interval_ns in intervals.items() if interval_ns < SLOW_NS]

    assert fast
    for session in fast:
        off = [abs(after - before - intervals[session]) for before, after in itertools.pairwise(found[session])]
        assert max(off) <= intervals[session] // 10 + MS
        assert abs(len(alone[session]) - len(found[session])) <= 1


def test_who_is_awake_most_of_the_time_sends_nothing_early():
    """There it would take the places of probes that judge paths (tests/sim/test_many_locations)."""
    company, turn = Company(), Turn(Kind(Layer.UNDERLAY, 0, FlowClass.FRESH), [])
    turn.grid, turn.interval_ns, turn.step_ns, turn.at = 10 * SECOND, 4 * SECOND, 4 * SECOND, 10 * SECOND

    found = []
    for probes in (QUIET_PROBES / 2, QUIET_PROBES * 2):
        company.lay_out(probes)
        company.offer(turn)
        found.append(company.at)

    assert [9 * SECOND, None] == found
    assert [] == list(company.take(10 * SECOND))


def test_a_round_that_has_another_place_or_is_gone_is_not_taken():
    """It was asked in its own time, booked, or belongs to an earlier mesh."""
    company, turns = Company(), [Turn(Kind(Layer.UNDERLAY, path, FlowClass.FRESH), []) for path in range(4)]
    company.lay_out(0.0)
    for turn in turns:
        turn.grid, turn.interval_ns, turn.step_ns, turn.at = 10 * SECOND, 4 * SECOND, 4 * SECOND, 10 * SECOND
        company.offer(turn)
    turns[0].early_at += 1
    turns[1].is_booked = True
    company.retain(turns[:3])

    assert [] == list(company.take(9 * SECOND - 1))
    assert [turns[2]] == list(company.take(9 * SECOND))
