"""Crafted packets, byte by byte where the kernel and the peer look."""

from __future__ import annotations

import socket

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from meshwatchd.adapters.tap.decode import read_datagram
from meshwatchd.bisect.craft import Inner, Outer, inner_frame, ipip_packet, vxlan_frame, vxlan_packet

INNER = Inner(
    source="10.244.6.0",
    destination="10.244.4.0",
    source_port=40_000,
    destination_port=18_618,
    payload=b"probe",
    source_mac="02:4e:01:00:00:06",
    destination_mac="02:4e:01:00:00:04",
)
OUTER = Outer(source="10.2.0.13", destination="10.2.0.11", source_port=61_234, port=8472, vni=1)


def test_vxlan_header_is_that_of_rfc_7348():
    """The I flag, VNI in the upper three bytes, everything else zero; addresses and MACs as told."""
    packet = vxlan_packet(OUTER, INNER)
    read = read_datagram(packet, 8472)

    assert bytes.fromhex("0800000000000100") == packet[28:36]
    assert read is not None
    assert (b"probe", 61_234) == (read.payload, read.wrappings[0].source_port)
    assert socket.inet_aton("10.2.0.13") == read.wrappings[0].source
    assert ("024e01000006", "024e01000004") == (
        read.wrappings[0].source_mac.hex(),
        read.wrappings[0].destination_mac.hex(),
    )


def test_checksums_are_complete():
    """No device finishes them: inner and outer, IP and UDP."""
    for packet in (IP(vxlan_packet(OUTER, INNER)), Ether(inner_frame(INNER))[IP]):
        again = packet.copy()
        del again[IP].chksum, again[UDP].chksum

        assert bytes(IP(bytes(again)))[:28] == bytes(packet)[:28]
        assert packet[UDP].chksum


def test_frames_carry_their_macs():
    """The overlay's own for injection, the NIC's for the wire."""
    frame = Ether(vxlan_frame(OUTER, INNER, source_mac="02:00:00:00:00:0a", destination_mac="02:00:00:00:00:0b"))

    assert ("02:00:00:00:00:0a", "02:00:00:00:00:0b", 0x0800) == (frame.src, frame.dst, frame.type)
    assert vxlan_packet(OUTER, INNER) == bytes(frame[IP])


def test_ipip_is_protocol_4():
    """RFC 2003: the inner packet follows the outer header at once."""
    packet = ipip_packet("10.0.0.1", "10.0.0.2", INNER)

    assert (4, inner_frame(INNER)[14:]) == (packet[9], packet[20:])
