"""Plain WireGuard with BIRD and FRR: who speaks to whom, and what a peer may carry."""

from netnslab.bgp import BGP, FILE, FRR_FILE, bird_conf, frr_conf
from netnslab.topology_file import load
from netnslab.wg_quick import FILE as WG_FILE
from netnslab.wireguard import KeyPair

TOPOLOGY = load("wireguard-bgp")
KEYS = {name: KeyPair(private=f"private-{name}", public=f"public-{name}") for name in TOPOLOGY.nodes}


def test_a_peer_carries_a_nodes_address_and_its_pods():
    """BIRD routes the pods, and WireGuard has to let them pass."""
    text = BGP.configuration(TOPOLOGY, TOPOLOGY.nodes["a1"], KEYS)

    assert 3 == text.count("[Peer]")
    assert "AllowedIPs = 10.8.0.3/32, 10.42.2.0/24\nEndpoint = 198.51.100.51:51820\n" in text


def test_every_node_speaks_with_every_other_in_its_sites_own_system():
    """Two sites are two autonomous systems; each session is named after the other node."""
    text = bird_conf(TOPOLOGY, TOPOLOGY.nodes["a1"])

    assert "local 10.8.0.1 as 64512;" in text
    assert "protocol bgp a2 from node { neighbor 10.8.0.2 as 64512; }" in text
    assert "protocol bgp b2 from node { neighbor 10.8.0.4 as 64513; }" in text
    assert "protocol bgp a1" not in text


def test_frr_tells_every_other_of_its_own_pods_alone():
    """What it has learned from others it would tell on, and a dead tunnel would have a way around it."""
    text = frr_conf(TOPOLOGY, TOPOLOGY.nodes["b1"])

    assert "router bgp 64513\n bgp router-id 10.8.0.3\n" in text
    for neighbour, number in (("10.8.0.1", 64512), ("10.8.0.2", 64512), ("10.8.0.4", 64513)):
        assert f" neighbor {neighbour} remote-as {number}\n" in text
        assert f"  neighbor {neighbour} prefix-list pods out\n" in text
    assert "neighbor 10.8.0.3" not in text
    assert "prefix-list pods permit 10.42.2.0/24\n" in text


def test_files_are_wg_quicks_and_the_routing_daemons():
    """Which has one runs: BIRD in the first location, FRR in the other. There is no K3s to say what flannel does."""
    for name, file in (("a1", FILE), ("a2", FILE), ("b1", FRR_FILE), ("b2", FRR_FILE)):
        assert {WG_FILE, file} == set(BGP.files(TOPOLOGY, TOPOLOGY.nodes[name], KEYS))
    assert [FILE, FRR_FILE, FRR_FILE] == [each.file for each in BGP.programs]
    assert () == BGP.route_lines(TOPOLOGY, TOPOLOGY.nodes["a1"], None)  # type: ignore[arg-type]  # it needs none
