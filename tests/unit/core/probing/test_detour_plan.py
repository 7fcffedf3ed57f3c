"""The sessions of ways around a leg, and the pace of the leg's own."""

from __future__ import annotations

import msgspec

from meshwatchd.core.probing.detour_plan import NEAR, kinds_of, lay_out, leg_plans, ports_answered
from meshwatchd.core.probing.intervals import Rates
from meshwatchd.model.detour import is_detour
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.mesh_profile import SUBMARINER
from meshwatchd.model.settings import MS, SECOND, ProbeSettings
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import PROFILES
from tests.sim.star import star_mesh, star_snapshot
from tests.support.lab_mesh import planner_of
from tests.support.leg_bench import star_planner


def _plans(name="a3", *, has_detours=True):
    planner = star_planner(name)
    return planner, lay_out(planner, has_standby=True, has_detours=has_detours)


def test_each_detour_is_asked_to_the_leader_of_each_other_location():
    """By fresh flows, between addresses among pods, to a port of its own."""
    _, plans = _plans()
    around = [plan for plan in plans if is_detour(plan.path)]

    assert [(480, "b1", 19108), (481, "b1", 19109)] == [(plan.path, plan.peer, plan.port) for plan in around]
    assert {("10.244.3.1", "10.245.1.1", Layer.RELAY, FlowClass.FRESH)} == {
        (plan.source, plan.destination, plan.layer, plan.flow) for plan in around
    }
    assert list(range(len(plans))) == [plan.session for plan in plans]


def test_without_selectors_in_place_no_detour_is_asked():
    """Its probes would take the leg, and praise a way that does not exist."""
    planner, plans = _plans(has_detours=False)
    assert not any(is_detour(plan.path) for plan in plans)
    assert plans == tuple(
        plan for plan in lay_out(planner, has_standby=True, has_detours=True) if not is_detour(plan.path)
    )


def test_a_worker_asks_over_its_leg_at_the_profile_s_pace():
    """Established flows as often as a path in use, new ones a quarter of that; detours every few seconds."""
    planner, plans = _plans()
    kinds = kinds_of(planner, plans)
    legs = leg_plans(planner, plans)

    assert {("a1", Layer.OVERLAY)} == {(plan.peer, plan.layer) for plan in legs}
    assert {FlowClass.PINNED: 50 * MS, FlowClass.FRESH: 200 * MS} == {
        plan.flow: kinds[plan.session].interval_ns for plan in legs
    }
    around = [kinds[plan.session] for plan in plans if is_detour(plan.path)]
    rates = Rates(ProbeSettings()).plan([(kind, 1) for kind in around], frozenset())
    assert [5 * SECOND, 5 * SECOND] == [rate.interval_ns for rate in rates]


def test_a_leader_of_many_is_asked_as_often_as_one_of_a_few():
    """All workers together; one pace for NEAR of them. So is whom the detour in use leads by."""
    planner = star_planner("a3", _of_many(2 * NEAR + 1))
    plans = lay_out(planner, has_standby=True, has_detours=True)
    kinds = kinds_of(planner, plans)

    assert {FlowClass.PINNED: 3 * 50 * MS, FlowClass.FRESH: 3 * 200 * MS} == {
        plan.flow: kinds[plan.session].interval_ns for plan in leg_plans(planner, plans)
    }
    assert {3 * 200 * MS} == {kinds[plan.session].used_ns for plan in plans if is_detour(plan.path)}


def _of_many(count):
    """The topology of a3 in a location of so many nodes."""
    mesh = star_mesh()
    first = next(each for each in mesh.node if each.name == "a2")
    more = tuple(
        msgspec.structs.replace(
            first,
            name=NodeName(f"a{number}"),
            node_ip=f"10.244.{number}.1",
            pod_cidr=f"10.244.{number}.0/24",
            overlay_ip=f"240.168.100.{number + 10}",
        )
        for number in range(4, count + 1)
    )
    wider = msgspec.structs.replace(mesh, node=(*mesh.node, *more))
    topology = PROFILES[SUBMARINER].recognise(star_snapshot("a3", wider), wider, NodeName("a3"))
    assert isinstance(topology, Topology)
    return topology


def test_leaders_answer_where_others_ask_by_detours():
    """They have no such sessions themselves; where no mesh has detours nobody listens there."""
    assert (19108, 19109, 19110) == ports_answered(star_planner("b1"))
    assert () == ports_answered(planner_of("b1"))
    assert () == leg_plans(star_planner("a1"), _plans("a1")[1])
