"""What Submariner's, flannel's and Open vSwitch's makers would say about a verdict."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.diagnosis.owner_words import advise
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.topology import Location, Node, Topology, build_mesh

NODES = tuple(
    Node(name=NodeName(name), location=LocationName(f"site-{name[0]}1"), node_ip="", pod_cidr="", overlay_ip="")
    for name in ("a1", "a3", "b1")
)
LOCATIONS = tuple(
    Location(name=LocationName(name), leader=NodeName(leader))
    for name, leader in (("site-a1", "a1"), ("site-b1", "b1"))
)
TOPOLOGY = Topology(
    profile="submariner",
    why=(),
    local_node=NodeName("a3"),
    wireguard_device="",
    overlay_device="vx-submariner",
    mesh=build_mesh(LOCATIONS, NODES),
    hops={},
    is_overlay_star=True,
)


def verdict(fault, culprit):
    """What probes say."""
    return Verdict(
        fault=fault, layer=CATALOGUE[fault].layer, severity=CATALOGUE[fault].severity, pair=0, culprit=culprit
    )


def test_a_half_dead_gateway_is_moved_by_its_label():
    """Deleting its pod or draining the node would leave it where it is."""
    told = advise(verdict(FaultCode.OVERLAY_NEW_FLOWS, "a1"), TOPOLOGY)

    assert "kubectl label node a1 submariner.io/gateway-" in told.because[-1]
    assert told == advise(told, TOPOLOGY), "it is told once"


def test_a_workers_leg_is_that_nodes_and_no_reason_to_move_the_gateway():
    """The port, and the agent that made the device."""
    (text,) = advise(verdict(FaultCode.OVERLAY_BLACK_HOLE, "a3"), TOPOLOGY).because

    assert "UDP 4800" in text
    assert "spec.nodeName=a3" in text
    assert "submariner.io/gateway-" not in text


@pytest.mark.parametrize(("fault", "culprit"), [(FaultCode.NODE_UNREACHABLE, "a3"), (FaultCode.UNDETERMINED, "")])
def test_about_others_nothing_is_said(fault, culprit):
    """Neither where nobody is named."""
    found = verdict(fault, culprit)

    assert found is advise(found, TOPOLOGY)


def test_other_meshes_have_other_owners():
    """The same fault of a leader of Kilo's."""
    found = verdict(FaultCode.OVERLAY_NEW_FLOWS, "a1")

    assert found is advise(found, msgspec.structs.replace(TOPOLOGY, profile="kilo"))


@pytest.mark.parametrize(("device", "is_said"), [("flannel-wg", True), ("flannel.1", False)])
def test_flannel_writes_its_route_and_peers_once(device, is_said):
    """Of its wireguard backend every node says so, about the node that is named."""
    native = msgspec.structs.replace(TOPOLOGY, profile="flannel", wireguard_device="flannel-wg", overlay_device=device)
    told = advise(verdict(FaultCode.CLUSTER_ROUTE_MISSING, "b1"), native)

    assert is_said is any("spec.nodeName=b1" in each for each in told.because)
    assert told == advise(told, native), "it is told once"
    found = verdict(FaultCode.LEADER_DEAD, "b1")
    assert found is advise(found, native)


def test_a_switch_has_the_words_of_its_agents_and_of_its_checksums():
    """Its own tables are not seen, and kube-ovn#3605 is how most of its losses began."""
    switch = msgspec.structs.replace(TOPOLOGY, profile="kube-ovn", overlay_device="ovn0", is_overlay_star=False)

    (agents,) = advise(verdict(FaultCode.OVERLAY_BLACK_HOLE, "a3"), switch).because
    (checksums,) = advise(verdict(FaultCode.OFFLOAD_FAULT, "a3"), switch).because

    assert "app in (ovs,kube-ovn-cni)" in agents
    assert "spec.nodeName=a3" in agents
    assert "ethtool -K ovn0 tx off" in checksums
    assert () == advise(verdict(FaultCode.NODE_UNREACHABLE, "a3"), switch).because


def test_a_layer_of_somebody_else_below_the_tunnel_is_told():
    """Of what may have its cause there, about a node or about none; it is told once, and last."""
    carried = msgspec.structs.replace(TOPOLOGY, profile="flannel", wireguard_device="flannel-wg", carrier="nebula1")
    for culprit in ("b1", ""):
        told = advise(verdict(FaultCode.WIREGUARD_BLOCKED, culprit), carried)
        assert told.because[-1].startswith("the underlay of flannel-wg is nebula1 of Nebula: ask it at both ends (")
        assert told == advise(told, carried)
    above = verdict(FaultCode.RELAY_NOT_FORWARDING, "b1")
    assert above is advise(above, carried)


def test_cilium_is_told_of_what_it_does_not_notice():
    """Between clusters no node is named; of a node it is the agent that writes all anew."""
    mesh = msgspec.structs.replace(TOPOLOGY, profile="cilium-clustermesh", overlay_device="cilium_host")

    (cut,) = advise(verdict(FaultCode.CLUSTERMESH_DATAPATH_CUT, ""), mesh).because
    (gone,) = advise(verdict(FaultCode.CLUSTER_BACKENDS_UNREACHABLE, ""), mesh).because
    (node,) = advise(verdict(FaultCode.OVERLAY_BLACK_HOLE, "a3"), mesh).because

    assert "UDP 8472 (Geneve 6081; with WireGuard 51871)" in cut
    assert "cilium clustermesh disconnect" in gone
    assert "-l k8s-app=cilium --field-selector spec.nodeName=a3" in node
    found = verdict(FaultCode.OVERLAY_BLACK_HOLE, "")
    assert found is advise(found, mesh), "a command about a node needs one"
