"""Packets that no socket sends, built with scapy: VXLAN and IPIP around a probe, and frames for the overlay device.

complete frame   Ethernet | outer IPv4 | UDP | VXLAN | Ethernet | IPv4 | UDP | probe      series FRAMED
outer packet                outer IPv4 | UDP | VXLAN | Ethernet | IPv4 | UDP | probe      series CRAFTED
inner frame                                            Ethernet | IPv4 | UDP | probe      series INJECTED
"""

from __future__ import annotations

import msgspec
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

_VNI_FLAG = 0x08
_TTL = 64


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    """A probe as pods of the overlay would see it; addresses as text, MACs as "02:00:..."."""

    source: str
    destination: str
    source_port: int
    destination_port: int
    payload: bytes
    source_mac: str = ""
    destination_mac: str = ""


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    """What the overlay device would put around it.

    Attributes:
        source_port: of the outer UDP header, by which the network tells flows apart.
        port, vni: of the overlay.
    """

    source: str
    destination: str
    source_port: int
    port: int
    vni: int


def inner_frame(inner: Inner) -> bytes:
    """The probe as a frame for the overlay device."""
    return bytes(_frame(inner))


def vxlan_packet(outer: Outer, inner: Inner) -> bytes:
    """The frame in VXLAN, from the outer IPv4 header on."""
    return bytes(_vxlan(outer, inner))


def vxlan_frame(outer: Outer, inner: Inner, *, source_mac: str, destination_mac: str) -> bytes:
    """The same as a frame for the lower device."""
    return bytes(Ether(src=source_mac, dst=destination_mac) / _vxlan(outer, inner))


def ipip_packet(source: str, destination: str, inner: Inner) -> bytes:
    """The probe in IPIP (RFC 2003), from the outer IPv4 header on."""
    return bytes(IP(src=source, dst=destination, ttl=_TTL, proto=4) / _inner(inner))


def _inner(inner: Inner) -> IP:
    ip = IP(src=inner.source, dst=inner.destination, ttl=_TTL)
    return ip / UDP(sport=inner.source_port, dport=inner.destination_port) / inner.payload


def _frame(inner: Inner) -> Ether:
    return Ether(src=inner.source_mac, dst=inner.destination_mac) / _inner(inner)


def _vxlan(outer: Outer, inner: Inner) -> IP:
    ip = IP(src=outer.source, dst=outer.destination, ttl=_TTL)
    udp = UDP(sport=outer.source_port, dport=outer.port)
    return ip / udp / VXLAN(flags=_VNI_FLAG, vni=outer.vni) / _frame(inner)
