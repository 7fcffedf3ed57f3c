"""Cilium recognised by its devices, its routes and its agent."""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import CiliumNode, CiliumNodes, Sources
from meshwatchd.profiles.cilium import look
from tests.support.node_states import NODE_IPS, kilo_cilium, number_of

AGENT = Sources(
    cilium=CiliumNodes(
        own_name="default/a2",
        nodes=tuple(
            CiliumNode(
                name=name,
                cluster="default",
                node_ip=node_ip,
                pod_cidr=f"10.244.{number_of(name)}.0/24",
                router_ip=f"10.244.{number_of(name)}.7{number_of(name)}",
                health_ip=f"10.244.{number_of(name)}.200",
            )
            for name, node_ip in NODE_IPS.items()
        ),
    )
)


def seen(snapshot, sources=None):
    """What Cilium's look says."""
    return look(snapshot, sources or Sources(), MeshSettings(), NodeName("a2"))


def texts(view):
    """Its reasons in one text."""
    return "\n".join(f"{finding.source}: {finding.text}" for finding in view.why)


def without(snapshot, *names):
    """The same node without some devices."""
    return msgspec.structs.replace(snapshot, links=tuple(link for link in snapshot.links if link.name not in names))


def test_a_node_is_known_by_the_kernel_alone():
    """cilium_host's address is inside the node's own pod CIDR; all other CIDRs lead there as well."""
    view = seen(kilo_cilium("a2"))

    assert (("cilium",), "10.244.2.72", "10.244.2.0/24") == (view.profiles, view.overlay_ip, view.pod_cidr)
    assert ("cilium_vxlan", "02:4e:01:00:00:02", "") == (view.overlay_device, view.vtep_mac, view.node_ip)
    assert () == view.candidates
    assert "cilium agent: the agent's socket does not answer" in texts(view)


def test_the_agent_knows_where_the_others_are():
    """Those that Kilo has routes to are in other locations."""
    view = seen(kilo_cilium("a2"), AGENT)

    assert "192.168.100.12" == view.node_ip
    assert {
        "192.168.100.11": True,
        "192.168.100.13": True,
        "10.2.0.11": False,
        "10.2.0.12": False,
        "10.2.0.13": False,
    } == {each.address: each.is_local for each in view.candidates}
    assert "it knows 6 nodes; this node is a2" in texts(view)
    assert "its health endpoint is at 10.244.2.200" in texts(view)


def test_nodes_of_other_clusters_are_elsewhere():
    """Cluster Mesh tells of them in the same list."""
    nodes = AGENT.cilium.nodes if AGENT.cilium is not None else ()
    far = CiliumNode(name="z1", cluster="other", node_ip="172.20.0.1")
    agent = Sources(cilium=CiliumNodes(own_name="default/a2", nodes=(*nodes, far)))

    assert False is {each.address: each.is_local for each in seen(kilo_cilium("a2"), agent).candidates}["172.20.0.1"]


def test_a_contradiction_between_kernel_and_agent_is_told():
    """One of them is behind."""
    moved = kilo_cilium("a3")

    assert "its address" not in texts(seen(moved, AGENT))
    assert "it says that this node's pods are in 10.244.2.0/24, the kernel routes 10.244.3.0/24" in texts(
        seen(moved, AGENT)
    )


def test_ciliums_own_encryption_is_a_layer():
    """VXLAN in WireGuard, with a device of its own."""
    state = kilo_cilium("a2")
    encryption = Link(name="cilium_wg0", index=9, kind="wireguard", is_up=True, mtu_bytes=1405)
    view = seen(msgspec.structs.replace(state, links=(*state.links, encryption)))

    assert [("vxlan", "cilium_vxlan", "cilium_wg0"), ("wireguard", "cilium_wg0", "eth0")] == [
        (layer.kind, layer.device, layer.over) for layer in view.layers
    ]
    assert "Cilium encrypts" in texts(view)


def test_cilium_without_a_tunnel_has_no_overlay_device():
    """Native routing, and Geneve is a tunnel as well."""
    native = seen(without(kilo_cilium("a2"), "cilium_vxlan"))
    geneve = Link(name="cilium_geneve", index=4, kind="geneve", is_up=True, mtu_bytes=1500)
    state = without(kilo_cilium("a2"), "cilium_vxlan")
    tunnelled = seen(msgspec.structs.replace(state, links=(*state.links, geneve)))

    assert ("", ()) == (native.overlay_device, native.layers)
    assert "Cilium routes natively" in texts(native)
    assert "cilium_geneve" == tunnelled.overlay_device


def test_a_node_without_cilium_says_so():
    """One reason, and nothing else."""
    view = seen(Snapshot())

    assert ((), "link cilium_host: there is no cilium_host: Cilium does not run here") == (view.profiles, texts(view))
