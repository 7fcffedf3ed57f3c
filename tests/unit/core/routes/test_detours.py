"""Kernel objects of the ways around a worker's leg."""

from __future__ import annotations

import msgspec

from meshwatchd.core.routes.detours import remote_leaders
from meshwatchd.model.plan import Rule
from meshwatchd.model.rule_window import RuleWindow
from tests.sim.star import star_mesh, star_snapshot, star_topology
from tests.support.leg_bench import star_planner

ANY = (10000, 29999)


def _rules(planner):
    return [rule for rule in planner.provision().rules if rule.table != 7798]


def _table(provision, table):
    return [route.render() for route in provision.routes if route.table == table]


def test_a_worker_has_a_table_for_each_detour_and_one_for_its_probes():
    """All that the mesh routes by the leg; probes lead to leaders alone."""
    provision = star_planner("a3").provision()

    way = "via lan-of-a1 dev eth0 src 10.244.3.1 onlink table"
    assert [f"10.245.0.0/16 {way} 7780", f"10.97.0.0/16 {way} 7780"] == _table(provision, 7780)
    assert [f"10.245.1.1/32 {way} 7783"] == _table(provision, 7783)
    assert {"lan-of-a2"} == {route.via for route in provision.routes if route.table in (7781, 7784)}
    assert () == provision.links


def test_what_neighbours_hand_over_meets_no_rule_of_ours():
    """Else two nodes that go by each other would send packets in a circle; and a probe proves what traffic meets."""
    rules = _rules(star_planner("a3"))

    assert ["eth0", "vx-submariner"] == [rule.iif for rule in rules if rule.iif]
    assert {(5400, 5480)} == {(rule.priority, rule.goto) for rule in rules if rule.iif}
    assert 5400 == min(rule.priority for rule in rules)


def test_probes_of_a_detour_are_selected_on_their_way_out_alone():
    """Answers go as real traffic does."""
    selectors = [rule for rule in _rules(star_planner("a3")) if rule.table]
    assert [
        Rule(priority=5450, table=7783, sport=ANY, dport=(19108, 19108)),
        Rule(priority=5451, table=7784, sport=ANY, dport=(19109, 19109)),
    ] == selectors


def test_probes_of_the_leg_stay_on_it_while_traffic_does_not():
    """They jump over the rule that moves traffic."""
    planner = star_planner("a3")
    (detour, _) = planner.topology.detours
    rules = _rules(planner)

    assert 2 == sum(rule.goto == 5480 and rule.dport in ((18620, 18620), ANY) for rule in rules)
    assert Rule(priority=5479, table=7780) == planner.detour(detour)
    assert all(rule.priority < 5479 for rule in rules)


def test_a_route_that_was_lost_is_gone_around_as_well():
    """Nodes and pods of the other location that are known beside what the mesh routes."""
    mesh = star_mesh()
    topology = star_topology("a3", star_snapshot("a3", mesh, without="10.245.0.0/16"))
    led = [route.dst for route in star_planner("a3", topology).provision().routes if route.table == 7780]
    pods = [f"10.245.{number}.0/24" for number in (1, 2, 3)]
    nodes = [f"10.245.{number}.1/32" for number in (1, 2, 3)]

    assert sorted(("10.97.0.0/16", *pods, *nodes)) == sorted(led)


def test_in_a_narrow_window_everything_has_its_place():
    """Before a foreign rule that would answer in place of ours."""
    window = RuleWindow(first=146, is_narrow=True)
    planner = star_planner("a3", msgspec.structs.replace(star_topology("a3"), windows=(window,)))
    (detour, _) = planner.topology.detours

    assert Rule(priority=148, table=7780) == planner.detour(detour)
    assert {146, 147} == {rule.priority for rule in _rules(planner)}


def test_a_gateway_elected_again_sends_what_comes_over_legs_to_the_cable():
    """Its rule 150 of old has put ours before it, and until its daemon knows of the election the one of a detour is in
    the kernel: what other workers send it by the overlay meets neither, or two nodes would send it in a circle.
    """
    window = RuleWindow(first=146, is_narrow=True)
    planner = star_planner("a3", msgspec.structs.replace(star_topology("a3"), windows=(window,)))
    override = planner.detour(planner.topology.detours[0])
    (over_legs,) = [rule for rule in _rules(planner) if rule.iif == "vx-submariner"]

    assert over_legs.goto is not None
    assert over_legs.priority < override.priority < over_legs.goto < 150


def test_a_rule_in_the_kernel_is_known_for_a_detour_s_wherever_it_has_stood():
    """One of a place that this mesh does not use is a detour's as well, of nobody here."""
    planner = star_planner("a3")
    first, second = planner.topology.detours
    assert [first, second, None] == [planner.detour_of(Rule(priority=5479, table=7780 + each)) for each in range(3)]
    assert [True, True, True, False] == [planner.is_of_detour(Rule(priority=5479, table=7780 + n)) for n in range(4)]
    assert not planner.is_of_detour(Rule(priority=5460, table=7700))


def test_a_leader_has_none_of_it_and_is_who_proves_it_to_others():
    """Between the cable and a leader there is no leg."""
    assert () == star_planner("a1").provision().rules
    assert ["b1"] == [node.name for node in remote_leaders(star_topology("a3"))]
    assert () == star_planner("a1").provision().routes
