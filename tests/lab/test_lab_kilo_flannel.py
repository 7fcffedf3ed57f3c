"""The lab itself: a mesh that Kilo would recognise as its own, with packets that really cross it."""

import itertools
import stat
import subprocess
import tomllib
from pathlib import Path

import msgspec
import pytest

from meshwatchd.model.settings import Settings
from meshwatchd.model.topology import build_mesh
from netnslab import Lab
from tests.support.mesh import flow, packets, pings, tcp_exchanges, udp_socket

pytestmark = pytest.mark.lab

NODES = ("a1", "a2", "a3", "b1", "b2", "b3")

ROUTES_A1 = """
default via 192.168.100.1 dev eth0
10.2.0.11 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.2.0.12 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.2.0.13 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.4.0.0/16 dev kilo0 proto kernel scope link src 10.4.0.2
10.244.1.0/24 dev cni0 proto kernel scope link src 10.244.1.1
10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink
10.244.3.0/24 via 10.244.3.0 dev flannel.1 onlink
10.244.4.0/24 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.244.5.0/24 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.244.6.0/24 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
192.168.100.0/24 dev eth0 proto kernel scope link src 192.168.100.11
"""

ROUTES_B3 = """
default via 10.2.0.1 dev eth0
10.2.0.0/24 dev eth0 proto kernel scope link src 10.2.0.13
10.4.0.1 via 10.244.4.0 dev flannel.1 proto static src 10.2.0.13 onlink
10.4.0.2 via 10.244.4.0 dev flannel.1 proto static src 10.2.0.13 onlink
10.244.1.0/24 via 10.244.4.0 dev flannel.1 proto static src 10.2.0.13 onlink
10.244.2.0/24 via 10.244.4.0 dev flannel.1 proto static src 10.2.0.13 onlink
10.244.3.0/24 via 10.244.4.0 dev flannel.1 proto static src 10.2.0.13 onlink
10.244.4.0/24 via 10.244.4.0 dev flannel.1 onlink
10.244.5.0/24 via 10.244.5.0 dev flannel.1 onlink
10.244.6.0/24 dev cni0 proto kernel scope link src 10.244.6.1
192.168.100.11 via 10.244.4.0 dev flannel.1 proto static src 10.2.0.13 onlink
192.168.100.12 via 10.244.4.0 dev flannel.1 proto static src 10.2.0.13 onlink
192.168.100.13 via 10.244.4.0 dev flannel.1 proto static src 10.2.0.13 onlink
"""

TABLE_1107_A1 = """
192.168.100.12 via 10.244.2.0 dev flannel.1 proto static onlink
192.168.100.13 via 10.244.3.0 dev flannel.1 proto static onlink
"""

RULES_A1 = """
0: from all lookup local
32764: from all to 192.168.100.13 iif kilo0 lookup 1107
32765: from all to 192.168.100.12 iif kilo0 lookup 1107
32766: from all lookup main
32767: from all lookup default
"""


@pytest.fixture(scope="module")
def lab():
    """One mesh for all tests of this file; a machine where none can be built fails them."""
    with Lab.up("kilo-flannel") as mesh:
        yield mesh


def lines(text):
    """Lines without blanks at the ends or in rows, without empty ones."""
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


def output(lab, node, *argv):
    """What a command prints on a node."""
    return lab.node(node).run(argv, check=True).stdout


def test_every_pod_reaches_every_other_by_ping_and_tcp(lab):
    """Thirty ordered pairs; those across the mesh cross two overlays and the tunnel."""
    unreached = [
        pair
        for pair in itertools.permutations(NODES, 2)
        if not (pings(lab.pod(pair[0]), lab.pod(pair[1]).ip) and tcp_exchanges(lab.pod(pair[0]), lab.pod(pair[1])))
    ]

    assert [] == unreached


def test_leaders_reach_each_other_by_wireguard_address(lab):
    """kilo0 alone: from its address to the other's."""
    assert pings(lab.node("a1"), "10.4.0.1")
    assert pings(lab.node("b1"), "10.4.0.2")


@pytest.mark.parametrize(
    ("node", "command", "expected"),
    [
        ("a1", "ip route", ROUTES_A1),
        ("b3", "ip route", ROUTES_B3),
        ("a1", "ip route show table 1107", TABLE_1107_A1),
        ("a1", "ip rule", RULES_A1),
        ("b3", "ip rule", "0: from all lookup local\n32766: from all lookup main\n32767: from all lookup default"),
    ],
)
def test_kernel_state_is_literally_that_of_real_kilo(lab, node, command, expected):
    """Line by line what Kilo with --compatibility=flannel was seen to leave."""
    assert lines(expected) == lines(output(lab, node, *command.split()))


def test_kilo0_is_up_on_leaders_and_down_with_leftovers_elsewhere(lab):
    """Address and peers say nothing about leadership; the UP flag does."""
    up = {node for node in NODES if "UP" in output(lab, node, "ip", "link", "show", "up", "dev", "kilo0")}

    assert {"a1", "b1"} == up
    for node in NODES:
        segment_ip = lab.topology.location_of(node).wireguard_ip
        assert f"{segment_ip}/16" in output(lab, node, "ip", "-br", "address", "show", "kilo0")
        assert 1 == len(output(lab, node, "wg", "show", "kilo0", "peers").splitlines())
        assert "mtu 1420" in output(lab, node, "ip", "link", "show", "kilo0")


def test_allowed_ips_are_pods_nodes_and_segment_of_the_other_location(lab):
    """In the order Kilo writes them."""
    allowed = output(lab, "a1", "wg", "show", "kilo0", "allowed-ips").split("\t")[1].split()

    assert [
        "10.244.4.0/24",
        "10.2.0.11/32",
        "10.244.5.0/24",
        "10.2.0.12/32",
        "10.244.6.0/24",
        "10.2.0.13/32",
        "10.4.0.1/32",
    ] == allowed
    assert "20" in output(lab, "b1", "wg", "show", "kilo0", "persistent-keepalive")
    assert "off" in output(lab, "a1", "wg", "show", "kilo0", "persistent-keepalive")


def test_flannel_knows_every_other_node(lab):
    """One permanent neighbour and one permanent FDB entry for each of the five others; nothing is learned."""
    fdb = lines(output(lab, "b3", "bridge", "fdb", "show", "dev", "flannel.1"))
    neighbours = lines(output(lab, "b3", "ip", "neighbour", "show", "dev", "flannel.1"))
    details = output(lab, "b3", "ip", "-d", "link", "show", "flannel.1")

    assert 5 == len([line for line in fdb if line.endswith("self permanent") and " dst " in line])
    assert 5 == len([line for line in neighbours if line.endswith("PERMANENT")])
    assert "mtu 1450" in details
    for attribute in ("vxlan id 1 local 10.2.0.13 dev eth0", "dstport 8472", "nolearning"):
        assert attribute in details


def test_node_traffic_crosses_overlay_tunnel_overlay_both_ways(lab):
    """A datagram from b3's node address to a3's, and its answer: VXLAN, WireGuard, VXLAN, and nothing else."""
    crossed = [("b3", "flannel.1"), ("b1", "flannel.1"), ("b1", "kilo0")]
    crossed += [("a1", "kilo0"), ("a1", "flannel.1"), ("a3", "flannel.1")]
    count = 50

    with flow(lab.node("b3"), lab.node("a3")) as datagrams:
        assert datagrams.echoes_eventually()
        before = {place: packets(lab.node(place[0]), place[1]) for place in crossed}
        answered = sum(datagrams.echoes() for _ in range(count))
        after = {place: packets(lab.node(place[0]), place[1]) for place in crossed}

    assert count == answered
    for place in crossed:
        received, sent = (after[place][way] - before[place][way] for way in (0, 1))
        assert received >= count, place
        assert sent >= count, place


def test_private_addresses_do_not_cross_the_wide_area(lab):
    """What escapes the mesh is lost: a packet for b3 that leaves a3 by its NIC is never delivered."""
    with udp_socket(lab.node("a3")) as near, udp_socket(lab.node("b3"), 7777) as far:
        output(lab, "a3", "ip", "rule", "add", "priority", "10", "ipproto", "17", "dport", "7777", "lookup", "10")
        output(lab, "a3", "ip", "route", "add", "default", "via", "192.168.100.1", "table", "10")
        try:
            near.sendto(b"escaped", (lab.node("b3").ip, 7777))
            with pytest.raises(TimeoutError):
                far.recv(100)
        finally:
            output(lab, "a3", "ip", "rule", "delete", "priority", "10")
            output(lab, "a3", "ip", "route", "flush", "table", "10")


def test_each_node_has_a_name_and_files_of_its_own(lab):
    """Same paths everywhere, different content; secrets are root's alone."""
    for node in NODES:
        assert f"{node}\n" == output(lab, node, "hostname")
        assert "kilo0" in output(lab, node, "ls", "/sys/class/net").split()
        for path in ("/etc/meshwatchd/mesh.key", "/etc/meshwatchd/meshwatchd.toml"):
            mode = lab.node(node).space.call(Path(path).stat).st_mode
            assert 0o600 == stat.S_IMODE(mode)
    assert 1 == len({output(lab, node, "cat", "/etc/meshwatchd/mesh.key") for node in NODES})


def test_daemon_configuration_describes_this_mesh(lab):
    """The daemon's own types accept it, and the published standby keys belong to the private ones."""
    for node in NODES:
        text = output(lab, node, "cat", "/etc/meshwatchd/meshwatchd.toml")
        settings = msgspec.convert(tomllib.loads(text), Settings)
        mesh = build_mesh(settings.mesh.location, settings.mesh.node)

        assert node == settings.daemon.node
        assert 5 == len(mesh.paths)
        assert lab.topology.nodes[node].public_ip == mesh.node(node).standby_endpoint
        if mesh.node(node).standby_public_key is not None:
            private = output(lab, node, "cat", "/var/lib/meshwatchd/standby.key")
            public = subprocess.run(["wg", "pubkey"], input=private, capture_output=True, text=True, check=True)
            assert mesh.node(node).standby_public_key == public.stdout.strip()
