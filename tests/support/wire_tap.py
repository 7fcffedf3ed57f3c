"""Probes as they pass a device: their 5-tuples, and their bytes for whoever wants to send them again."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from types import TracebackType
from typing import Self

from netnslab import Inhabitant

ETH_P_ALL, ETH_P_IP = 0x0003, 0x0800
UDP = 17
PROBE_PORTS = range(18618, 18650)
PINNED_PORTS = range(18618 + 64, 19618)
"""Source ports of the control flows; fresh flows never use one of the thousand ports from 18618 on."""
_RECEIVE_BUFFER_BYTES = 16 << 20
SO_RCVBUFFORCE = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One UDP packet to or from a probe port."""

    source: str
    source_port: int
    destination: str
    destination_port: int


class WireTap:
    """Every probe that passes a device of a node, in both directions, until closed."""

    def __init__(self, place: Inhabitant, device: str) -> None:
        self._socket = place.space.call(partial(_open, device))

    def packets(self) -> list[tuple[Probe, bytes]]:
        """What has passed since the last call, with the UDP payload."""
        found: list[tuple[Probe, bytes]] = []
        while True:
            try:
                data, (_, protocol, *_) = self._socket.recvfrom(65_535)
            except BlockingIOError:
                return found
            header = (data[0] & 0x0F) * 4
            if protocol != ETH_P_IP or data[9] != UDP:
                continue
            ports = [int.from_bytes(data[at : at + 2], "big") for at in (header, header + 2)]
            if not set(ports) & set(PROBE_PORTS):
                continue
            addresses = [str(IPv4Address(data[at : at + 4])) for at in (12, 16)]
            probe = Probe(
                source=addresses[0], source_port=ports[0], destination=addresses[1], destination_port=ports[1]
            )
            found.append((probe, data[header + 8 :]))

    def sent_probes(self, *sources: str) -> list[Probe]:
        """The requests that these addresses have sent since the last call."""
        return [
            probe for probe, _ in self.packets() if probe.source in sources and probe.destination_port in PROBE_PORTS
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._socket.close()


def send_again(place: Inhabitant, probe: Probe, payload: bytes) -> None:
    """Send a packet with just these addresses and ports, whoever owns them on the node (raw(7), RFC 768)."""
    udp = struct.pack("!HHHH", probe.source_port, probe.destination_port, 8 + len(payload), 0)
    addresses = IPv4Address(probe.source).packed + IPv4Address(probe.destination).packed
    header = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, UDP, 0) + addresses
    with place.space.call(partial(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)) as raw:
        raw.sendto(header + udp + payload, (probe.destination, 0))


def _open(device: str) -> socket.socket:
    # Protocol 0 at first: nothing is received, from whatever device, before bind has chosen one.
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    tap.setblocking(False)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    tap.bind((device, ETH_P_ALL))
    return tap
