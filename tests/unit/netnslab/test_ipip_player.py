"""IPIP as a process plays it, packet by packet."""

from __future__ import annotations

from ipaddress import IPv4Address

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from netnslab.ipip_player import OWN_MAC, answer, decapsulate, encapsulate

KERNEL = "02:49:ff:ff:ff:ff"
NEXT_HOP = "10.244.4.74"
NEXT_HOP_MAC = "02:49:0a:f4:04:4a"


def _packet(**header):
    return IP(src="10.2.0.13", dst="192.168.100.13", **header) / UDP(sport=1, dport=2) / b"payload"


def test_any_next_hop_has_a_link_address_with_the_next_hop_in_it():
    """The kernel asks by ARP and gets what brings the next hop back in each frame."""
    request = Ether(src=KERNEL, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=KERNEL, psrc="10.2.0.13", pdst=NEXT_HOP)
    reply = answer(bytes(request))

    assert reply is not None
    told = Ether(reply)
    assert (KERNEL, NEXT_HOP_MAC) == (told.dst, told.src)
    assert (2, NEXT_HOP_MAC, NEXT_HOP, KERNEL, "10.2.0.13") == (
        told[ARP].op,
        told[ARP].hwsrc,
        told[ARP].psrc,
        told[ARP].hwdst,
        told[ARP].pdst,
    )


def test_what_is_no_question_for_a_next_hop_is_not_answered():
    """Neither packets nor answers are."""
    assert answer(bytes(Ether(dst=NEXT_HOP_MAC) / _packet())) is None
    assert answer(bytes(Ether() / ARP(op=2, pdst=NEXT_HOP))) is None
    assert answer(b"") is None


def test_a_packet_goes_to_its_next_hop_in_one_more_header():
    """TTL and DF are the packet's own; source, number and checksum are filled in by the kernel."""
    inner = bytes(_packet(ttl=61, flags="DF"))
    wrapped = encapsulate(bytes(Ether(src=KERNEL, dst=NEXT_HOP_MAC, type=0x0800)) + inner)

    assert wrapped is not None
    packet, next_hop = wrapped
    outer = IP(packet)
    assert IPv4Address(NEXT_HOP).packed == next_hop
    assert (NEXT_HOP, 4, 61, "DF", 20 + len(inner)) == (outer.dst, outer.proto, outer.ttl, outer.flags, outer.len)
    assert inner == packet[20:]

    divisible = encapsulate(bytes(Ether(dst=NEXT_HOP_MAC, type=0x0800) / _packet()))
    assert divisible is not None
    assert "DF" != IP(divisible[0]).flags


def test_frames_for_nobody_stay_here():
    """Broadcasts, other protocols and halves of packets have no next hop."""
    assert encapsulate(bytes(Ether(dst="ff:ff:ff:ff:ff:ff", type=0x0800) / _packet())) is None
    assert encapsulate(bytes(Ether(dst=NEXT_HOP_MAC, type=0x86DD)) + bytes(60)) is None
    assert encapsulate(bytes(Ether(dst=NEXT_HOP_MAC, type=0x0800)) + bytes(10)) is None


def test_what_comes_in_is_what_was_sent():
    """Behind an outer header of any length; who sent it is in the frame's source."""
    inner = bytes(_packet())
    for options in (b"", b"\x94\x04\x00\x00"):
        outer = bytearray(bytes(IP(src=NEXT_HOP, dst="10.244.6.76", proto=4)) + options)
        outer[0] += len(options) // 4
        frame = decapsulate(bytes(outer) + inner)
        assert frame is not None
        assert OWN_MAC == frame[:6]
        assert (NEXT_HOP_MAC, 0x0800, inner) == (Ether(frame).src, Ether(frame).type, frame[14:])
    assert decapsulate(bytes(IP(src=NEXT_HOP, proto=4)) + b"\x60" + bytes(39)) is None
    assert decapsulate(bytes(IP(src=NEXT_HOP, proto=4)) + b"\x45") is None
