"""The text that builds two clusters of Cilium's, and what their agents' stand-ins say, without a kernel."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from meshwatchd.adapters.sources import cilium_clusters, cilium_nodes
from netnslab import cilium_agent, daemon_config
from netnslab.cilium import HOST
from netnslab.cluster_plans import cluster_gone, control_cut, datapath_cut
from netnslab.clustermesh import CLUSTER_MESH, CLUSTER_MESH_OVERLAY
from netnslab.lab import Lab
from netnslab.state_plans import Scene
from netnslab.topology_file import load
from netnslab.wan import nft_ruleset
from netnslab.wireguard import KeyPair

TOPOLOGY = load("cilium-clustermesh")
E1 = TOPOLOGY.nodes["e1"]
KEYS = {name: KeyPair(private=f"private-{name}", public=f"public-{name}") for name in TOPOLOGY.nodes}


def test_each_node_has_a_peer_for_each_other_with_its_own_addresses():
    """Of both clusters, at the addresses by which their networks are routed."""
    text = CLUSTER_MESH.configuration(TOPOLOGY, E1, KEYS)

    assert 5 == text.count("[Peer]")
    assert "Endpoint = 10.82.0.11:51871" in text
    assert "AllowedIPs = 10.82.0.11/32, 10.11.1.71/32, 10.11.1.200/32" in text


def test_vxlan_goes_into_wireguard_and_nothing_else_does():
    """By its port, from the node's own address; pods have what is left of a packet."""
    lines = CLUSTER_MESH.route_lines(TOPOLOGY, E1, CLUSTER_MESH_OVERLAY)
    plan = CLUSTER_MESH_OVERLAY.plan(TOPOLOGY, E1, pod_network=Path("/run/pod"))

    assert "rule add priority 102 ipproto udp dport 8472 lookup 2908 protocol kernel" == lines[0]
    assert "route add 10.82.0.11 dev cilium_wg0 src 10.81.0.11 proto kernel table 2908" in lines
    assert "route add 10.11.1.0/24 via 10.10.1.71 dev cilium_host proto kernel src 10.10.1.71 mtu 1355" in plan.ip
    assert not any("tunl0" in line for line in plan.ip)
    assert "0" == plan.sysctls["net/ipv4/conf/cilium_wg0/rp_filter"]


def test_the_networks_of_the_clusters_are_routed():
    """Nothing is dropped or rewritten between them."""
    text = nft_ruleset(TOPOLOGY)

    assert "drop" not in text
    assert "@outbound" not in text


def test_the_daemon_reads_what_the_agent_answers():
    """The same parsers."""
    nodes = cilium_nodes.parse(cilium_agent.nodes_text(TOPOLOGY, E1).encode())
    good = cilium_clusters.parse(cilium_agent.health_text(TOPOLOGY, E1).encode())
    health = cilium_agent.health_text(TOPOLOGY, E1)
    cut = cilium_clusters.parse(cilium_agent.changed(health, ["lose west"]).encode())

    assert nodes.own is not None
    assert ("east", "e1", "10.10.1.71", "10.10.1.200") == (
        nodes.own.cluster,
        nodes.own.name,
        nodes.own.router_ip,
        nodes.own.health_ip,
    )
    assert ["w1", "w2", "w3"] == [node.name for node in nodes.nodes if node.cluster == "west"]
    assert [("west", True)] == [(each.name, each.is_connected) for each in good.clusters]
    assert [("west", False, 7)] == [(each.name, each.is_connected, each.failures) for each in cut.clusters]
    assert {cilium_agent.NODES, cilium_agent.HEALTH} == set(CLUSTER_MESH.files(TOPOLOGY, E1, KEYS))
    assert json.loads(health) == json.loads(cilium_agent.changed(health, ["lose west", "find west"]))


def test_a_declared_mesh_has_the_clusters_as_locations():
    """And no WireGuard device of its own."""
    texts = daemon_config.files(TOPOLOGY, E1, overlay_device=HOST, standby_keys={}, mesh_key="c2VjcmV0")
    mesh = tomllib.loads(texts[daemon_config.CONFIGURATION])["mesh"]

    assert ("cilium-clustermesh", "", HOST) == (mesh["profile"], mesh["wireguard_device"], mesh["overlay_device"])
    assert [("east", "e1"), ("west", "w1")] == [(each["name"], each["leader"]) for each in mesh["location"]]
    assert not any("wireguard_ip" in node for node in mesh["node"])


def _scene():
    lab = Lab("none", TOPOLOGY, is_owner=False)
    return Scene(lab=lab, victim=E1, peer=TOPOLOGY.nodes["w3"])


def test_a_cut_between_clusters_is_at_the_router_and_spares_each_cluster():
    """Of one port, or of everything; agents are told of the latter alone."""
    datapath, gone = datapath_cut(_scene()), cluster_gone(_scene())

    assert ["wan"] == [step.place for step in datapath.do]
    assert "udp dport 51871 drop" in "\n".join(datapath.do[0].lines)
    assert 'iifname "br-*" oifname "br-*" drop' in "\n".join(gone.do[0].lines)
    assert {(name, "lose west" if name in "e1e2e3" else "lose east") for name in TOPOLOGY.nodes} == {
        (step.place, line) for step in gone.do[1:] for line in step.lines
    }
    assert {"find east", "find west"} == {line for step in gone.undo[1:] for line in step.lines}


def test_agents_of_the_victims_cluster_alone_lose_a_control_plane():
    """Those of the other one hear theirs."""
    cut = control_cut(_scene())

    assert [("e1", ("lose west",)), ("e2", ("lose west",)), ("e3", ("lose west",))] == [
        (step.place, step.lines) for step in cut.do
    ]
