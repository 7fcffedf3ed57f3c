"""Cilium Cluster Mesh recognised by what the agent of one cluster says of others."""

from __future__ import annotations

import msgspec

from meshwatchd.model.cluster_mesh import ENCRYPTION
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Geneve, Link, Snapshot, Vxlan
from meshwatchd.model.sources import CiliumClusters, CiliumNodes, Sources
from meshwatchd.profiles import compose
from meshwatchd.profiles.cluster_mesh import look, outer_ports
from tests.support import node_states
from tests.support.cluster_node import (
    EAST,
    NAMES,
    cilium_node,
    node_ip,
    pods,
    router_ip,
    snapshot,
    sources,
    topology,
)


def seen(state=None, told=None):
    """What the look says."""
    return look(state or snapshot(), told or sources(), MeshSettings(), NodeName("e1"))


def composed(state=None, told=None):
    """What all looks say together."""
    return compose.look(state or snapshot(), told or sources(), MeshSettings(), NodeName("e1"))


def texts(view):
    """Its reasons in one text."""
    return "\n".join(f"{finding.source}: {finding.text}" for finding in view.why)


def test_a_cluster_is_a_location_and_each_node_leads_itself():
    """From a node's kernel and its agent, with nothing declared."""
    view = composed()

    assert ("cilium-clustermesh", "cilium") == view.profiles
    assert ("east", True, "full") == (view.location, view.is_leader, view.granularity)
    assert (node_ip("e1"), pods("e1"), router_ip("e1")) == (view.node_ip, view.pod_cidr, view.overlay_ip)
    assert ("cilium_host", "", "") == (view.overlay_device, view.wireguard_device, view.ipip_device)
    assert Trait.CLUSTERED in traits_of(view.profiles, view.traits)
    assert {node_ip(name): name in EAST for name in NAMES if name != "e1"} == {
        each.address: each.is_local for each in view.candidates
    }
    assert "cilium agent: this node is in cluster east; Cluster Mesh joins it with west (3 nodes)" in texts(view)
    assert "this mesh has no standby" in texts(view)


def test_nobody_is_said_to_lead_a_cluster():
    """The first by name stands for it, and carries nothing."""
    found = topology("e2")

    assert (True, True, True) == (found.is_clustered, found.is_overlay_direct, found.is_observed)
    assert "e2 is in east" in found.why[-1]
    assert "led by" not in " ".join(found.why)


def test_a_cluster_that_was_never_reached_counts_as_well():
    """The agent was started while the other one was away."""
    told = msgspec.structs.replace(sources(names=EAST), cilium_clusters=sources(lost=("west",)).cilium_clusters)
    view = seen(told=told)

    assert "east" == view.location
    assert "Cluster Mesh joins it with west (0 nodes)" in texts(view)


def test_a_cluster_by_itself_is_none():
    """Nor is one whose agent says no cluster's name, or nothing at all."""
    nameless = CiliumNodes(own_name="e1", nodes=(msgspec.structs.replace(cilium_node("e1"), cluster=""),))
    for told, text in (
        (
            Sources(cilium=sources(names=EAST).cilium, cilium_clusters=CiliumClusters()),
            "it knows of no cluster but east",
        ),
        (Sources(cilium=nameless), "it does not say in which cluster this node is"),
        (Sources(), "whether Cluster Mesh joins this cluster with others is not known"),
    ):
        view = seen(told=told)
        assert () == view.profiles
        assert text in texts(view)
    assert "there is no cilium_host" in texts(seen(state=Snapshot(links=snapshot().links[:1])))


def test_a_node_whose_socket_does_not_answer_is_in_no_cluster_mesh():
    """It is Cilium's all the same."""
    assert ("cilium",) == composed(told=Sources(rejected=())).profiles


def test_where_kilo_joins_locations_clusters_are_none():
    """One cluster may be at several places, and Kilo has leaders."""
    nodes = tuple(msgspec.structs.replace(cilium_node(name), cluster="default") for name in EAST)
    own = msgspec.structs.replace(nodes[0], name="a2", node_ip="192.168.100.12")
    agent = Sources(cilium=CiliumNodes(own_name="default/a2", nodes=(own, *nodes[1:], cilium_node("w1"))))
    view = compose.look(node_states.kilo_cilium("a2"), agent, MeshSettings(), NodeName("a2"))

    assert ("kilo", "cilium") == view.profiles
    assert "default" != view.location
    assert "kilo joins this node with others" in texts(view)


def test_wireguard_below_the_clusters_is_no_mesh_of_its_own():
    """Nodes that go by addresses in a tunnel of their administrators."""
    state = snapshot()
    links = [msgspec.structs.replace(link, addresses=()) if link.name == "eth0" else link for link in state.links]
    tunnel = Link(
        name="wg9",
        index=9,
        kind="wireguard",
        is_up=True,
        mtu_bytes=1420,
        addresses=(node_ip("e1"),),
        prefix_lengths=(24,),
    )
    view = composed(state=msgspec.structs.replace(state, links=(*links, tunnel)))

    assert ("cilium-clustermesh", "cilium") == view.profiles
    assert "" == view.wireguard_device
    assert "is below Cilium's clusters" in texts(view)


def test_outer_packets_go_to_the_ports_of_the_devices_that_are_up():
    """VXLAN's or Geneve's own, and WireGuard's; Cilium's defaults where a device does not say."""
    assert (8472, 51_871) == outer_ports(snapshot("e1"))
    plain = tuple(each for each in snapshot("e1").links if each.name != ENCRYPTION)
    assert (8472,) == outer_ports(Snapshot(links=plain))
    geneve = Link(
        name="cilium_geneve", index=9, kind="geneve", is_up=True, mtu_bytes=1450, geneve=Geneve(vni=0, port=7000)
    )
    assert (7000,) == outer_ports(Snapshot(links=(geneve,)))
    silent = msgspec.structs.replace(geneve, geneve=None)
    assert (6081,) == outer_ports(Snapshot(links=(silent,)))
    own = Link(name="hex0", index=9, kind="vxlan", is_up=True, mtu_bytes=1450, vxlan=Vxlan(vni=1, port=4789))
    assert (4789,) == outer_ports(Snapshot(links=(own,)), "hex0")
    assert () == outer_ports(Snapshot(links=(own,)))
    assert (8472, 51_871) == outer_ports(snapshot("e1"), "cilium_host")
    down = msgspec.structs.replace(geneve, is_up=False)
    assert () == outer_ports(Snapshot(links=(down,)))
