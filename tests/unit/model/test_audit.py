"""Entries by their keys, and plans as commands; what a plan does its inverse takes back."""

from __future__ import annotations

import msgspec

from meshwatchd.model.audit import DeviceAddress, Entries, RepairPlan, RepairRung
from meshwatchd.model.snapshot import DeviceRoute, Forwarding
from tests.support.flannel_node import DEVICE, entries, mac

HELD = entries(3)
MOVED = Forwarding(dev=DEVICE, lladdr=mac(1), dst="192.0.2.1")


def test_of_two_entries_with_one_key_the_later_counts():
    """As in the kernel: a MAC has one destination."""
    joined = HELD.joined(Entries(forwarding=(MOVED,)))

    assert {MOVED, HELD.forwarding[1]} == set(joined.forwarding)
    assert HELD.neighbours == joined.neighbours
    assert (HELD.forwarding[1],) == HELD.without(Entries(forwarding=(MOVED,))).forwarding
    assert Entries(forwarding=(HELD.forwarding[0],)) == HELD.at(Entries(forwarding=(MOVED,)))
    assert not Entries()
    assert HELD


def test_a_plan_is_told_as_commands_in_the_order_of_its_steps():
    """Neighbours and FDB before routes: a route alone would make the kernel ask by ARP."""
    plan = RepairPlan(rung=RepairRung.BOUNCE, device=DEVICE, is_bounce=True, put=entries(2))

    assert (
        "ip link set dev flannel.1 down",
        "ip link set dev flannel.1 up",
        f"ip neigh replace 10.42.1.0 lladdr {mac(1)} dev flannel.1 nud permanent",
        f"bridge fdb replace {mac(1)} dev flannel.1 dst 192.168.50.11 self permanent",
        "ip route add 10.42.1.0/24 via 10.42.1.0 dev flannel.1 proto boot onlink",
    ) == plan.commands()
    assert len(plan.operations()) == len(plan.commands())


def test_the_inverse_deletes_what_was_put_where_nothing_was():
    """And puts back what was replaced."""
    first = HELD.forwarding[0]
    replaced = RepairPlan(
        rung=RepairRung.FDB,
        device=DEVICE,
        put=Entries(forwarding=(first,), routes=HELD.routes[:1], neighbours=HELD.neighbours[:1]),
        before=Entries(forwarding=(MOVED,)),
    ).inverse()

    assert (
        f"bridge fdb replace {mac(1)} dev flannel.1 dst 192.0.2.1 self permanent",
        "ip route del 10.42.1.0/24 via 10.42.1.0 dev flannel.1 proto boot onlink",
        "ip neigh del 10.42.1.0 dev flannel.1",
    ) == replaced.commands()
    assert 3 == len(replaced.operations())


def test_a_route_is_told_with_all_it_is_made_of():
    """What is left out would be another route."""
    route = DeviceRoute(dst="10.4.0.1/32", dev="x", table=7, protocol=4, src="10.0.0.1", metric=5, scope=253)
    (command,) = RepairPlan(rung=RepairRung.ROUTE, device="x", put=Entries(routes=(route,))).commands()

    assert "ip route add 10.4.0.1/32 dev x src 10.0.0.1 table 7 proto static metric 5 scope 253" == command


def test_a_stale_neighbour_is_put_back_as_stale():
    """An inverse restores what was there, good or not."""
    stale = msgspec.structs.replace(HELD.neighbours[0], is_permanent=False)
    plan = RepairPlan(rung=RepairRung.NEIGHBOUR, device=DEVICE, put=Entries(neighbours=(stale,)))

    assert "nud stale" in plan.commands()[0]
    assert "NUD_STALE" in plan.operations()[0]


def test_addresses_are_put_first_and_stay():
    """Routes need them; whose they are by now an inverse cannot know."""
    own = DeviceAddress(dev=DEVICE, address="10.80.0.12")
    held = Entries(addresses=(own,), routes=HELD.routes[:1])
    plan = RepairPlan(rung=RepairRung.RESEED, device=DEVICE, put=held)

    assert f"ip address add 10.80.0.12/32 dev {DEVICE}" == plan.commands()[0]
    assert f"RTM_NEWADDR NLM_F_CREATE|NLM_F_EXCL 10.80.0.12/32 dev {DEVICE}" == plan.operations()[0]
    assert "ARP announcement of 10.80.0.12" == plan.operations()[1]
    assert 3 == len(plan.operations())
    assert Entries(routes=HELD.routes[:1]) == plan.inverse().drop
    assert Entries(addresses=(own,))
    assert held == held.joined(Entries(addresses=(own,)))
    assert Entries(routes=HELD.routes[:1]) == held.without(Entries(addresses=(own,)))
