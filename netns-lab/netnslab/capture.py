"""Watching a device of a lab, and saying of each packet what is inside what.

    with Capture(lab.node("b3"), "eth0") as capture:
        ...
        [packet.layers for packet in capture.packets()]
        # [("vxlan 6 10.2.0.13 > 10.2.0.11", "ipip 10.244.6.76 > 10.244.4.74", "icmp ...")]

A packet socket belongs to the network namespace it was opened in, so no process is needed inside, and packets
are there from the moment the constructor returns. SOCK_DGRAM takes the link header off: packets begin with
their IP header on every kind of device.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from types import MappingProxyType, TracebackType
from typing import Self

from netnslab.inhabitant import Inhabitant

ETH_P_ALL = 0x0003
ETH_P_IP = 0x0800
PACKET_OUTGOING = 4
"""linux/if_packet.h: sent by this very machine."""

VXLAN_PORT = 8472
WIREGUARD_PORT = 51820

_IPIP, _UDP = 4, 17
_PROTOCOL_NAMES = MappingProxyType({1: "icmp", 6: "tcp", _UDP: "udp"})

_UDP_BYTES = 8
_VXLAN_BYTES = 8
_ETHERNET_BYTES = 14

# Larger than any frame, also one that offloads have put together.
_RECEIVE_BYTES = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One IPv4 packet as a device saw it.

    Attributes:
        is_outgoing: sent by this side and not received.
        length_bytes: of the outermost IP packet, by its header.
        layers: what is inside what, outermost first, such as `vxlan 6 10.2.0.13 > 10.2.0.11` (6 is the
            VXLAN network identifier), `ipip`, `wireguard`, `icmp`, `udp`, `tcp`, `fragment`.
    """

    is_outgoing: bool
    length_bytes: int
    layers: tuple[str, ...]


class Capture:
    """Collects the IPv4 packets of one device, both directions, until closed."""

    def __init__(self, place: Inhabitant, device: str) -> None:
        self._socket = place.space.call(partial(_open, device))

    def packets(self) -> list[Packet]:
        """What has passed since the last call."""
        return list(self._drain())

    def close(self) -> None:
        """Stop watching."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _drain(self) -> Iterator[Packet]:
        while True:
            try:
                data, (_, protocol, packet_type, *_) = self._socket.recvfrom(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            if protocol == ETH_P_IP:
                yield Packet(
                    is_outgoing=packet_type == PACKET_OUTGOING,
                    length_bytes=int.from_bytes(data[2:4], "big"),
                    layers=tuple(dissect(data)),
                )


def dissect(data: bytes) -> Iterator[str]:
    """Name the layers of an IPv4 packet, outermost first (RFC 791, 2003, 7348); stops at the first payload."""
    header_bytes = (data[0] & 0x0F) * 4
    protocol = data[9]
    way = f"{IPv4Address(data[12:16])} > {IPv4Address(data[16:20])}"
    payload = data[header_bytes:]
    if int.from_bytes(data[6:8], "big") & 0x1FFF:
        yield f"fragment {way}"
    elif protocol == _IPIP:
        yield f"ipip {way}"
        yield from dissect(payload)
    elif protocol == _UDP:
        yield from _dissect_udp(payload, way)
    else:
        yield f"{_PROTOCOL_NAMES.get(protocol, protocol)} {way}"


def _dissect_udp(datagram: bytes, way: str) -> Iterator[str]:
    ports = struct.unpack_from("!HH", datagram)
    if ports[1] == VXLAN_PORT:
        network = int.from_bytes(datagram[_UDP_BYTES + 4 : _UDP_BYTES + 7], "big")
        yield f"vxlan {network} {way}"
        frame = datagram[_UDP_BYTES + _VXLAN_BYTES :]
        if int.from_bytes(frame[12:14], "big") == ETH_P_IP:
            yield from dissect(frame[_ETHERNET_BYTES:])
    elif WIREGUARD_PORT in ports:
        yield f"wireguard {way}"
    else:
        yield f"udp {way}"


def _open(device: str) -> socket.socket:
    # Protocol 0 at first: nothing is received, from whatever device, before bind has chosen one.
    watcher = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    watcher.setblocking(False)
    watcher.bind((device, ETH_P_ALL))
    return watcher
