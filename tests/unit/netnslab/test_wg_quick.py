"""The wg-quick fabric: every node a peer of every other, the NAT's side calls."""

import pytest

from netnslab import wg_quick
from netnslab.errors import LabError
from netnslab.fabric import fabric_of
from netnslab.topology_file import TOPOLOGY_DIRECTORY, load, parse
from netnslab.wireguard import KeyPair

TOPOLOGY = load("flannel-wg")
KEYS = {name: KeyPair(private=f"private-{name}", public=f"public-{name}") for name in TOPOLOGY.nodes}


def file_of(name):
    """wg0.conf of one node."""
    return wg_quick.WG_QUICK.files(TOPOLOGY, TOPOLOGY.nodes[name], KEYS)[wg_quick.FILE]


def test_file_has_what_wg_quick_needs_beyond_the_keys():
    """Address and MTU are wg-quick's own; peers carry the WireGuard address only, never a pod CIDR."""
    text = file_of("c1")

    assert text.startswith(
        "[Interface]\nAddress = 10.8.0.1/24\nPrivateKey = private-c1\nListenPort = 51820\nMTU = 1420\n"
    )
    assert 3 == text.count("[Peer]")
    assert "AllowedIPs = 10.8.0.4/32" in text
    assert "10.42." not in text


def test_neighbours_are_called_on_the_lan_and_others_by_their_public_address():
    """c2 shares the LAN, d1 has a public address, e1 cannot be called."""
    _, *peers = file_of("c1").split("[Peer]")
    endpoints = [line for peer in peers for line in peer.splitlines() if line.startswith("Endpoint")]

    assert ["Endpoint = 172.31.16.12:51820", "Endpoint = 198.51.100.51:51820"] == endpoints


def test_only_the_side_behind_the_nat_keeps_it_open():
    """A keepalive for each peer on e1, none elsewhere."""
    assert 3 == file_of("e1").count("PersistentKeepalive = 25")
    assert "Keepalive" not in file_of("d1")


def test_configuration_and_file_name_the_same_peers():
    """`wg setconf` gets what wg-quick would pass on."""
    text = wg_quick.WG_QUICK.configuration(TOPOLOGY, TOPOLOGY.nodes["e1"], KEYS)

    for line in text.splitlines():
        assert line in file_of("e1").splitlines()
    assert "Address" not in text


def test_a_node_without_wireguard_address_is_refused():
    """The message names the node and the key."""
    text = (TOPOLOGY_DIRECTORY / "flannel-wg.toml").read_text(encoding="utf-8")
    before, _, after = text.rpartition('wireguard_ip = "10.8.0.4"')
    topology = parse(before + after)

    with pytest.raises(LabError, match="node e1 has no wireguard_ip"):
        wg_quick.WG_QUICK.device_lines(topology, topology.nodes["e1"])


def test_an_unknown_fabric_is_refused():
    """The message names those there are."""
    text = (TOPOLOGY_DIRECTORY / "flannel-wg.toml").read_text(encoding="utf-8").replace("wg-quick", "tinc", 2)

    with pytest.raises(LabError, match="kilo, wg-quick"):
        fabric_of(parse(text.replace('fabric = "wg-quick"', 'fabric = "tinc"')))
