"""A snapshot and a mesh that was found or declared become a topology, or a reason why not."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, RouteLookup, Snapshot, Vxlan, WireGuardPeer, WireGuardState
from meshwatchd.model.topology import Hop, Location, Topology
from meshwatchd.profiles import GATEWAY_MESH, OVERLAY_MESH, PROFILES, Unrecognised
from meshwatchd.profiles.compose import LOOKS
from tests.support import switch_node
from tests.support.lab_mesh import declared_mesh, direct_topology, snapshot_of, topology_of


def _link(name, kind=""):
    return Link(name=name, index=9, kind=kind, is_up=True, mtu_bytes=1420)


def _reason(snapshot, declared):
    answer = OVERLAY_MESH.recognise(snapshot, declared, NodeName("a1"))
    assert isinstance(answer, Unrecognised)
    return answer.reason


def test_every_kind_of_mesh_is_gone_through_in_the_same_way():
    """What was found are devices; whose agent made them is no gate. Workers of Submariner have no tunnel, though."""
    direct = {"antrea", "kube-ovn", "ovn-kubernetes", "cilium-clustermesh"}
    assert {"kilo", "submariner", "cilium", "flannel", "wireguard", "liqo"} | direct == set(PROFILES) == set(LOOKS)
    assert {OVERLAY_MESH} == {each for kind, each in PROFILES.items() if kind != "submariner"}
    flannel = msgspec.structs.replace(declared_mesh(), profile="flannel")
    topology = OVERLAY_MESH.recognise(snapshot_of("a1"), flannel, NodeName("a1"))
    assert isinstance(topology, Topology)
    assert "flannel" == topology.profile


def test_neighbours_are_reached_at_their_overlay_addresses():
    """With flannel: the network address of the pod CIDR, on flannel.1."""
    assert {
        "a1": Hop(via="10.244.1.0", device="flannel.1"),
        "a3": Hop(via="10.244.3.0", device="flannel.1"),
    } == topology_of("a2").hops


@pytest.mark.parametrize("ipip", ["tunl0", "cilium_tunl"])
def test_with_cilium_the_gateway_device_is_the_ipip_one(ipip):
    """A collect-metadata device takes no gateway; Kilo goes through whichever IPIP device there is."""
    declared = msgspec.structs.replace(declared_mesh(), overlay_device="cilium_vxlan")
    snapshot = Snapshot(links=(_link("kilo0"), _link("cilium_vxlan"), _link(ipip)))

    topology = OVERLAY_MESH.recognise(snapshot, declared, NodeName("a1"))

    assert isinstance(topology, Topology)
    assert Hop(via="10.244.2.0", device=ipip) == topology.hops["a2"]
    assert "cilium_vxlan" == topology.overlay_device


def test_it_says_why():
    """Each reason is a sentence for `status`."""
    why = topology_of("a3").why

    assert "kilo0 exists and is down" in why
    assert "the mesh has 2 locations; a3 is in onprem, led by a1" in why
    assert "the mesh has 2 locations; b1 leads cloud" in topology_of("b1").why


def test_a_mesh_that_nobody_declared_is_not_probed():
    """Discovery belongs to another profile; this one says what is missing."""
    assert "no mesh is known yet, neither found nor declared under [mesh]; nothing is probed" == _reason(
        snapshot_of("a1"), MeshSettings()
    )


def test_a_broken_declaration_is_a_reason_not_an_exception():
    """The core never sees the profile raise."""
    declared = msgspec.structs.replace(
        declared_mesh(), location=(Location(name=LocationName("onprem"), leader=NodeName("ghost")),)
    )

    assert "location cloud, which is not declared" in _reason(snapshot_of("a1"), declared)


@pytest.mark.parametrize(
    ("missing", "overlay", "reason"),
    [
        ("kilo0", "flannel.1", "no device kilo0 on this node; is what makes it running (Kilo, wg-quick)?"),
        ("flannel.1", "flannel.1", "no overlay device flannel.1 on this node; is the CNI running?"),
        ("tunl0", "cilium_vxlan", "cilium_vxlan needs one of cilium_tunl, tunl0, none exists"),
    ],
)
def test_a_missing_device_is_named(missing, overlay, reason):
    """One line tells what to start."""
    links = tuple(_link(name) for name in ("kilo0", "flannel.1", "cilium_vxlan", "tunl0") if name != missing)
    declared = msgspec.structs.replace(declared_mesh(), overlay_device=overlay)

    assert reason == _reason(Snapshot(links=links), declared)


def test_an_overlay_on_the_tunnel_is_direct():
    """flannel.1 bound to wg0 carries packets from node to node; on eth0 it carries them to the leader."""
    assert direct_topology("n1").is_overlay_direct
    assert not topology_of("a1").is_overlay_direct


def test_flannel_over_a_host_mesh_needs_no_tunnel():
    """What it is bound to joins every node with every other: its packets go straight there."""
    mesh = msgspec.structs.replace(declared_mesh(), profile="flannel", wireguard_device="")
    carrier = Link(name="wt0", index=40, kind="wireguard", is_up=True, mtu_bytes=1280)
    bound = msgspec.structs.replace(_link("flannel.1", "vxlan"), vxlan=Vxlan(vni=1, port=8472, lower=40))
    topology = OVERLAY_MESH.recognise(Snapshot(links=(carrier, bound)), mesh, NodeName("a3"))

    assert isinstance(topology, Topology)
    assert topology.is_overlay_direct
    assert "no device  on this node" in _reason(snapshot_of("a1"), mesh), "without either there is no such mesh"


def test_a_mesh_of_gateways_needs_no_tunnel_on_a_worker_and_has_no_standby():
    """Whatever is declared: the gateways' own rules would be before ours, their agents remove what is not theirs."""
    mesh = msgspec.structs.replace(declared_mesh(), profile="submariner", wireguard_device="")
    topology = GATEWAY_MESH.recognise(snapshot_of("a3"), mesh, NodeName("a3"))

    assert isinstance(topology, Topology)
    assert topology.is_overlay_star
    assert [(), ()] == [location.standbys for location in topology.mesh.locations]
    assert all(path.is_primary for path in topology.mesh.paths)
    assert "this node has no WireGuard device of the mesh" in topology.why


def test_pods_routed_straight_into_the_tunnel_are_direct():
    """flannel-wg is overlay and tunnel in one: no node relays for another, and nodes' own addresses are not routed."""
    mesh = msgspec.structs.replace(declared_mesh(), overlay_device="kilo0")
    topology = OVERLAY_MESH.recognise(snapshot_of("a1"), mesh, NodeName("a1"))

    assert isinstance(topology, Topology)
    assert topology.is_overlay_direct


def test_a_mesh_of_a_switch_needs_no_tunnel_and_nobody_stands_by():
    """Antrea without encryption: from node to node over the nodes' own network, and no rule of ours is there."""
    declared = switch_node.mesh("antrea")
    (first, *others), seen = declared.location, switch_node.snapshot("antrea")
    mesh = msgspec.structs.replace(declared, location=(msgspec.structs.replace(first, standbys=("n2",)), *others))
    topology = OVERLAY_MESH.recognise(seen, mesh, NodeName("n1"))

    assert isinstance(topology, Topology)
    assert (True, True, True) == (topology.is_overlay_direct, topology.is_on_underlay, topology.is_observed)
    assert {()} == {location.standbys for location in topology.mesh.locations}
    missing = msgspec.structs.replace(mesh, wireguard_device="antrea-wg0", overlay_device="antrea-wg0")
    assert isinstance(OVERLAY_MESH.recognise(seen, missing, NodeName("n1")), Unrecognised)


def test_a_host_mesh_below_is_known():
    """By what the peers of the tunnel are reached by; elsewhere there is none."""
    seen = snapshot_of("a1")
    carrier = Link(name="wt0", index=40, kind="wireguard", is_up=True, mtu_bytes=1280)
    state = WireGuardState(
        device="kilo0",
        public_key="",
        listen_port=51820,
        at_ns=0,
        peers=(WireGuardPeer(public_key="K", endpoint="100.64.0.9:51820"),),
    )
    over = msgspec.structs.replace(
        seen,
        links=(*seen.links, carrier),
        wireguard=(state,),
        lookups=(RouteLookup(address="100.64.0.9", dev="wt0"),),
    )

    for snapshot, name in ((seen, ""), (over, "wt0")):
        topology = OVERLAY_MESH.recognise(snapshot, declared_mesh(), NodeName("a1"))
        assert isinstance(topology, Topology)
        assert name == topology.carrier
