"""The filter, run by this machine's kernel on a pair of sockets: no privilege, and no interpreter of ours."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN

from meshwatchd.adapters import bpf
from meshwatchd.adapters.tap.filter import SNAP_BYTES, Wanted, tap_program
from meshwatchd.model.port_map import TAPPED_PORTS

PORT, VXLAN_PORT = 18618, 8472
PEER, VTEP, OTHER = "10.244.4.0", "10.2.0.11", "10.244.9.9"
WANTED = Wanted(
    addresses=(socket.inet_aton(PEER), socket.inet_aton(VTEP)),
    port=PORT,
    vxlan_port=VXLAN_PORT,
    next_hop=socket.inet_aton(VTEP),
)
MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}


@contextmanager
def filtered(wanted: Wanted) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A pair of sockets, the second behind the filter."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        bpf.attach(other, bpf.assemble(tap_program(wanted)))
        other.setblocking(False)
        yield one, other


def passes(packet: bytes, wanted: Wanted = WANTED) -> bool:
    """Whether the kernel lets it through."""
    with filtered(wanted) as (one, other):
        one.send(packet)
        try:
            return bool(other.recv(65_536))
        except BlockingIOError:
            return False


def probe(source: str = "10.244.6.0", destination: str = PEER, sport: int = 40_000, dport: int = PORT):
    """A probe as scapy builds it."""
    return IP(src=source, dst=destination) / UDP(sport=sport, dport=dport) / bytes(232)


def wrap(kind: str, packet):
    """The packet in an encapsulation."""
    outer = IP(src="10.2.0.13", dst=VTEP)
    if kind == "plain":
        return packet
    if kind == "ipip":
        return outer / packet
    if kind == "vxlan":
        return outer / UDP(sport=33_333, dport=VXLAN_PORT) / VXLAN(flags=8, vni=1) / Ether(**MACS) / packet
    if kind == "geneve":
        return outer / UDP(sport=33_333, dport=6081) / GENEVE(proto=0x6558, vni=1) / Ether(**MACS) / packet
    if kind == "vxlan-ipip":
        return wrap("vxlan", IP(src="10.244.6.0", dst=PEER) / packet)
    assert kind == "geneve-ipip"
    return wrap("geneve", IP(src="10.244.6.0", dst=PEER) / packet)


KINDS = ("plain", "ipip", "vxlan", "geneve", "vxlan-ipip", "geneve-ipip")


@pytest.mark.parametrize("is_ethernet", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_probes_pass_however_they_are_wrapped(kind, is_ethernet):
    """Requests and answers, with and without a link-layer header, and nothing that is for another node or port."""
    wanted = WANTED._replace(is_ethernet=is_ethernet)

    def on_the_wire(packet) -> bytes:
        return bytes(Ether(**MACS) / packet if is_ethernet else packet)

    assert passes(on_the_wire(wrap(kind, probe())), wanted)
    assert passes(on_the_wire(wrap(kind, probe(PEER, "10.244.6.0", PORT, 40_000))), wanted)
    assert passes(on_the_wire(wrap(kind, probe(dport=PORT + TAPPED_PORTS - 1))), wanted)
    assert not passes(on_the_wire(wrap(kind, probe(dport=PORT + TAPPED_PORTS))), wanted)
    assert not passes(on_the_wire(wrap(kind, probe(destination=OTHER))), wanted)
    assert not passes(on_the_wire(wrap(kind, IP(src="10.244.6.0", dst=PEER, proto=6) / bytes(20))), wanted)


def test_arp_about_the_next_hop_passes():
    """Its question and its answer, nobody else's."""
    question = Ether(**MACS) / ARP(op=1, psrc="10.2.0.13", pdst=VTEP)
    answer = Ether(**MACS) / ARP(op=2, psrc=VTEP, pdst="10.2.0.13")

    assert passes(bytes(question))
    assert passes(bytes(answer))
    assert not passes(bytes(Ether(**MACS) / ARP(psrc="10.2.0.13", pdst="10.2.0.99")))
    assert not passes(bytes(question), WANTED._replace(next_hop=b""))


def test_long_packets_are_cut():
    """All headers and a probe are kept, no payload of others'."""
    with filtered(WANTED) as (one, other):
        one.send(bytes(Ether(**MACS) / wrap("vxlan", probe() / bytes(4000))))

        assert SNAP_BYTES == len(other.recv(65_536))


@given(st.sampled_from(KINDS), st.integers(0, 65_535), st.integers(0, 65_535), st.sampled_from([PEER, VTEP, OTHER]))
def test_the_kernel_agrees_with_the_sentence(kind, sport, dport, address):
    """From or to one of the addresses, from or to a port of probes; a tunnel's port makes a plain packet a tunnel's."""
    if kind in {"plain", "ipip"} and dport in {VXLAN_PORT, 6081}:
        return
    packet = bytes(Ether(**MACS) / wrap(kind, probe("10.244.6.0", address, sport, dport)))
    in_range = range(PORT, PORT + TAPPED_PORTS)

    assert (address != OTHER and (sport in in_range or dport in in_range)) is passes(packet)


@given(st.binary(max_size=200))
def test_noise_does_not_pass(data):
    """Nothing in it is a probe: the ports alone would have to be hit."""
    assert not passes(bytes(Ether(**MACS, type=0x86DD)) + data)
