"""Wrapped packets come apart as scapy put them together; whatever else comes is no error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

from meshwatchd.adapters.tap.decode import Datagram, Wrapping, read_datagram

VXLAN_PORT = 8472
addresses = st.ip_addresses(v=4)
ports = st.integers(1, 65_535).filter(lambda port: port not in {VXLAN_PORT, 6081, 4789})
macs = st.binary(min_size=6, max_size=6)
vnis = st.integers(0, (1 << 24) - 1)


@st.composite
def wrapped(draw):
    """A datagram in up to two encapsulations: scapy's bytes, and what must be read."""
    source, destination = draw(addresses), draw(addresses)
    sport, dport, payload = draw(ports), draw(ports), draw(st.binary(max_size=64))
    packet = IP(src=str(source), dst=str(destination)) / UDP(sport=sport, dport=dport) / payload
    around: list[Wrapping] = []
    for kind in reversed(draw(st.lists(st.sampled_from(["vxlan", "geneve", "ipip"]), max_size=2))):
        outer_source, outer_destination = draw(addresses), draw(addresses)
        ip = IP(src=str(outer_source), dst=str(outer_destination))
        fields = {"kind": kind, "source": outer_source.packed, "destination": outer_destination.packed}
        if kind == "ipip":
            packet = ip / packet
            around.insert(0, Wrapping(**fields))
            continue
        one, other, vni, outer_port = draw(macs), draw(macs), draw(vnis), draw(ports)
        frame = Ether(src=one.hex(":"), dst=other.hex(":"), type=0x0800) / packet
        tunnel = VXLAN(flags=8, vni=vni) if kind == "vxlan" else GENEVE(proto=0x6558, vni=vni)
        port = VXLAN_PORT if kind == "vxlan" else 6081
        packet = ip / UDP(sport=outer_port, dport=port) / tunnel / frame
        around.insert(0, Wrapping(**fields, source_port=outer_port, vni=vni, source_mac=one, destination_mac=other))
    expected = Datagram(
        source=source.packed,
        destination=destination.packed,
        source_port=sport,
        destination_port=dport,
        payload=payload,
        wrappings=tuple(around),
    )
    return bytes(packet), expected


@given(wrapped())
def test_what_scapy_wraps_is_unwrapped(case):
    """Addresses, ports, MACs, VNIs and the payload, outermost first."""
    packet, expected = case

    assert expected == read_datagram(packet, VXLAN_PORT)


@given(wrapped(), st.integers(0, 200))
def test_a_cut_packet_is_read_as_far_as_it_goes(case, length):
    """A snap length may cut the payload; a cut header makes no datagram, and nothing raises."""
    packet, expected = case
    read = read_datagram(packet[:length], VXLAN_PORT)

    if read is not None and len(read.wrappings) == len(expected.wrappings):
        assert expected.payload.startswith(read.payload)
        assert (expected.source, expected.destination_port) == (read.source, read.destination_port)


@given(st.binary(max_size=128))
def test_anything_else_is_no_error(data):
    """Whatever passes a device."""
    read_datagram(data, VXLAN_PORT)
    read_datagram(b"\x45" + data, VXLAN_PORT)


def test_fragments_and_other_protocols_are_left():
    """The second fragment has no UDP header, TCP no datagram, an inner ARP no IP header."""
    inner = IP(src="10.0.0.1", dst="10.0.0.2", frag=3) / UDP(sport=1, dport=2)
    arp = IP() / UDP(dport=VXLAN_PORT) / VXLAN(flags=8, vni=1) / Ether(type=0x0806) / (b"\0" * 28)

    assert read_datagram(bytes(inner), VXLAN_PORT) is None
    assert read_datagram(bytes(IP(src="10.0.0.1", dst="10.0.0.2", proto=6) / (b"\0" * 20)), VXLAN_PORT) is None
    assert read_datagram(bytes(arp), VXLAN_PORT) is None


def test_geneve_options_are_skipped():
    """Their length is in words of four bytes."""
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
    header = bytes.fromhex("0200655800000700") + bytes(8)
    packet = bytes(IP() / UDP(dport=6081) / (header + bytes(frame / UDP(sport=5, dport=6) / b"x")))
    read = read_datagram(packet, VXLAN_PORT)

    assert read is not None
    assert ("geneve", 7, b"x") == (read.wrappings[0].kind, read.wrappings[0].vni, read.payload)


def test_a_matryoshka_ends():
    """More wrappings than any mesh has are not followed."""
    packet = IP() / UDP(sport=1, dport=2)
    for _ in range(8):
        packet = IP() / packet

    assert read_datagram(bytes(packet), VXLAN_PORT) is None
