"""The wide area: 1:1 NAT for those with a public address, and no way across for anybody else."""

from pathlib import Path

from netnslab import wan
from netnslab.topology_file import load

TOPOLOGY = load("kilo-flannel")


def test_each_node_has_a_cable_to_the_switch_of_its_lan():
    """Switch ports are named after the node."""
    lines = wan.link_lines(TOPOLOGY, {name: Path(f"/run/x/{name}.net") for name in TOPOLOGY.nodes})

    assert ("link add b1-eth0 type veth peer name eth0 address 02:4e:00:00:00:04 netns /run/x/b1.net") in lines
    assert "link set b1-eth0 master br-cloud up" in lines
    assert "link set a3-eth0 master br-onprem up" in lines


def test_only_public_nodes_are_translated_and_private_addresses_are_dropped():
    """Four elements each way; both LANs refuse the other's private prefix."""
    rules = wan.nft_ruleset(TOPOLOGY)

    assert "198.51.100.21 : 10.2.0.11" in rules
    assert "10.2.0.11 : 198.51.100.21" in rules
    assert "10.2.0.13" not in rules
    assert 'iifname "br-onprem" ip daddr { 10.2.0.0/24 } drop' in rules
    assert 'iifname "br-cloud" ip daddr { 192.168.100.0/24 } drop' in rules


def test_a_location_behind_one_address_is_hidden_by_a_table_of_connections():
    """Only such a topology tracks connections at all."""
    rules = wan.nft_ruleset(load("flannel-wg"))

    assert "ip saddr 192.168.8.0/24 meta l4proto { tcp, udp } snat to 192.0.2.31:20000-39999 random" in rules
    assert "type nat" not in wan.nft_ruleset(TOPOLOGY)
