"""A gratuitous ARP request (RFC 5227, section 2.3): who hears it believes that the address is at this device's MAC."""

from __future__ import annotations

import socket
import struct
from functools import partial

from netnslab.inhabitant import Inhabitant

ETH_P_ARP = 0x0806
_ETHERNET, _IPV4, _REQUEST = 1, 0x0800, 1


def announce(place: Inhabitant, lines: tuple[str, ...]) -> None:
    """Announce an address on a device for each of `lines`: "DEVICE ADDRESS"."""
    for line in lines:
        device, address = line.split()
        place.space.call(partial(_announce, device, address))


def _announce(device: str, address: str) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as opened:
        opened.bind((device, ETH_P_ARP))
        mac, claimed = opened.getsockname()[4], socket.inet_aton(address)
        head = struct.pack(">6s6sHHHBBH", b"\xff" * 6, mac, ETH_P_ARP, _ETHERNET, _IPV4, 6, 4, _REQUEST)
        opened.send(head + mac + claimed + bytes(6) + claimed)
