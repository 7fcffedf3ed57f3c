"""What is sent when: even phases, jitter on a fixed grid, and a deadline that covers everything pending."""

from __future__ import annotations

import itertools
import math
import random

import msgspec
import pytest

from meshwatchd.core.probing.grid import GRID_NS
from meshwatchd.core.probing.schedule import MAX_TRIES, Schedule
from meshwatchd.core.probing.session_kinds import kinds_of
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.probing.timeouts import LATENESS_SHARE, MAX_WIDENING_NS
from meshwatchd.core.session.session import Outcome
from meshwatchd.model.events import Coordination, CoordinationKind
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.port_map import STRANGE_PORT
from meshwatchd.model.settings import MS, SECOND, ProbeProfile, ProbeSettings, Settings
from meshwatchd.model.source_ports import BURST_LEAD
from meshwatchd.model.timers import TIMERS
from tests.support.lab_mesh import planner_of
from tests.support.schedules import START, instants_of, schedule_of

TIMERS_DEFAULT = TIMERS[ProbeProfile.DEFAULT]
SCOUT_NS = 8 * TIMERS_DEFAULT.interval_ns
"""Of each of the eight sessions of fresh flows between two scouts on either side."""


def _used(schedule, flow=FlowClass.PINNED):
    """The sessions that judge the path in use: those beyond its far relay."""
    return [s for s in schedule.select(layer=Layer.RELAY, path=0, flow=flow) if s.plan.peer != "b1"]


def _gaps(instants):
    return [after - before for before, after in itertools.pairwise(instants)]


def test_sessions_of_one_leg_are_phased_evenly():
    """Two sessions beyond the relay at 400 ms watch their leg every 200 ms: within the jitter, as long as it runs."""
    schedule = schedule_of()
    leg = _used(schedule, FlowClass.FRESH)
    instants_of(schedule, 5 * SECOND)
    instants, _ = instants_of(schedule, 25 * SECOND)
    together = sorted(at for session in leg for at in instants[session.plan.session])
    even_ns, jitter_ns = SCOUT_NS // len(leg), SCOUT_NS // 10

    assert 2 == len(leg)
    assert all(abs(gap - even_ns) <= jitter_ns + GRID_NS for gap in _gaps(together))


def test_own_lateness_widens_waits_once_it_is_no_longer_small():
    """An answer that is read late must not count as missing; from a quarter of the shortest wait on."""
    quarter_ns = TIMERS_DEFAULT.miss_ns // LATENESS_SHARE
    waits_ns = []
    for late_ns in (0, quarter_ns, quarter_ns + 1, 20 * MS, 5 * SECOND, 0):
        schedule = schedule_of()
        schedule.widen(20 * MS)
        schedule.widen(late_ns)
        session = schedule.sessions[0]
        schedule.probe(session, START)
        waits = schedule._waits[session.plan.session]
        waits_ns.append(waits.queue[0][0] - START - TIMERS_DEFAULT.miss_ns)

    assert [0, 0, quarter_ns + 1, 20 * MS, MAX_WIDENING_NS, 0] == waits_ns


def test_jitter_does_not_add_up():
    """Every probe lies within a tenth before its place on a grid: after 60 s there have been 60 s worth of probes."""
    schedule = schedule_of()
    instants_of(schedule, 5 * SECOND)
    instants, _ = instants_of(schedule, 65 * SECOND)
    mine = instants[_used(schedule, FlowClass.FRESH)[0].plan.session]
    grid = [mine[0] + turn * SCOUT_NS for turn in range(len(mine))]

    assert all(abs(at - place) <= SCOUT_NS // 10 + GRID_NS for at, place in zip(mine, grid, strict=True))
    assert len(set(_gaps(mine))) > 5


def test_regular_probes_leave_together():
    """Instants are multiples of a grid, so that what is due about one time costs one wake-up."""
    schedule = schedule_of()
    instants, _ = instants_of(schedule, 2 * SECOND)
    sent = [at for times in instants.values() for at in times[1:]]

    assert {0} == {at % GRID_NS for at in sent}
    assert len(set(sent)) < len(sent)


def test_each_kind_of_session_has_its_rate():
    """What scouts ask on the path in use at full rate, fresh flows as the outer flows allow, the rest slowly."""
    schedule = schedule_of()
    instants_of(schedule, 5 * SECOND)
    instants, _ = instants_of(schedule, 65 * SECOND)

    def count(**wanted):
        return {len(instants.get(s.plan.session, ())) / 60 for s in schedule.select(**wanted)}

    rates: list[tuple[float, dict[str, object]]] = [
        (0.31, {"layer": Layer.RELAY, "path": 0, "flow": FlowClass.PINNED, "peer": "b3"}),
        (2.5, {"layer": Layer.RELAY, "path": 0, "flow": FlowClass.FRESH, "peer": "b3"}),
        (0.17, {"layer": Layer.RELAY, "path": 0, "flow": FlowClass.FRESH, "peer": "b1"}),
        (0.04, {"layer": Layer.RELAY, "path": 1, "peer": "b3"}),
        (0.25, {"layer": Layer.UNDERLAY}),
        (0.25, {"layer": Layer.OVERLAY, "flow": FlowClass.FRESH}),
        (0.25, {"layer": Layer.OVERLAY, "flow": FlowClass.PINNED}),
        (0.03, {"layer": Layer.EFFECTIVE}),
    ]
    for expected, wanted in rates:
        found = count(**wanted)
        assert found
        assert all(abs(each - expected) <= 0.03 + expected / 50 for each in found), (wanted, found)


@pytest.mark.parametrize(("name", "before"), [("a1", 12.0), ("a3", 20.0), ("b2", 22.0)])
def test_nodes_of_a_small_mesh_send_few_packets(name, before):
    """Three nodes with three: probes a second of a leader, of a member, and of one that relays a standby besides."""
    rates = schedule_of(name).rates()

    assert sum(rate.sessions * SECOND / rate.interval_ns for rate in rates) < before


def test_what_has_begun_is_watched_closely():
    """Ten answers are enough for any session; slow ones would need half a minute. Closed ports answer once a second."""
    schedule = schedule_of()
    instants_of(schedule, 3 * SECOND)
    slow = {session for session in schedule.sessions if session.plan.port == STRANGE_PORT}

    assert 5 == len(slow)
    assert {True} == {session.is_good for session in {*schedule.sessions} - slow}

    instants_of(schedule, 4 * SECOND)

    assert {True} == {session.is_good for session in schedule.sessions}


def test_who_is_watched_closely_again_and_again_is_asked_no_more_often():
    """A kernel that answers for a closed port once a second would be asked in vain, and each miss would be a reason."""
    schedule = schedule_of()
    instants_of(schedule, 10 * SECOND)
    closed = [session for session in schedule.sessions if session.plan.port == STRANGE_PORT]
    asked = dict.fromkeys((session.plan.session for session in closed), 0)
    for tick in range(10 * SECOND // (20 * MS)):
        now = START + 10 * SECOND + tick * 20 * MS
        schedule.look_closely(closed[0], now)
        for probe in schedule.advance(now, lambda *_: None):
            asked[probe.session] = asked.get(probe.session, 0) + 1

    assert {True} == {8 <= asked[session.plan.session] <= 10 for session in closed}


def test_a_path_that_comes_into_use_is_probed_at_full_rate():
    """On standby the standby is what traffic depends on."""
    schedule = schedule_of()
    instants_of(schedule, 10 * SECOND)
    schedule.use_paths([0, 1], START + 10 * SECOND)
    instants, _ = instants_of(schedule, 12 * SECOND)

    scouted = [s for s in schedule.select(path=1) if s.plan.peer in ("b2", "b3")]
    expected = {FlowClass.PINNED: 0, FlowClass.FRESH: 4}
    assert 4 == len(scouted)
    assert all(len(instants.get(s.plan.session, ())) >= expected[s.plan.flow] for s in scouted)


def test_a_pair_that_is_awake_is_asked_by_everybody_at_full_rate():
    """Also by who is no scout of it, and over all its paths; when it rests again everything goes slowly."""
    schedule = schedule_of()
    instants_of(schedule, 10 * SECOND)
    before = sum(rate.sessions * SECOND / rate.interval_ns for rate in schedule.rates())
    schedule.use_paths([0], START + 10 * SECOND, awake=range(5))
    instants, _ = instants_of(schedule, 12 * SECOND)
    known = {s.plan.peer: len(instants[s.plan.session]) for s in schedule.select(path=0, flow=FlowClass.PINNED)}
    schedule.use_paths([0], START + 12 * SECOND)

    assert {"b1", "b2", "b3"} == set(known)
    assert all(9 <= count <= 11 for count in known.values())
    assert before == sum(rate.sessions * SECOND / rate.interval_ns for rate in schedule.rates())


def test_the_deadline_covers_the_ends_of_waits():
    """Probes that nobody answers are reported though nothing else happens; answered ones wake nobody."""
    schedule = schedule_of()
    schedule.start(schedule_plans(schedule)[:1], START)
    first = schedule.deadline()
    (probe,) = schedule.advance(first, lambda *_: None)
    missed = []

    assert [] == schedule.advance(first + TIMERS_DEFAULT.miss_ns - 1, lambda s, _: missed.append(s.plan.session))
    assert first + TIMERS_DEFAULT.miss_ns == schedule.deadline()
    schedule.advance(first + TIMERS_DEFAULT.miss_ns, lambda s, _: missed.append(s.plan.session))

    assert [probe.session] == missed


def schedule_plans(schedule):
    """The plans behind a schedule's sessions."""
    return [session.plan for session in schedule.sessions]


def test_every_unanswered_probe_is_missed_exactly_once():
    """The heap forgets nothing."""
    schedule = schedule_of()
    instants, missed = instants_of(schedule, SECOND, answered=False)
    sent = sum(len(times) for times in instants.values())
    outstanding = sum(session.sent - session.lost for session in schedule.sessions)

    assert sent == len(missed) + outstanding


def test_a_schedule_without_sessions_wants_nothing():
    """Before the first snapshot there is nothing to probe."""
    assert Schedule(Settings(), random.Random(1)).deadline() is None


def test_a_burst_alternates_between_the_sessions():
    """Each gets its rounds, and no leg is asked everything at one instant."""
    schedule = schedule_of()
    sessions = schedule.select(layer=Layer.RELAY, path=0, flow=FlowClass.FRESH)
    schedule._heap.clear()
    schedule.confirm(sessions, START, rounds=4)
    order: list[tuple[int, int]] = []
    while (now := schedule.deadline()) is not None and len(order) < 12:
        order.extend((now, p.session) for p in schedule.advance(now, lambda *_: None) if p.is_confirm)

    assert [s.plan.session for s in sessions] * 4 == [session for _, session in order]
    assert order[-1][0] - order[0][0] <= 12 * TIMERS_DEFAULT.burst_gap_ns


def test_a_process_that_slept_sends_one_probe_a_session():
    """After a second without being scheduled: no salvo of what should have been sent."""
    schedule = schedule_of()
    late = START + 3 * SECOND
    probes = schedule.advance(late, lambda *_: None)

    assert len(schedule.sessions) == len(probes)
    assert schedule.deadline() > late


@pytest.mark.parametrize("flow", list(FlowClass))
def test_a_busy_port_is_never_loss(flow):
    """The next port is tried, a few times; then the probe is given up, and no miss comes of it."""
    schedule = schedule_of()
    schedule.start([msgspec.structs.replace(_used(schedule, flow)[0].plan, session=SessionId(0))], START)
    (session,) = schedule.sessions
    now = schedule.deadline()
    (probe,) = schedule.advance(now, lambda *_: None)
    tried = [probe]
    while (again := schedule.retry(session, tried[-1].seq, now)) is not None:
        tried.append(again)
    missed: list[object] = []
    schedule.advance(now + TIMERS_DEFAULT.miss_ns, lambda which, _before: missed.append(which))

    assert MAX_TRIES == len({probe.source_port for probe in tried}) == len(tried)
    assert [] == missed
    assert 0 == session.lost


def test_a_turn_begins_with_all_its_tries():
    """A port that is busy at each probe costs each of them its retries, not the session its probes."""
    schedule = schedule_of()
    session = _used(schedule)[0]
    for _ in range(MAX_TRIES):
        schedule.retry(session, 0, START)
    instants_of(schedule, SECOND)

    assert schedule.retry(session, 0, START + SECOND) is not None


def test_a_burst_ends_where_ports_do():
    """A probe on a remembered flow would speak for the path; then rather none."""
    schedule = schedule_of()
    session = _used(schedule, FlowClass.FRESH)[0]
    schedule.start([msgspec.structs.replace(session.plan, session=SessionId(0))], START)
    schedule.confirm(schedule.sessions, START, rounds=2 * BURST_LEAD)
    probes = [probe for _ in range(3) for probe in schedule.advance(START + 10 * SECOND, lambda *_: None)]
    burst = [probe.source_port for probe in probes if probe.is_confirm]

    assert BURST_LEAD <= len(burst) == len(set(burst)) < 2 * BURST_LEAD


def test_a_big_mesh_is_stretched_to_the_packet_budget():
    """And says so: the operator sees by how much."""
    settings = Settings(probe=ProbeSettings(packets_per_second=9))
    schedule, planner = Schedule(settings, random.Random(1), "a3"), planner_of("a3")
    plans = lay_out(planner, has_standby=True)
    schedule.use_paths([0], START)
    schedule.start(plans, START, kinds_of(planner, plans))
    rates = schedule.rates()

    assert math.isclose(9, sum(rate.sessions * SECOND / rate.interval_ns for rate in rates), rel_tol=0.001)
    assert 1 < max(rate.stretch for rate in rates)


def test_addresses_among_pods_hurry_only_where_there_are_packets_to_spare():
    """They move no traffic: in a big mesh they would take the packets of those who have a path to judge."""
    for packets_per_second, is_closer in ((10, False), (2_000, True)):
        settings = Settings(probe=ProbeSettings(packets_per_second=packets_per_second))
        schedule, planner = Schedule(settings, random.Random(1), "a3"), planner_of("a3")
        plans = lay_out(planner, has_standby=True)
        schedule.start(plans, START, kinds_of(planner, plans))
        pods = [plan.session for plan in plans if plan.layer is Layer.POD_NETWORK]
        sent, _ = instants_of(schedule, 6 * SECOND)

        assert pods
        assert is_closer is (sum(len(sent.get(number, ())) for number in pods) > 2 * len(pods))


def test_a_probe_can_carry_a_message():
    """Coordination travels in band."""
    schedule = schedule_of()
    message = Coordination(kind=CoordinationKind.NOTICE, pair=0, rank=1, generation=1, nonce=0, target=NodeName("b3"))
    probe = schedule.probe(schedule.sessions[0], START, is_confirm=True, coordination=message)

    assert (message, True) == (probe.coordination, probe.is_confirm)


def test_ids_of_an_earlier_topology_mean_nothing():
    """A reply may arrive after the table of sessions was replaced."""
    schedule = schedule_of()

    assert schedule.session(len(schedule.sessions)) is None
    assert schedule.session(-1) is None
    assert schedule.sessions[2] is schedule.session(2)


def test_starting_again_forgets_what_was_pending():
    """No expiry of an old session is charged to a new one with the same id."""
    schedule = schedule_of()
    schedule.advance(START + SECOND, lambda *_: None)
    schedule.start([msgspec.structs.replace(schedule.sessions[0].plan)], START + SECOND)
    missed = []
    schedule.advance(START + SECOND + 29 * MS, lambda session, _: missed.append(session))

    assert [] == missed
    assert Outcome.UNKNOWN is schedule.sessions[0].expired(7, START + SECOND)


def test_sessions_of_one_leg_share_their_patience():
    """What delays one of them delays the others; a standby's delay is its own."""
    schedule = schedule_of()
    one, other, _ = schedule.select(layer=Layer.RELAY, path=0, flow=FlowClass.FRESH)
    standby = schedule.select(layer=Layer.RELAY, path=1, flow=FlowClass.FRESH)[0]

    assert one.delay is other.delay
    assert one.delay is not standby.delay


def test_a_short_stall_lengthens_the_waits_and_nothing_else():
    """Who slept 50 ms with a probe outstanding waits 50 ms longer for its answer; what is due stays due."""
    schedule = schedule_of()
    session = schedule.sessions[0]
    due = schedule.deadline()
    schedule.probe(session, START)
    missed: list[object] = []
    wait_ns = session.delay.wait_ns(START)
    schedule.postpone(50 * MS)

    assert min(due, START + wait_ns + 50 * MS) == schedule.deadline()

    schedule.advance(START + wait_ns, lambda which, _before: missed.append(which))

    assert session not in missed

    schedule.advance(START + wait_ns + 50 * MS, lambda which, _before: missed.append(which))

    assert session in missed


def test_kinds_that_differ_in_their_share_alone_keep_their_rounds_in_the_next_mesh():
    """Relays are sought by more nodes than members are: both go on to be probed when the table is taken over anew."""
    schedule, planner = Schedule(Settings(), random.Random(3), "a3"), planner_of("a3")
    plans = lay_out(planner, has_standby=True)
    kinds = kinds_of(planner, plans)
    (one, *_) = (plan.session for plan in plans if plan.layer is Layer.UNDERLAY)
    kinds = {**kinds, one: kinds[one]._replace(share=7)}
    for _ in range(2):
        schedule.start(plans, START, kinds, kept=[plan.session for plan in plans])
    instants, _ = instants_of(schedule, 20 * SECOND)

    assert {plan.session for plan in plans} == set(instants)


def test_a_round_whose_leg_becomes_more_crowded_goes_on_where_it_is():
    """Another node in the mesh changes the share of all sessions; begun anew, their phases would be drawn by lot."""
    schedule, planner = schedule_of(), planner_of("a3")
    plans = lay_out(planner, has_standby=True)
    kinds = kinds_of(planner, plans)
    rounds = {plan.session: schedule._turn_of[plan.session] for plan in plans}
    crowded = {session: kind._replace(share=kind.share + 1) for session, kind in kinds.items()}
    schedule.start(plans, START, crowded, kept=[plan.session for plan in plans])

    assert all(rounds[session] is schedule._turn_of[session] for session in rounds)
    assert crowded == {session: schedule._turn_of[session].kind for session in rounds}
