"""What is inside what, told from bytes; scapy is the oracle that makes them."""

from __future__ import annotations

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN

from netnslab.capture import dissect

PING = IP(src="10.244.6.2", dst="10.244.3.2") / ICMP()
IN_VXLAN = IP(src="10.2.0.13", dst="10.2.0.11") / UDP(sport=40000, dport=8472) / VXLAN(vni=6)


def test_packets_in_packets_are_named_from_the_outside_in():
    """The whole stack of a pod's packet on its way to the leader under Cilium."""
    ipip = IP(src="10.244.6.76", dst="10.244.4.74", proto=4)
    pods_vxlan = IP(src="10.2.0.13", dst="192.168.100.13") / UDP(sport=50000, dport=8472) / VXLAN(vni=26001)
    packet = IN_VXLAN / Ether() / ipip / pods_vxlan / Ether() / PING

    assert [
        "vxlan 6 10.2.0.13 > 10.2.0.11",
        "ipip 10.244.6.76 > 10.244.4.74",
        "vxlan 26001 10.2.0.13 > 192.168.100.13",
        "icmp 10.244.6.2 > 10.244.3.2",
    ] == list(dissect(bytes(packet)))


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=51820, dport=33000), "wireguard 10.0.0.1 > 10.0.0.2"),
        (IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=53), "udp 10.0.0.1 > 10.0.0.2"),
        (IP(src="10.0.0.1", dst="10.0.0.2") / TCP(), "tcp 10.0.0.1 > 10.0.0.2"),
        (IP(src="10.0.0.1", dst="10.0.0.2", proto=47), "47 10.0.0.1 > 10.0.0.2"),
        (IP(src="10.0.0.1", dst="10.0.0.2", frag=100, proto=17), "fragment 10.0.0.1 > 10.0.0.2"),
        (IN_VXLAN / Ether() / ARP(), "vxlan 6 10.2.0.13 > 10.2.0.11"),
    ],
    ids=["wireguard", "udp", "tcp", "unknown", "later fragment", "vxlan without ip"],
)
def test_a_single_layer_is_named(packet, expected):
    """Ports tell WireGuard and VXLAN from other UDP; what is not IPv4 inside is left alone."""
    assert [expected] == list(dissect(bytes(packet)))


def test_options_of_the_ip_header_are_stepped_over():
    """The header's length is what it says, not always twenty bytes."""
    packet = IP(src="10.0.0.1", dst="10.0.0.2", options=b"\x01" * 8, proto=4) / PING

    assert ["ipip 10.0.0.1 > 10.0.0.2", "icmp 10.244.6.2 > 10.244.3.2"] == list(dissect(bytes(packet)))
