"""Nebula below a mesh of the lab: who is called where, and what WireGuard's peers are called by."""

from pathlib import Path

from netnslab import native_wireguard, nebula
from netnslab.topology_file import load

TOPOLOGY = load("flannel-nebula")


def config(name, **options):
    """The lines of a node's configuration, by what stands before the first colon."""
    text = nebula.render_config(TOPOLOGY, TOPOLOGY.nodes[name], Path("/x"), **options)
    return dict(line.split(": ", 1) for line in text.splitlines())


def test_nodes_are_called_where_they_are_seen_from():
    """On the LAN, by 1:1 NAT; whoever hides calls by itself."""
    assert (
        "{'10.99.0.2': ['172.31.16.12:4242'], '10.99.0.3': ['198.51.100.51:4242']}" == config("c1")["static_host_map"]
    )
    assert 3 == config("e1")["static_host_map"].count(":4242")


def test_the_first_node_is_the_lighthouse():
    """The others ask it."""
    assert "{am_lighthouse: true, interval: 5}" == config("c1")["lighthouse"]
    assert "hosts: ['10.99.0.1']" in config("e1")["lighthouse"]


def test_a_firewall_lets_pass_what_it_is_told():
    """Both ways alike, else answers pass by its table of connections."""
    assert 2 == config("c1", protocol="icmp")["firewall"].count("proto: icmp")


def test_the_tunnel_fits_below_and_leads_there():
    """Flannel makes it 80 bytes smaller than what it runs over."""
    c1, _, _, e1 = TOPOLOGY.nodes.values()

    assert nebula.MTU_BYTES - 80 == TOPOLOGY.wireguard.mtu_bytes
    assert "10.99.0.4:51820" == native_wireguard.endpoint_of(TOPOLOGY, c1, e1)
