import asyncio

import msgspec
import pytest

from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.adapters.netlink.view import MAX_ADDRESSES, MAX_TOLD
from meshwatchd.adapters.wireguard import uapi
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.settings import KernelSettings, MeshSettings
from meshwatchd.model.snapshot import DestinationRule, DeviceRoute, Forwarding, Gateway, Neighbour
from tests.support.fake_rtnl import (
    STATIC,
    FakeRoute,
    FakeRtnl,
    address_body,
    fdb_body,
    neighbour_body,
    route_of,
    rule_body,
)
from tests.support.rules import rule_body as foreign_body

OVERRIDE = Rule(priority=5460, table=7701)
OUT = Route(dst="10.244.1.0/24", table=7701, dev="eth0")
MAC = bytes((2, 0, 0, 0, 0, 1))
ETH0, FLANNEL = 2, 6


def kernel(*devices, kind="veth"):
    """A kernel with devices of those names, from index 2 on."""
    made = FakeRtnl()
    for index, name in enumerate(devices, ETH0):
        made.put_link(index, name, kind=kind)
    return made


def snapshot(source, *, is_ours=True):
    """The first snapshot; all devices with our prefix are ours, or none."""

    async def judge(link):
        return is_ours

    return asyncio.run(Mirror(source, KernelSettings(), MeshSettings(), judge).snapshot())


def test_rules_of_one_priority_are_shown_as_the_kernel_asks_them():
    """Of two overrides of a pair the first is the one in effect."""
    source, later = kernel("eth0"), Rule(priority=OVERRIDE.priority, table=OVERRIDE.table - 1)
    source.rules = [rule_body(OVERRIDE), rule_body(later)]

    assert (OVERRIDE, later) == snapshot(source).rules


def test_a_snapshot_has_devices_with_addresses_and_our_own_objects():
    """What is not marked and not in our way is not shown; of IPv6 addresses only the global ones are."""
    source = kernel("eth0")
    source.addresses = [
        address_body(ETH0, text, scope=scope) for text, scope in (("10.2.0.12", 0), ("fd00::1", 0), ("fe80::1", 253))
    ]
    source.rules = [rule_body(OVERRIDE), rule_body(Rule(priority=100, table=100), STATIC)]
    source.put_route(route_of(OUT, ETH0))
    source.put_route(FakeRoute(dst="9.0.0.0/8", index=ETH0))

    seen = snapshot(source)

    (link,) = seen.links
    assert ("eth0", ("10.2.0.12",), ("fd00::1",)) == (link.name, link.addresses, link.addresses_v6)
    assert ((OVERRIDE,), (OUT,), ()) == (seen.rules, seen.routes, seen.collisions)
    assert ((), (), ()) == (seen.device_routes, seen.neighbours, seen.forwarding)


def test_a_node_is_known_by_the_address_that_stays():
    """A virtual one of keepalived or kube-vip goes to another node, and a temporary one of IPv6 goes in some days: by
    any of these the node would become another one to its peers, and the address would be found at two MACs.
    """
    source = kernel("eth0")
    source.addresses = [
        address_body(ETH0, "10.2.0.100", length=32),
        address_body(ETH0, "10.2.0.11", is_secondary=True),
        address_body(ETH0, "10.2.0.12"),
        address_body(ETH0, "fd00::1", length=64, is_secondary=True),
        address_body(ETH0, "fd00::2", length=64),
    ]

    (link,) = snapshot(source).links
    assert ("10.2.0.12", "10.2.0.100", "10.2.0.11") == link.addresses
    assert (24, 32, 24) == link.prefix_lengths
    assert ("fd00::2", "fd00::1") == link.addresses_v6


def test_rules_of_others_by_destination_are_told():
    """Liqo leads packets to other clusters by them, into tables of its own."""
    source = kernel("eth0")
    source.rules = [rule_body(OVERRIDE), foreign_body(32765, 1_862_403_329, to="10.71.0.0/16")]

    assert (DestinationRule(priority=32765, to="10.71.0.0/16", table=1_862_403_329),) == (
        snapshot(source).destination_rules
    )


def test_a_nodes_own_place_is_told():
    """Discovery starts from networks, the default route, and what most routes have in common."""
    source = kernel("eth0")
    source.addresses = [address_body(ETH0, "10.2.0.12", length=23)]
    source.put_link(FLANNEL, "flannel.1", kind="vxlan")
    source.put_route(FakeRoute(dst="0.0.0.0/0", index=ETH0, via="10.2.0.1"))
    source.put_route(FakeRoute(dst="192.168.100.11/32", index=FLANNEL, via="10.244.4.0", src="10.2.0.12"))
    source.put_route(FakeRoute(dst="192.168.100.12/32", index=FLANNEL, via="10.244.4.0", src="10.2.0.12"))

    seen = snapshot(source)

    assert (23,) == seen.link("eth0").prefix_lengths
    assert [("0.0.0.0/0", "eth0", 254, "10.2.0.1")] == [
        (route.dst, route.dev, route.table, route.via) for route in seen.default_routes
    ]
    assert (Gateway(dev="flannel.1", via="10.244.4.0", table=254, protocol=STATIC, routes=2),) == seen.gateways


def test_host_ends_of_pods_are_left_out():
    """A node has hundreds; they come and go and decide nothing."""
    source = kernel("veth1234", "eth0")
    source.addresses = [address_body(ETH0, "fe80::1", scope=253), address_body(ETH0 + 1, "10.2.0.12")]

    assert ["eth0"] == [link.name for link in snapshot(source).links]


def test_a_device_of_the_mesh_is_told_though_it_looks_like_a_pods():
    """Cilium's are a veth pair, of which one end has no address of its own."""
    source = kernel("cilium_host", "cilium_net", "lxc1234")
    source.addresses = [address_body(ETH0, "10.0.1.7", scope=253)]
    source.addresses += [address_body(index, "fe80::1", scope=253) for index in (ETH0 + 1, ETH0 + 2)]

    assert ["cilium_host", "cilium_net"] == [link.name for link in snapshot(source).links]


class Counted(dict[bytes, tuple[bytes, ...]]):
    """Entries that count how often all of them are gone through."""

    passes = 0

    def __iter__(self):
        self.passes += 1
        return super().__iter__()

    def items(self):
        """As a dict's."""
        self.passes += 1
        return super().items()


def test_three_thousand_devices_are_told_in_one_pass():
    """And one that changes costs no pass over the others: a node's pods and VLANs all change when it starts."""
    source = kernel(*(f"vlan{number}" for number in range(3000)), kind="vlan")
    for number in range(3000):
        source.addresses.append(address_body(ETH0 + number, f"10.{number >> 8}.{number & 255}.1"))
        source.addresses.append(address_body(ETH0 + number, f"fe80::{number:x}", scope=253))

    async def judge(link):
        return True

    async def both():
        mirror = Mirror(source, KernelSettings(), MeshSettings(), judge)
        await mirror.snapshot()
        mirror.links.entries, mirror.addresses.entries = (
            Counted(mirror.links.entries),
            Counted(mirror.addresses.entries),
        )
        seen = await mirror.snapshot()
        told = mirror.links.entries.passes, mirror.addresses.entries.passes
        source.told.clear()
        source.put_link(ETH0, "renamed", kind="vlan")
        mirror.take(source.told.popleft())
        return seen, told, mirror.links.entries.passes, mirror.devices()

    seen, told, passes, names = asyncio.run(both())

    assert (3000, (1, 1)) == (len(seen.links), told)
    assert 1 == passes
    assert (3000, "renamed") == (len(names), names[ETH0])


def test_what_is_on_the_meshs_devices_is_told():
    """Flannel's three entries of one peer; the same on another device is nobody's business."""
    source = kernel("eth0")
    source.put_link(FLANNEL, "flannel.1", kind="vxlan")
    for index in (FLANNEL, ETH0):
        source.neighbours.append(neighbour_body(index, "10.42.1.0", MAC))
        source.fdb.append(fdb_body(index, MAC, "192.168.50.11"))
    source.put_route(FakeRoute(dst="10.42.1.0/24", index=FLANNEL, via="10.42.1.0", src="10.42.0.0", protocol=3))
    source.put_route(FakeRoute(dst="10.43.1.0/24", index=ETH0, via="10.43.1.0"))

    seen = snapshot(source)

    route = DeviceRoute(dst="10.42.1.0/24", dev="flannel.1", table=254, protocol=3, via="10.42.1.0", src="10.42.0.0")
    route = msgspec.structs.replace(route, is_onlink=True)
    assert (route,) == seen.device_routes
    neighbour = Neighbour(dev="flannel.1", address="10.42.1.0", lladdr="02:00:00:00:00:01", is_permanent=True)
    assert (neighbour,) == seen.neighbours
    assert (Forwarding(dev="flannel.1", lladdr="02:00:00:00:00:01", dst="192.168.50.11"),) == seen.forwarding
    assert not seen.is_bounded


def test_wireguard_of_any_name_is_a_device_of_the_mesh(tmp_path, monkeypatch):
    """The kernel's by its kind, a process's by its socket; OpenVPN's tun has none."""
    monkeypatch.setattr(uapi, "SOCKET_DIRECTORY", tmp_path)
    (tmp_path / "hex0.sock").touch()
    source = kernel("eth0")
    for index, (name, kind) in enumerate((("hex0", "tun"), ("vpn0", "tun"), ("hex1", "wireguard")), FLANNEL):
        source.put_link(index, name, kind=kind)
        source.put_route(FakeRoute(dst=f"10.42.{index}.0/24", index=index))

    assert ["hex0", "hex1"] == [route.dev for route in snapshot(source).device_routes]


def test_neighbours_of_the_lan_are_shown_to_those_that_ask():
    """A snapshot leaves them out: they come and go without anybody's traffic being concerned.

    What is `nud noarp` stays as long as what is permanent: no ARP moves it.
    """
    source = kernel("eth0")
    source.put_link(FLANNEL, "flannel.1", kind="vxlan")
    permanent, stale, without_arp = 0x80, 0x04, 0x40
    told = ((ETH0, "10.2.0.11", permanent), (ETH0, "10.2.0.12", without_arp), (ETH0, "10.2.0.13", stale))
    for index, address, state in ((FLANNEL, "10.42.1.0", permanent), *told):
        source.neighbours.append(neighbour_body(index, address, MAC, state=state))
    source.neighbours.append(neighbour_body(ETH0, "fe80::1", MAC))

    async def judge(link):
        return True

    async def scenario():
        mirror = Mirror(source, KernelSettings(), MeshSettings(), judge)
        await mirror.snapshot()
        return mirror.lan_neighbours()

    lladdr = MAC.hex(":")
    assert (
        Neighbour(dev="eth0", address="10.2.0.11", lladdr=lladdr, is_permanent=True),
        Neighbour(dev="eth0", address="10.2.0.12", lladdr=lladdr, is_permanent=True),
        Neighbour(dev="eth0", address="10.2.0.13", lladdr=lladdr, is_permanent=False),
    ) == asyncio.run(scenario())


def test_routes_that_lead_nowhere_are_told_by_their_kind():
    """They have no device; those of other tables are no business of the mesh."""
    source = kernel("eth0")
    for kind, number in ((6, 1), (7, 2), (8, 3), (9, 4)):
        source.put_route(FakeRoute(dst=f"10.42.{number}.0/24", index=0, kind=kind, metric=number, protocol=3))
    source.put_route(FakeRoute(dst="10.42.9.0/24", index=0, kind=6, table=200))

    assert (
        ("10.42.1.0/24", "blackhole", "", 1),
        ("10.42.2.0/24", "unreachable", "", 2),
        ("10.42.3.0/24", "prohibit", "", 3),
        ("10.42.4.0/24", "throw", "", 4),
    ) == tuple(sorted((each.dst, each.kind, each.dev, each.metric) for each in snapshot(source).dead_ends))


def test_no_more_is_told_than_can_be_read_in_passing():
    """A large mesh has thousands of each; the rest stays in the agent."""
    source = kernel()
    source.put_link(FLANNEL, "flannel.1", kind="vxlan")
    source.addresses = [address_body(FLANNEL, f"10.96.0.{number}") for number in range(MAX_ADDRESSES + 9)]
    for number in range(MAX_TOLD + 9):
        mac = bytes((2, 0, 0, 0, number >> 8, number & 255))
        source.neighbours.append(neighbour_body(FLANNEL, f"10.42.{number >> 8}.{number & 255}", mac))
        source.fdb.append(fdb_body(FLANNEL, mac, "192.168.50.11"))
        source.routes.append(FakeRoute(dst=f"10.{number >> 8}.{number & 255}.0/24", index=FLANNEL))

    seen = snapshot(source)

    assert [MAX_TOLD] * 3 == [len(each) for each in (seen.device_routes, seen.neighbours, seen.forwarding)]
    assert MAX_ADDRESSES == len(seen.link("flannel.1").addresses)
    assert seen.is_bounded


@pytest.mark.parametrize(
    ("rule", "protocol"), [(Rule(priority=5410, table=100), STATIC), (Rule(priority=5499, table=100), 0)]
)
def test_a_strange_rule_at_our_priority_is_a_collision(rule, protocol):
    """The text names the object and the setting."""
    source = kernel("eth0")
    source.rules = [rule_body(rule, protocol)]

    (collision,) = snapshot(source).collisions

    assert protocol == collision.owner_protocol
    assert rule.render() in collision.what
    assert "kernel.priority_base" in collision.what


@pytest.mark.parametrize(
    ("table", "protocol", "remedy"), [(7799, STATIC, "kernel.table_base"), (100, 117, "kernel.protocol")]
)
def test_a_strange_route_in_our_place_is_a_collision(table, protocol, remedy):
    """A table is ours as a whole; our protocol elsewhere is somebody's who uses the number."""
    source = kernel("eth0")
    source.put_route(FakeRoute(dst="9.0.0.0/8", index=ETH0, table=table, protocol=protocol))

    (collision,) = snapshot(source).collisions

    assert protocol == collision.owner_protocol
    assert "9.0.0.0/8" in collision.what
    assert remedy in collision.what


def test_a_strange_device_with_our_prefix_is_a_collision():
    """Names alone prove nothing, so the one who knows is asked."""
    source = kernel("mw0", "mwan0")

    assert () == snapshot(source).collisions
    (collision,) = snapshot(source, is_ours=False).collisions
    assert "device mw0" in collision.what
    assert "kernel.device_prefix" in collision.what


def test_an_audit_is_told_everything():
    """What is left out of a snapshot could be what is missing."""
    source = kernel()
    source.put_link(FLANNEL, "flannel.1", kind="vxlan")
    for number in range(MAX_TOLD + 9):
        mac, address = bytes((2, 0, 0, 0, number >> 8, number & 255)), f"10.{number >> 8}.{number & 255}.0"
        source.neighbours.append(neighbour_body(FLANNEL, address, mac))
        source.fdb.append(fdb_body(FLANNEL, mac, f"192.168.{number >> 8}.{number & 255}"))
        source.put_route(FakeRoute(dst=f"{address}/24", index=FLANNEL, via=address))

    async def judge(link):
        return True

    async def both():
        mirror = Mirror(source, KernelSettings(), MeshSettings(), judge)
        told = await mirror.snapshot()
        return told, mirror.complete(told), await mirror.read_back(), mirror.is_dirty.is_set()

    told, whole, again, is_dirty = asyncio.run(both())

    assert told.is_bounded
    assert [MAX_TOLD + 9] * 3 == [len(each) for each in (whole.device_routes, whole.neighbours, whole.forwarding)]
    assert set(told.device_routes) < set(whole.device_routes)
    assert whole == again
    assert is_dirty, "whoever waits for changes is to see them as well"
