"""Whom a node greets, and how."""

from __future__ import annotations

import msgspec

from meshwatchd.core.membership.cadence import DIRECT_NS, KNOWN_NS
from meshwatchd.core.membership.greeting_plan import MAX_NATIVE, plan_greetings
from meshwatchd.core.membership.hello_schedule import OTHER_NS
from meshwatchd.core.membership.presence import CAPABILITY, Crowds
from meshwatchd.model.ids import NodeName
from tests.support import hellos


def _far(number, **more):
    base = hellos.hello("b2", seen={"node": f"f{number}", "node_ip": f"10.2.1.{number:03}"})
    return msgspec.structs.replace(base, **({"capabilities": (CAPABILITY,)} | more))


def _near(number):
    return msgspec.structs.replace(_far(number), home="site-a1")


def test_far_nodes_of_large_locations_take_turns():
    """Neighbours do not, nor do nodes of versions that would take silence for death."""
    own = hellos.hello("a1")
    peers = {each.view.node: each for each in (*map(_far, range(1, 50)), *map(_near, range(50, 100)))}
    old = _far(100, capabilities=())
    peers[old.view.node] = old
    crowds = Crowds((own, *peers.values()))
    plan = plan_greetings(own, peers, crowds)
    (ring,) = plan.rings

    assert ("site-b1", [f"10.2.1.{number:03}" for number in range(1, 50)]) == (ring.name, list(ring.addresses))
    assert crowds.cadence(own.home, old.home).interval_ns == ring.step_ns
    assert {49 * ring.step_ns} == {plan.known[address] for address in ring.addresses}
    assert {KNOWN_NS} == {plan.known[f"10.2.1.{number:03}"] for number in range(50, 101)}


def test_somebody_may_be_where_no_known_node_is_under_another_address():
    """But for addresses outside of the mesh, where a known node is asked what it sees."""
    own, peer = hellos.hello("a1"), hellos.hello("b1")
    places = (own.view.node_ip, peer.view.overlay_ip, "10.2.0.99")
    plan = plan_greetings(own, {peer.view.node: peer}, Crowds(), places=places, direct=("198.51.100.21",))

    assert {"198.51.100.21": DIRECT_NS, "10.2.0.99": OTHER_NS} == plan.others
    assert ((), {peer.view.node_ip: KNOWN_NS}) == (plan.rings, plan.known)


def test_where_a_large_location_is_seen_from_is_asked_by_its_relays():
    """All others together ask as often as three do, however many: these hellos are whole, and cross the WAN."""
    own, peer = hellos.hello("a1"), hellos.hello("b1")
    crowd = {each.view.node: each for each in map(_near, range(1, 100))}
    crowds = Crowds((own, *crowd.values(), peer))

    plans = [
        plan_greetings(own, {peer.view.node: peer, **crowd}, crowds, direct=("198.51.100.21",), is_relay=is_relay)
        for is_relay in (True, False)
    ]
    assert [DIRECT_NS, 33 * DIRECT_NS] == [plan.others["198.51.100.21"] for plan in plans]
    assert [{"198.51.100.21"}, set()] == [plan.urgent for plan in plans], "a change is told there by relays, at once"


def _native(name):
    return hellos.hello(name, seen={"overlay_device": "flannel-wg", "wireguard_device": "flannel-wg"})


def test_nodes_whose_pods_are_routed_into_wireguard_are_greeted_through_it_as_well():
    """Their own addresses need not be reachable, and behind NAT nothing else is: all hear of a change at once."""
    own, others = _native("a1"), [_native(name) for name in ("b1", "b2")]
    peers = {each.view.node: each for each in others}
    plan = plan_greetings(own, peers, Crowds(), places=("203.0.113.4", own.view.overlay_ip))
    through = tuple(each.view.overlay_ip for each in others)

    assert (*through, "203.0.113.4") == tuple(plan.others)
    assert frozenset(plan.others) == plan.urgent
    assert {each.view.node_ip for each in others} == set(plan.known)
    kilo = hellos.hello("a1")
    assert frozenset() == plan_greetings(kilo, peers, Crowds(), places=("203.0.113.4",)).urgent
    many = {NodeName(f"f{number}"): msgspec.structs.replace(others[0]) for number in range(MAX_NATIVE + 1)}
    assert ["203.0.113.4"] == list(plan_greetings(own, many, Crowds(), places=("203.0.113.4",)).others)
