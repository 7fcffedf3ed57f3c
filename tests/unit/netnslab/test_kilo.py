"""Kilo's state as text: the literal lines of a real agent."""

import pytest

from netnslab import kilo
from netnslab.flannel import FLANNEL
from netnslab.topology_file import load
from netnslab.wireguard import KeyPair

TOPOLOGY = load("kilo-flannel")
KEYS = {name: KeyPair(private=f"private-{name}", public=f"public-{name}") for name in TOPOLOGY.nodes}


def lines(name):
    """Routes and rules of one node."""
    return kilo.route_lines(TOPOLOGY, TOPOLOGY.nodes[name], FLANNEL)


def test_leader_sends_all_remote_prefixes_into_kilo0_and_delivers_by_table_1107():
    """b1: three nodes and three pod prefixes of onprem, two neighbours."""
    assert {
        "route replace 10.244.1.0/24 via 10.4.0.2 dev kilo0 proto static src 10.2.0.11 onlink",
        "route replace 10.244.2.0/24 via 10.4.0.2 dev kilo0 proto static src 10.2.0.11 onlink",
        "route replace 10.244.3.0/24 via 10.4.0.2 dev kilo0 proto static src 10.2.0.11 onlink",
        "route replace 192.168.100.11 via 10.4.0.2 dev kilo0 proto static src 10.2.0.11 onlink",
        "route replace 192.168.100.12 via 10.4.0.2 dev kilo0 proto static src 10.2.0.11 onlink",
        "route replace 192.168.100.13 via 10.4.0.2 dev kilo0 proto static src 10.2.0.11 onlink",
        "route replace 10.2.0.12 via 10.244.5.0 dev flannel.1 proto static onlink table 1107",
        "route replace 10.2.0.13 via 10.244.6.0 dev flannel.1 proto static onlink table 1107",
        "rule add to 10.2.0.12 iif kilo0 lookup 1107",
        "rule add to 10.2.0.13 iif kilo0 lookup 1107",
    } == set(lines("b1"))


def test_member_sends_all_remote_prefixes_and_wireguard_addresses_to_its_leader():
    """a3: everything by a1's overlay address; no table, no rule."""
    rendered = lines("a3")

    assert 8 == len(rendered)
    assert all(
        line.endswith("via 10.244.1.0 dev flannel.1 proto static src 192.168.100.13 onlink") for line in rendered
    )
    assert {"10.4.0.1", "10.4.0.2", "10.2.0.13", "10.244.6.0/24"} < {line.split()[2] for line in rendered}


@pytest.mark.parametrize(("name", "state"), [("a1", "up"), ("a2", "down"), ("b1", "up"), ("b3", "down")])
def test_only_leaders_have_kilo0_up(name, state):
    """Everybody has its address and MTU."""
    rendered = kilo.device_lines(TOPOLOGY, TOPOLOGY.nodes[name])

    assert "link set kilo0 mtu 1420" == rendered[0]
    assert f"address add {TOPOLOGY.location_of(name).wireguard_ip}/16 dev kilo0" == rendered[1]
    assert f"link set kilo0 {state}" == rendered[2]


def test_peer_is_the_remote_leader_with_the_own_keepalive():
    """b3 keeps what it had as a former leader: a1 as its peer, 20 s because b3 is in the cloud."""
    text = kilo.configuration(TOPOLOGY, TOPOLOGY.nodes["b3"], KEYS)

    assert "PrivateKey = private-b3" in text
    assert "PublicKey = public-a1" in text
    assert "Endpoint = 203.0.113.11:51820" in text
    assert "PersistentKeepalive = 20" in text
    assert "PersistentKeepalive" not in kilo.configuration(TOPOLOGY, TOPOLOGY.nodes["a1"], KEYS)
