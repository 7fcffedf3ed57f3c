"""A path MTU that is not so: the kernel believes an ICMP error about a flow of its own, whoever sent it.

Fragmentation needed (RFC 1191) has to quote a packet of a socket that is there. So a socket is opened for a moment, and
the message comes from the node itself; what the kernel has learned stays for ten minutes, for the whole destination.
"""

from __future__ import annotations

import socket
import struct
from functools import partial

from netnslab.inhabitant import Inhabitant

NEXT_HOP_BYTES = 1000
DISCARD_PORT = 9
DEST_UNREACH, FRAG_NEEDED = 3, 4
DONT_FRAGMENT = 0x4000
FULL_BYTES = 1450


def poison(place: Inhabitant, lines: tuple[str, ...]) -> None:
    """Make a node believe that packets to each address of `lines` have to be small."""
    for address in lines:
        place.space.call(partial(_poison, address))


def forge(own: str, peer: str, port: int) -> bytes:
    """The ICMP message, big endian: eight bytes of its own, then the quoted IPv4 and UDP headers."""
    ends = socket.inet_aton(own), socket.inet_aton(peer)
    quoted = struct.pack(">BBHHHBBH", 0x45, 0, FULL_BYTES, 1, DONT_FRAGMENT, 64, socket.IPPROTO_UDP, 0)
    quoted += b"".join(ends) + struct.pack(">HHHH", port, DISCARD_PORT, FULL_BYTES - 20, 0)
    message = struct.pack(">BBHHH", DEST_UNREACH, FRAG_NEEDED, 0, 0, NEXT_HOP_BYTES) + quoted
    return message[:2] + struct.pack(">H", checksum(message)) + message[4:]


def checksum(data: bytes) -> int:
    """RFC 1071, of an even number of bytes."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _poison(address: str) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flow,
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw,
    ):
        flow.connect((address, DISCARD_PORT))
        own, port = flow.getsockname()
        raw.sendto(forge(own, address, port), (own, 0))
