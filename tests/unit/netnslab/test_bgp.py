"""Plain WireGuard with BIRD: who speaks to whom, and what a peer may carry."""

from netnslab.bgp import BGP, FILE, bird_conf
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
    text = bird_conf(TOPOLOGY, TOPOLOGY.nodes["b1"])

    assert "local 10.8.0.3 as 64513;" in text
    assert "protocol bgp a2 from node { neighbor 10.8.0.2 as 64512; }" in text
    assert "protocol bgp b2 from node { neighbor 10.8.0.4 as 64513; }" in text
    assert "protocol bgp b1" not in text


def test_files_are_wg_quicks_and_birds():
    """There is no K3s that would say what flannel does."""
    assert {WG_FILE, FILE} == set(BGP.files(TOPOLOGY, TOPOLOGY.nodes["a1"], KEYS))
    assert () == BGP.route_lines(TOPOLOGY, TOPOLOGY.nodes["a1"], None)  # type: ignore[arg-type]  # it needs none
