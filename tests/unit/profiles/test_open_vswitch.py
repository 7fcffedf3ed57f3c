"""Antrea, Kube-OVN and OVN-Kubernetes recognised by their port of the switch, with a tunnel and with WireGuard."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.ids import NodeName
from meshwatchd.model.open_vswitch import SWITCH_MESHES
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, WireGuardPeer, WireGuardState
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import compose
from meshwatchd.profiles.open_vswitch import look_for
from tests.support import switch_node
from tests.support.switch_node import GATEWAYS, changed, snapshot, without

each_kind = pytest.mark.parametrize("kind", list(SWITCH_MESHES))


def composed(seen):
    """The view of n1."""
    return compose.look(seen, Sources(), MeshSettings(), NodeName("n1"))


def texts(view):
    """Its reasons."""
    return " ".join(finding.text for finding in view.why)


@each_kind
def test_a_node_tells_its_addresses_and_leads_itself(kind):
    """By the kernel alone: nobody relays, and each node is a location of its own."""
    view, own = composed(snapshot(kind)), switch_node.node(kind, "n1")

    assert (kind,) == view.profiles
    assert (own.node_ip, own.pod_cidr, own.overlay_ip) == (view.node_ip, view.pod_cidr, view.overlay_ip)
    assert ("", GATEWAYS[kind].name) == (view.wireguard_device, view.overlay_device)
    assert (True, "full") == (view.is_leader, view.granularity)
    assert (kind != "kube-ovn") is view.is_pod_cidr_in_kernel


@each_kind
def test_the_stack_is_port_tunnel_and_card_with_their_sizes(kind):
    """The tunnel's own MTU limits nothing: it is what the card leaves over that counts."""
    gateway = GATEWAYS[kind]

    layers = [(each.kind, each.device, each.mtu_bytes, each.over) for each in composed(snapshot(kind)).layers]

    assert [
        ("openvswitch", gateway.name, gateway.mtu_bytes, "genev_sys_6081"),
        ("geneve", "genev_sys_6081", 65000, "eth0"),
        ("underlay", "eth0", 1500, ""),
    ] == layers


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("antrea", ["10.10.1.1", "10.10.2.1"]),
        ("kube-ovn", ["100.64.0.3", "100.64.0.4"]),
        ("ovn-kubernetes", []),
    ],
)
def test_others_are_where_routes_and_neighbours_of_the_port_say(kind, found):
    """Neither the address of services nor the router of a join network is a node."""
    assert found == [each.address for each in composed(snapshot(kind)).candidates]


def test_a_node_of_ovn_goes_by_the_bridge_that_has_taken_the_cards_address():
    """br-ex also has one for services, which sorts first."""
    bridge = Link(
        name="br-ex",
        index=7,
        kind="openvswitch",
        is_up=True,
        mtu_bytes=1500,
        addresses=("169.254.169.2", "198.18.0.9"),
        prefix_lengths=(29, 16),
    )
    default = (DeviceRoute(dst="0.0.0.0/0", dev="br-ex", table=254, protocol=4, via="198.18.0.1"),)
    seen = changed(snapshot("ovn-kubernetes", default_routes=default), "eth0", addresses=(), prefix_lengths=())
    view = composed(msgspec.structs.replace(seen, links=(*seen.links, bridge)))

    assert "198.18.0.9" == view.node_ip
    assert ("underlay", "br-ex") == (view.layers[-1].kind, view.layers[-1].device)


def encrypted(*names):
    """n1 of Antrea with WireGuard: routes and addresses have moved to antrea-wg0, and there is no tunnel."""
    seen = without(snapshot("antrea"), "genev_sys_6081")
    cable = Link(
        name="antrea-wg0",
        index=8,
        kind="wireguard",
        is_up=True,
        mtu_bytes=1420,
        addresses=("10.10.0.1",),
        prefix_lengths=(32,),
    )
    routes = (
        seen.device_routes[0],
        *(DeviceRoute(dst=f"10.10.{each}.0/24", dev="antrea-wg0", table=254, protocol=3, scope=253) for each in (1, 2)),
    )
    peers = tuple(
        WireGuardPeer(
            public_key=f"KEY{each}", endpoint=f"10.79.1.1{each + 1}:51820", allowed_ips=(f"10.10.{each}.0/24",)
        )
        for each in (1, 2)
    )
    state = WireGuardState(device="antrea-wg0", public_key="KEY0", listen_port=51820, at_ns=1, peers=peers)
    more = (cable, *(msgspec.structs.replace(cable, name=name, index=9, addresses=()) for name in names))
    return msgspec.structs.replace(seen, links=(*seen.links, *more), device_routes=routes, wireguard=(state,))


def test_antreas_wireguard_is_a_mesh_whose_pods_are_routed_into_it():
    """As flannel's: one device for both, and its peers are the nodes."""
    view = composed(encrypted())

    assert ("antrea",) == view.profiles
    assert ("antrea-wg0", "antrea-wg0", "10.10.0.1") == (view.wireguard_device, view.overlay_device, view.wireguard_ip)
    assert view.is_native
    assert "10.10.0.0/24" == view.pod_cidr
    assert ["10.79.1.12", "10.79.1.13"] == [each.address for each in view.candidates]
    assert [("openvswitch", "antrea-wg0"), ("wireguard", "eth0"), ("underlay", "")] == [
        (each.kind, each.over) for each in view.layers
    ]


def test_the_gateway_to_other_clusters_is_told_with_what_moves_it():
    """Antrea replaces it when its Node is not Ready, and forwarding is no part of that."""
    told = texts(composed(encrypted("antrea-mc-wg0")))

    assert "kubectl annotate node n1 multicluster.antrea.io/gateway-" in told
    assert "multicluster" not in texts(composed(encrypted()))


def test_a_strangers_wireguard_beside_it_is_left_alone():
    """An administrator's wg0 carries nothing of the mesh."""
    seen = snapshot("antrea")
    wg0 = Link(name="wg0", index=9, kind="wireguard", is_up=True, mtu_bytes=1420, addresses=("192.168.9.1",))

    assert ("antrea",) == composed(msgspec.structs.replace(seen, links=(*seen.links, wg0))).profiles


def test_a_switch_in_a_process_has_no_tunnel_device():
    """Which is told, and is no loss."""
    seen = changed(without(snapshot("antrea"), "genev_sys_6081"), "antrea-gw0", kind="tun")

    view = composed(seen)

    assert "the switch is a process" in texts(view)
    assert [("openvswitch", "eth0"), ("underlay", "")] == [(each.kind, each.over) for each in view.layers]


def test_without_its_port_nothing_is_claimed():
    """Others use Open vSwitch as well: OpenStack, oVirt."""
    for kind in SWITCH_MESHES:
        view = look_for(kind)(without(snapshot(kind), GATEWAYS[kind].name), Sources(), MeshSettings(), NodeName("n1"))
        assert () == view.profiles
