"""Outer and inner headers of a captured packet, as far down as a probe may be wrapped.

    IPv4
    IPv4 | IPv4                                     IPIP           RFC 2003
    IPv4 | UDP 8472 | VXLAN | Ethernet | IPv4 ...   VXLAN          RFC 7348
    IPv4 | UDP 6081 | Geneve | options | Ethernet | IPv4 ...       RFC 8926

Checksums are never looked at: what a tap sees on its way out may have them left to the device.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

ETHERNET_BYTES: Final = 14
ETH_P_IP: Final = 0x0800
ETH_P_ARP: Final = 0x0806
IPIP: Final = 4
UDP: Final = 17
UDP_BYTES: Final = 8
TUNNEL_BYTES: Final = 8
"""Both a VXLAN header and a Geneve header without options."""
GENEVE_PORT: Final = 6081
MAX_WRAPPINGS: Final = 3

_VXLAN_HAS_VNI: Final = 0x08
_GENEVE_ETHERNET: Final = 0x6558
_FRAGMENT: Final = 0x3FFF
"""More fragments, or an offset."""

_IPV4: Final = struct.Struct(">BxH2xHxBxx4s4s")
_UDP: Final = struct.Struct(">HHH")


class Wrapping(msgspec.Struct, frozen=True, kw_only=True):
    """One encapsulation around a packet.

    Attributes:
        kind: "vxlan", "geneve" or "ipip".
        source, destination: of the outer IP header, packed.
        source_port: of the outer UDP header; 0 for IPIP.
        vni: 0 for IPIP.
        source_mac, destination_mac: of the frame inside; empty for IPIP.
    """

    kind: str
    source: bytes
    destination: bytes
    source_port: int = 0
    vni: int = 0
    source_mac: bytes = b""
    destination_mac: bytes = b""


class Datagram(msgspec.Struct, frozen=True, kw_only=True):
    """The innermost UDP datagram and what is around it, outermost first."""

    source: bytes
    destination: bytes
    source_port: int
    destination_port: int
    payload: bytes
    wrappings: tuple[Wrapping, ...] = ()


def read_datagram(packet: bytes, vxlan_port: int) -> Datagram | None:
    """Unwrap a packet that begins with its IPv4 header, and may be cut short behind the innermost UDP header; None
    where no whole UDP header is found.
    """
    wrappings: list[Wrapping] = []
    offset = 0
    while len(wrappings) <= MAX_WRAPPINGS:
        head = _read_ip(packet, offset)
        if head is None:
            return None
        protocol, source, destination, offset = head
        if protocol == IPIP:
            wrappings.append(Wrapping(kind="ipip", source=source, destination=destination))
            continue
        if protocol != UDP or offset + UDP_BYTES > len(packet):
            return None
        source_port, destination_port, length = _UDP.unpack_from(packet, offset)
        body = offset + UDP_BYTES
        inside = _read_tunnel(packet, body, destination_port, vxlan_port)
        if inside is None:
            return Datagram(
                source=source,
                destination=destination,
                source_port=source_port,
                destination_port=destination_port,
                payload=packet[body : offset + max(UDP_BYTES, length)],
                wrappings=tuple(wrappings),
            )
        kind, vni, frame = inside
        if packet[frame + 12 : frame + ETHERNET_BYTES] != ETH_P_IP.to_bytes(2, "big"):
            return None
        wrappings.append(
            Wrapping(
                kind=kind,
                source=source,
                destination=destination,
                source_port=source_port,
                vni=vni,
                source_mac=packet[frame + 6 : frame + 12],
                destination_mac=packet[frame : frame + 6],
            )
        )
        offset = frame + ETHERNET_BYTES
    return None


def _read_ip(packet: bytes, offset: int) -> tuple[int, bytes, bytes, int] | None:
    """Protocol, addresses and the offset behind the header; None for what is no whole, unfragmented IPv4 header."""
    if offset + _IPV4.size > len(packet):
        return None
    first, _length, fragment, protocol, source, destination = _IPV4.unpack_from(packet, offset)
    header = (first & 0x0F) * 4
    if first >> 4 != 4 or header < _IPV4.size or fragment & _FRAGMENT or offset + header > len(packet):
        return None
    return protocol, source, destination, offset + header


def _read_tunnel(packet: bytes, body: int, port: int, vxlan_port: int) -> tuple[str, int, int] | None:
    """Kind, VNI and the offset of the frame inside; None where the datagram is no tunnel's."""
    if body + TUNNEL_BYTES > len(packet):
        return None
    vni = int.from_bytes(packet[body + 4 : body + 7], "big")
    if port == vxlan_port and packet[body] & _VXLAN_HAS_VNI:
        return "vxlan", vni, body + TUNNEL_BYTES
    if port == GENEVE_PORT and int.from_bytes(packet[body + 2 : body + 4], "big") == _GENEVE_ETHERNET:
        return "geneve", vni, body + TUNNEL_BYTES + 4 * (packet[body] & 0x3F)
    return None
