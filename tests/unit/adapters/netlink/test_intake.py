"""What single notifications change: tables, and what is told of what is ours and of the mesh."""

from __future__ import annotations

from meshwatchd.adapters.netlink import message
from meshwatchd.adapters.netlink.intake import MAX_PENDING_LOSSES
from meshwatchd.adapters.netlink.news import Lost
from meshwatchd.model.events import MeshStirred
from tests.support.fake_rtnl import STATIC, FakeRoute, address_body, fdb_body, neighbour_body, route_of, rule_body
from tests.unit.adapters.netlink.test_mirror import ETH0, MAC, OUT, OVERRIDE, kernel, run


def test_a_renamed_device_of_ours_is_lost_under_its_old_name():
    """Whoever renames it has taken it away."""
    source = kernel("eth0", "mw0")

    async def scenario(seen):
        source.put_link(ETH0 + 1, "stolen")
        seen.hear()
        return seen.losses(), seen.mirror.devices()

    lost, names = run(source, scenario)

    assert [Lost(text="device mw0", device="mw0")] == lost
    assert {ETH0: "eth0", ETH0 + 1: "stolen"} == names


def test_removed_objects_of_ours_are_told_at_once():
    """In the operator's words; what is not ours is nobody's business."""
    source = kernel("eth0")

    async def scenario(seen):
        for rule, protocol in ((OVERRIDE, 117), (OVERRIDE, STATIC)):
            source.put(message.RTM_NEWRULE, source.rules, rule_body(rule, protocol))
            source.delete(message.RTM_DELRULE, source.rules, rule_body(rule, protocol))
        for protocol in (117, STATIC):
            source.put_route(route_of(OUT, ETH0, protocol))
            source.delete_route(route_of(OUT, ETH0, protocol))
        assert seen.hear()
        return seen.losses()

    assert [
        Lost(text="rule pref 5460 from all lookup 7701", rule=OVERRIDE),
        Lost(text="route 10.244.1.0/24 dev eth0 table 7701", route=OUT),
    ] == run(source, scenario)


def test_more_losses_than_fit_are_found_by_the_next_snapshot():
    """The queue is bounded, and nobody waits for it."""
    source = kernel("eth0")

    async def scenario(seen):
        for _ in range(MAX_PENDING_LOSSES + 1):
            source.put_route(route_of(OUT, ETH0))
            source.delete_route(route_of(OUT, ETH0))
        assert seen.hear()
        return len(seen.losses())

    assert MAX_PENDING_LOSSES == run(source, scenario)


def test_pods_and_their_routes_wake_nobody():
    """Otherwise a busy node would tell of itself all the time."""
    source = kernel("eth0")

    async def scenario(seen):
        source.put_link(77, "vethab12")
        source.put(message.RTM_NEWADDR, source.addresses, address_body(77, "fe80::1", scope=253))
        source.put_route(FakeRoute(dst="10.244.6.7/32", index=77))
        source.put(message.RTM_NEWNEIGH, source.neighbours, neighbour_body(77, "10.244.6.7", MAC))
        source.put(message.RTM_NEWNEIGH, source.fdb, fdb_body(77, MAC, None))
        source.delete_route(FakeRoute(dst="10.244.6.7/32", index=77))
        source.delete(message.RTM_DELADDR, source.addresses, address_body(77, "fe80::1", scope=253))
        source.delete_link(77)
        return seen.hear()

    assert not run(source, scenario)


def test_a_device_of_the_mesh_that_goes_is_a_change():
    """With its addresses, or without any: one end of Cilium's pair has none of its own."""

    async def scenario(seen):
        source.delete_link(ETH0)
        return seen.hear(), seen.mirror.devices()

    source = kernel("cilium_net", "eth0")
    assert (True, {ETH0 + 1: "eth0"}) == run(source, scenario)


def test_a_route_of_the_mesh_that_is_replaced_is_gone():
    """`ip route replace PODS dev eth0`: the kernel tells the new route alone, which is nobody's business."""
    source = kernel("eth0", "flannel.1")
    source.put_route(FakeRoute(dst="10.244.6.0/24", index=ETH0 + 1))

    async def scenario(seen):
        seen.hear()
        source.put_route(FakeRoute(dst="10.244.6.0/24", index=ETH0), "replace")
        is_new = seen.hear()
        return is_new, (await seen.mirror.snapshot()).device_routes

    assert (True, ()) == run(source, scenario)


def test_routes_that_the_meshs_agent_removes_are_told_at_once_and_together():
    """Kilo's agent ends on the leader: its node has no other sign of it, and would call its own path broken."""
    source = kernel("eth0", "kilo0")
    kilos = [FakeRoute(dst=f"10.244.{number}.0/24", index=ETH0 + 1, via="10.4.0.2") for number in range(1, 4)]
    flannels = FakeRoute(dst="10.244.5.0/24", index=ETH0 + 1, via="10.244.5.0", protocol=3)
    for route in (*kilos, flannels):
        source.put_route(route)

    async def scenario(seen):
        seen.source.put_route(FakeRoute(dst="10.244.4.0/24", index=ETH0 + 1, via="10.4.0.2"))
        seen.source.delete_route(flannels)
        seen.hear()
        others = seen.stirs()
        for route in kilos:
            seen.source.delete_route(route)
        seen.hear()
        return others, seen.stirs()

    others, of_kilo = run(source, scenario)

    assert [] == others
    what = "routes of the mesh's own agent were removed"
    assert [MeshStirred(what=what, is_rebuilding=False, is_seen_everywhere=True)] == of_kilo
