"""Pods routed straight into WireGuard: a peer is the pods of a node, and nothing else."""

from netnslab.native_wireguard import FLANNEL_NATIVE, HEXMESH, endpoint_of
from netnslab.topology_file import load
from netnslab.wireguard import KeyPair

TOPOLOGY = load("flannel-native")
KEYS = {name: KeyPair(private=f"private-{name}", public=f"public-{name}") for name in TOPOLOGY.nodes}


def test_a_peer_is_the_pods_of_a_node():
    """As flannel writes it: no address beside the prefix, and an endpoint for each."""
    text = FLANNEL_NATIVE.configuration(TOPOLOGY, TOPOLOGY.nodes["c1"], KEYS)

    assert 3 == text.count("[Peer]")
    assert "AllowedIPs = 10.42.3.0/24\n" in text
    assert "10.42.0.0" not in text


def test_one_route_leads_to_the_pods_of_all():
    """Into the device that a mesh has, by whatever name."""
    assert (
        "route add 10.42.0.0/16 dev hex0 scope link proto boot"
        == HEXMESH.device_lines(TOPOLOGY, TOPOLOGY.nodes["c1"])[-1]
    )


def test_an_endpoint_is_where_a_node_is_seen_from():
    """In the LAN, by 1:1 NAT, and the NAT that has no way in."""
    c1, c2, d1, e1 = TOPOLOGY.nodes.values()

    assert ["172.31.16.12:51820", "198.51.100.51:51820", "192.0.2.31:51820"] == [
        endpoint_of(TOPOLOGY, c1, other) for other in (c2, d1, e1)
    ]
