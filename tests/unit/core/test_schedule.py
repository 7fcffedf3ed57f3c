"""What is sent when: even phases, jitter on a fixed grid, and a deadline that covers everything pending."""

from __future__ import annotations

import itertools
import random

import msgspec

from meshwatchd.core.layout import lay_out
from meshwatchd.core.schedule import CONTROL_FACTOR, KNOWN_FLOWS, Schedule
from meshwatchd.core.session import Outcome
from meshwatchd.model.events import Coordination, CoordinationKind
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.settings import MS, RESERVED_PORTS, SECOND, TIMERS, ProbeProfile, Settings
from tests.support.lab_mesh import planner_of

TIMERS_DEFAULT = TIMERS[ProbeProfile.DEFAULT]
START = 10 * SECOND


def _schedule(*, seed=3, name="a3"):
    schedule = Schedule(Settings(), random.Random(seed))
    schedule.use_paths([0])
    schedule.start(lay_out(planner_of(name), has_standby=True), START)
    return schedule


def _instants(schedule, duration_ns, *, answered=True):
    """When each session is probed, from deadline to deadline."""
    instants: dict[int, list[int]] = {}
    missed = []
    end = START + duration_ns
    while (now := schedule.deadline()) is not None and now <= end:
        for probe in schedule.advance(now, lambda session, _before: missed.append(session)):
            instants.setdefault(probe.session, []).append(now)
            if answered:
                schedule.session(probe.session).answered(probe.seq, 5 * MS, now)
    return instants, missed


def _gaps(instants):
    return [after - before for before, after in itertools.pairwise(instants)]


def test_sessions_of_one_leg_are_phased_evenly():
    """Two sessions at 50 ms watch their leg every 25 ms: within the jitter, for as long as it runs."""
    schedule = _schedule()
    leg = schedule.select(layer=Layer.RELAY, path=0, flow=FlowClass.FRESH)
    instants, _ = _instants(schedule, 5 * SECOND)
    together = sorted(at for session in leg for at in instants[session.plan.session])
    even_ns, jitter_ns = TIMERS_DEFAULT.interval_ns // len(leg), TIMERS_DEFAULT.interval_ns // 10

    assert 3 == len(leg)
    assert all(abs(gap - even_ns) <= jitter_ns for gap in _gaps(together))


def test_jitter_does_not_add_up():
    """Every probe lies within a tenth before its place on the grid: after 5 s there have been 5 s worth of probes."""
    schedule = _schedule()
    session = schedule.select(layer=Layer.RELAY, path=0, flow=FlowClass.FRESH)[0]
    instants, _ = _instants(schedule, 5 * SECOND)
    mine = instants[session.plan.session]
    interval_ns = TIMERS_DEFAULT.interval_ns
    grid = [mine[0] + turn * interval_ns for turn in range(len(mine))]

    assert all(-interval_ns // 10 <= at - place <= 0 for at, place in zip(mine, grid, strict=True))
    assert len(set(_gaps(mine))) > 10


def test_each_kind_of_session_has_its_rate():
    """The path in use at full rate, what is only watched less often, control flows least."""
    schedule = _schedule()
    instants, _ = _instants(schedule, 4 * SECOND)

    def count(**wanted):
        return {len(instants[s.plan.session]) for s in schedule.select(**wanted)}

    per_second = {"fast": 4 * 20, "watch": 4 * 5, "control": 4 * 5 // CONTROL_FACTOR}
    rates: list[tuple[str, dict[str, object]]] = [
        ("fast", {"layer": Layer.RELAY, "path": 0, "flow": FlowClass.FRESH}),
        ("watch", {"layer": Layer.RELAY, "path": 1, "flow": FlowClass.FRESH}),
        ("watch", {"layer": Layer.UNDERLAY}),
        ("watch", {"layer": Layer.SELF}),
        ("control", {"layer": Layer.RELAY, "path": 0, "flow": FlowClass.PINNED}),
        ("control", {"layer": Layer.EFFECTIVE}),
    ]
    for expected, wanted in rates:
        assert all(abs(found - per_second[expected]) <= 4 for found in count(**wanted)), (wanted, count(**wanted))


def test_a_path_that_comes_into_use_is_probed_at_full_rate():
    """On standby the standby is what traffic depends on."""
    schedule = _schedule()
    schedule.use_paths([0, 1])
    instants, _ = _instants(schedule, 2 * SECOND)

    assert all(len(instants[s.plan.session]) >= 36 for s in schedule.select(path=1, flow=FlowClass.FRESH))


def test_the_deadline_covers_the_ends_of_waits():
    """Probes that nobody answers are reported though nothing else happens; nothing is asked for before its time."""
    schedule = _schedule()
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
    schedule = _schedule()
    instants, missed = _instants(schedule, SECOND, answered=False)
    sent = sum(len(times) for times in instants.values())
    outstanding = sum(session.sent - session.lost for session in schedule.sessions)

    assert sent == len(missed) + outstanding


def test_a_schedule_without_sessions_wants_nothing():
    """Before the first snapshot there is nothing to probe."""
    assert Schedule(Settings(), random.Random(1)).deadline() is None


def test_a_burst_alternates_between_the_sessions():
    """Each gets its rounds, and no leg is asked everything at one instant."""
    schedule = _schedule()
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
    schedule = _schedule()
    late = START + 3 * SECOND
    probes = schedule.advance(late, lambda *_: None)

    assert len(schedule.sessions) == len(probes)
    assert schedule.deadline() > late


def test_fresh_probes_use_fresh_ports_and_pinned_ones_their_own():
    """No port of a fresh session comes twice, none lies in the daemon's own band."""
    schedule = _schedule()
    session = schedule.select(layer=Layer.RELAY, path=0, flow=FlowClass.FRESH)[0]
    pinned = schedule.select(layer=Layer.RELAY, path=0, flow=FlowClass.PINNED)[0]
    ports = [schedule.probe(session, START).source_port for _ in range(1_000)]
    own = range(Settings().probe.port, Settings().probe.port + RESERVED_PORTS)

    assert 1_000 == len(set(ports))
    assert not set(ports) & set(own)
    known = {schedule.probe(pinned, START).source_port for _ in range(20)}
    assert KNOWN_FLOWS == len(known)
    assert known <= set(own)


def test_a_probe_can_carry_a_message():
    """Coordination travels in band."""
    schedule = _schedule()
    message = Coordination(kind=CoordinationKind.NOTICE, pair=0, rank=1, generation=1, nonce=0, target=NodeName("b3"))
    probe = schedule.probe(schedule.sessions[0], START, is_confirm=True, coordination=message)

    assert (message, True) == (probe.coordination, probe.is_confirm)


def test_ids_of_an_earlier_topology_mean_nothing():
    """A reply may arrive after the table of sessions was replaced."""
    schedule = _schedule()

    assert schedule.session(len(schedule.sessions)) is None
    assert schedule.session(-1) is None
    assert schedule.sessions[2] is schedule.session(2)


def test_starting_again_forgets_what_was_pending():
    """No expiry of an old session is charged to a new one with the same id."""
    schedule = _schedule()
    schedule.advance(START + SECOND, lambda *_: None)
    schedule.start([msgspec.structs.replace(schedule.sessions[0].plan)], START + SECOND)
    missed = []
    schedule.advance(START + SECOND + 29 * MS, lambda session, _: missed.append(session))

    assert [] == missed
    assert Outcome.UNKNOWN is schedule.sessions[0].expired(7, START + SECOND)


def test_sessions_of_one_leg_share_their_patience():
    """What delays one of them delays the others; a standby's delay is its own."""
    schedule = _schedule()
    one, other, _ = schedule.select(layer=Layer.RELAY, path=0, flow=FlowClass.FRESH)
    standby = schedule.select(layer=Layer.RELAY, path=1, flow=FlowClass.FRESH)[0]

    assert one.delay is other.delay
    assert one.delay is not standby.delay


def test_a_short_stall_lengthens_the_waits_and_nothing_else():
    """Who slept 50 ms with a probe outstanding waits 50 ms longer for its answer; what is due stays due."""
    schedule = _schedule()
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
