"""The text that builds Submariner's kernel state, without a kernel."""

from __future__ import annotations

import tomllib
from pathlib import Path

from netnslab import daemon_config
from netnslab.submariner import SUBMARINER, SUBMARINER_OVERLAY
from netnslab.topology_file import load
from netnslab.wireguard import KeyPair

TOPOLOGY = load("submariner")
GATEWAY, WORKER = TOPOLOGY.nodes["a1"], TOPOLOGY.nodes["a3"]
KEYS = {name: KeyPair(private=f"private-{name}", public=f"public-{name}") for name in TOPOLOGY.nodes}


def plan_of(node):
    """The pod network of one node."""
    return SUBMARINER_OVERLAY.plan(TOPOLOGY, node, pod_network=Path("/run/pod"))


def test_the_address_in_vx_submariner_is_240_and_the_rest_of_the_nodes():
    """The route agent computes it from the node's own address."""
    for node in TOPOLOGY.nodes.values():
        assert "240." + node.node_ip.partition(".")[2] == node.overlay_ip


def test_a_worker_sends_all_frames_to_the_gateway():
    """Its device has the gateway as its group; the gateway's has none, and an entry for each node."""
    assert any("id 100 remote 192.168.100.11 dstport 4800" in line for line in plan_of(WORKER).ip)
    assert () == plan_of(WORKER).bridge
    assert not any(" remote " in line for line in plan_of(GATEWAY).ip)
    assert 3 == len(plan_of(GATEWAY).bridge)


def test_a_worker_routes_the_other_cluster_by_way_of_the_gateway():
    """Pods and services of the other cluster, in the main table."""
    assert (
        "route add 10.245.0.0/16 via 240.168.100.11 dev vx-submariner proto static",
        "route add 10.97.0.0/16 via 240.168.100.11 dev vx-submariner proto static",
    ) == SUBMARINER.route_lines(TOPOLOGY, WORKER, SUBMARINER_OVERLAY)


def test_the_gateway_has_a_table_of_its_own():
    """Rule and table 150 lead into the cable, from the gateway's address among its pods."""
    assert (
        "rule add pref 150 lookup 150",
        "route add 10.245.0.0/16 dev submariner src 10.244.1.1 scope link proto static table 150",
        "route add 10.97.0.0/16 dev submariner src 10.244.1.1 scope link proto static table 150",
    ) == SUBMARINER.route_lines(TOPOLOGY, GATEWAY, SUBMARINER_OVERLAY)


def test_the_cable_joins_the_gateways_alone():
    """One peer with the prefixes of the other cluster, kept alive as Submariner's driver does."""
    text = SUBMARINER.configuration(TOPOLOGY, GATEWAY, KEYS)

    assert ["a1", "b1"] == [name for name, node in TOPOLOGY.nodes.items() if SUBMARINER.has_device(TOPOLOGY, node)]
    assert 1 == text.count("[Peer]")
    assert "AllowedIPs = 10.245.0.0/16, 10.97.0.0/16\nEndpoint = 198.51.100.21:4500\nPersistentKeepalive = 10" in text


def test_the_daemons_file_names_addresses_that_the_other_cluster_reaches():
    """A node goes by its address among its pods; nobody stands by, and workers have no cable."""
    text = daemon_config.render(TOPOLOGY, WORKER, overlay_device="vx-submariner", ipip_device="", standby_keys={})
    mesh = tomllib.loads(text)["mesh"]

    assert () == daemon_config.standby_nodes(TOPOLOGY)
    assert ("submariner", "", "vx-submariner") == (mesh["profile"], mesh["wireguard_device"], mesh["overlay_device"])
    assert ["10.244.1.1", "10.244.2.1"] == [node["node_ip"] for node in mesh["node"][:2]]
