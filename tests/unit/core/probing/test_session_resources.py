"""Which ports sessions take, and with whom they share the walk through them and the estimate of their delay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from meshwatchd.core.probing.intervals import Kind
from meshwatchd.core.probing.session_resources import CANARY_WAIT_NS, SessionResources, leg_of
from meshwatchd.model.canary import Canary
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.port_map import known_flow_ports, reserved_ports
from meshwatchd.model.settings import MS, SECOND, ProbeProfile, ProbeSettings, Settings
from meshwatchd.model.source_ports import split_ports
from meshwatchd.model.timers import TIMERS
from tests.support.schedules import START, instants_of, schedule_of

PLAN = SessionPlan(
    session=SessionId(0),
    peer=NodeName("b3"),
    layer=Layer.RELAY,
    path=0,
    flow=FlowClass.FRESH,
    source="10.0.0.1",
    destination="10.1.0.1",
    port=18620,
)
CANARY = Canary(name="web", node=NodeName("b3"), address="10.1.0.9", port=80)


def _plan(**changed):
    return msgspec.structs.replace(PLAN, **changed)


def _ports(resources, plan):
    return resources.ports(plan, Kind(plan.layer, plan.path, plan.flow), START)


def test_sessions_to_one_address_and_port_share_their_place_in_the_walk():
    """In the next table as well; an address that was gone in between begins anew, and so does one that is watched."""
    resources = SessionResources(ProbeSettings(), "a3")
    ports = _ports(resources, PLAN)
    assert ports is _ports(resources, _plan(session=SessionId(1), path=2))
    others = [_plan(destination="10.1.0.2"), _plan(source="10.0.0.2"), _plan(port=18621)]
    assert not any(_ports(resources, other) is ports for other in others)
    resources.retain([PLAN, *others])
    assert ports is _ports(resources, PLAN)
    resources.retain([_plan(flow=FlowClass.PINNED)])
    assert ports is not _ports(resources, PLAN)


def test_a_canarys_place_is_its_own_from_any_source():
    """Its socket would keep a port from all others."""
    resources = SessionResources(ProbeSettings(), "a3")
    ports = _ports(resources, _plan(canary=CANARY))

    assert ports is not _ports(resources, PLAN)
    assert ports is _ports(resources, _plan(canary=CANARY, source="10.0.0.2"))


@pytest.mark.parametrize(
    ("changed", "wait_ns"),
    [
        ({}, TIMERS[ProbeProfile.DEFAULT].miss_ns),
        ({"canary": CANARY}, CANARY_WAIT_NS),
        ({"canary": msgspec.structs.replace(CANARY, interval=100 * MS)}, 100 * MS),
    ],
)
def test_a_service_is_waited_for_longer_than_a_node(changed, wait_ns):
    """But not beyond its own interval."""
    estimator = SessionResources(ProbeSettings(), "a3").estimator(_plan(**changed))

    assert wait_ns == estimator.wait_ns(START)


def test_sessions_of_one_layer_path_and_family_share_an_estimator():
    """Canaries have nothing in common."""
    assert leg_of(PLAN) == leg_of(_plan(session=SessionId(5), peer=NodeName("b2"), flow=FlowClass.PINNED))
    others: Any = [
        {"path": 1},
        {"layer": Layer.OVERLAY},
        {"destination": "fd00::1"},
        {"canary": CANARY},
    ]
    assert 5 == len({leg_of(PLAN), *(leg_of(_plan(**other)) for other in others)})
    assert leg_of(_plan(canary=CANARY)) != leg_of(_plan(canary=CANARY, session=SessionId(5)))


def _used(schedule, flow=FlowClass.PINNED):
    """The sessions that judge the path in use: those beyond its far relay."""
    return [s for s in schedule.select(layer=Layer.RELAY, path=0, flow=flow) if s.plan.peer != "b1"]


def test_slow_known_flows_keep_to_one_port_and_those_of_paths_use_all():
    """A segment's flow is asked too seldom to be remembered eightfold; a path's are, and reach several hash buckets."""
    schedule = schedule_of()
    ports: dict[bool, dict[int, set[int]]] = {True: {}, False: {}}
    now = START
    while now < START + 10 * SECOND:
        now = schedule.deadline() or now
        for probe in schedule.advance(now, lambda *_: None):
            session = schedule.sessions[probe.session]
            if session.plan.flow is FlowClass.PINNED:
                is_path = session.plan.layer is Layer.RELAY and (session.plan.path, session.plan.peer) == (0, "b3")
                ports[is_path].setdefault(probe.session, set()).add(probe.source_port)
            session.answered(probe.seq, MS, now)
    known = set(known_flow_ports(ProbeSettings().port))
    slow = {n: used for n, used in ports[False].items() if schedule.sessions[n].plan.peer == "b1"}

    assert slow
    assert [{min(known)}] * len(slow) == list(slow.values())
    assert ports[True]
    assert [known] * len(ports[True]) == list(ports[True].values())


def test_fresh_probes_use_fresh_ports_and_known_flows_their_own():
    """No port of a fresh session comes twice, none lies in the daemon's own band; eight ports make known flows."""
    schedule = schedule_of()
    session, pinned = _used(schedule, FlowClass.FRESH)[0], _used(schedule)[0]
    ports = [schedule.probe(session, START).source_port for _ in range(1_000)]
    own = reserved_ports(Settings().probe.port)

    assert 1_000 == len(set(ports))
    assert not set(ports) & set(own)
    assert set(known_flow_ports(Settings().probe.port)) == {schedule.probe(pinned, START).source_port for _ in range(8)}


def test_all_sessions_of_a_node_leave_by_the_port_of_the_round():
    """Once they have caught up with the clock; so few sockets serve them all."""
    schedule = schedule_of()
    instants_of(schedule, 10 * SECOND)
    round_ns = split_ports(Settings().probe)[0].round_ns
    now = -(-(START + 12 * SECOND) // round_ns) * round_ns
    fresh = schedule.select(flow=FlowClass.FRESH)

    assert 1 == len({schedule.probe(session, now + index).source_port for index, session in enumerate(fresh)})


def test_a_restarted_node_goes_on_in_the_walk():
    """The permutation is the node's, not the process's; chance has no part in it."""
    one, other = (
        [schedule.probe(_used(schedule, FlowClass.FRESH)[0], START).source_port for _ in range(5)]
        for schedule in (schedule_of(seed=1), schedule_of(seed=2))
    )
    later = schedule_of(start=START + 50 * SECOND)

    assert one == other
    assert schedule_port(later, START + 50 * SECOND) not in one


def schedule_port(schedule, now):
    """The source port of the next fresh probe on the path in use."""
    return schedule.probe(_used(schedule, FlowClass.FRESH)[0], now).source_port
