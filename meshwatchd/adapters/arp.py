"""ARP probes: which MACs answer for an address on the LAN, without claiming an address of our own; announcements.

    offset  bytes  content, big endian
    0       6      destination MAC, all ones for everybody
    6       6      source MAC
    12      2      EtherType 0x0806
    14      8      Ethernet 1, IPv4 0x0800, lengths 6 and 4, operation 1 request, 2 reply
    22      6      sender MAC
    28      4      sender address: 0 in a probe, in an announcement the target's
    32      6      target MAC, 0 in both
    38      4      target address

A request with the sender address 0 changes nobody's neighbour table, and is answered like any other. An announcement
tells everybody who knows the address which MAC has it.

Source: RFC 826; RFC 5227, sections 2.1.1 and 2.3; arp_process() in net/ipv4/arp.c.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from typing import Final

from meshwatchd.model.underlay import ArpAnswers

ETH_P_ARP: Final = 0x0806
PROBES: Final = 4
"""One more than RFC 5227's PROBE_NUM: as many as have to be lost before a switch is suspected."""
ANNOUNCEMENTS: Final = 2
"""RFC 5227's ANNOUNCE_NUM."""
SPACING_S, LINGER_S = 0.05, 0.5
"""Between frames, and for late answers; the RFC's second is for machines that all boot at once."""

_FRAME: Final = struct.Struct("> 6s 6s H H H B B H 6s 4s 6s 4s")
_ETHERNET, _IPV4, _REQUEST, _REPLY = 1, 0x0800, 1, 2
_EVERYBODY: Final = b"\xff" * 6
_SNAP_BYTES: Final = 128


def encode_probe(own_mac: bytes, address: str, to: bytes = _EVERYBODY) -> bytes:
    """The frame that asks for an address, 42 bytes; drivers pad it."""
    return _encode_request(to, own_mac, sender=bytes(4), target=socket.inet_aton(address))


def encode_announcement(own_mac: bytes, address: str) -> bytes:
    """The frame that tells everybody which MAC has an address, 42 bytes."""
    own = socket.inet_aton(address)
    return _encode_request(_EVERYBODY, own_mac, sender=own, target=own)


def decode_answer(frame: bytes, address: str) -> str:
    """The MAC that answers for an address, as text; empty for any other frame."""
    if len(frame) < _FRAME.size:
        return ""
    _, _, ether, hardware, protocol, *lengths, operation, mac, sender, _, _ = _FRAME.unpack_from(frame)
    is_reply = (ether, hardware, protocol, lengths, operation) == (ETH_P_ARP, _ETHERNET, _IPV4, [6, 4], _REPLY)
    return bytes(mac).hex(":") if is_reply and sender == socket.inet_aton(address) else ""


async def announce(device: str, own_mac: str, address: str) -> None:
    """Tell everybody on a device's LAN that an IPv4 address is there.

    Raises:
        OSError: the device has gone or is down.
    """
    frame = encode_announcement(_packed(own_mac), address)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0) as opened:
        opened.bind((device, ETH_P_ARP))
        for _ in range(ANNOUNCEMENTS):
            opened.send(frame)
            await asyncio.sleep(SPACING_S)


async def ask(device: str, own_mac: str, address: str, expected: tuple[str, ...] = ()) -> ArpAnswers:
    """Ask everybody on a device's LAN for an IPv4 address, then the first expected MAC alone; with none nobody."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0) as opened:
            opened.bind((device, ETH_P_ARP))
            return await ask_by(opened, _packed(own_mac), address, expected)
    except OSError:
        # The device has gone or is down, which the mirror shows; nobody answers on it.
        return ArpAnswers()


async def ask_by(opened: socket.socket, own_mac: bytes, address: str, expected: tuple[str, ...]) -> ArpAnswers:
    """The same by a socket that sends and receives frames."""
    broadcast, alone = await _collect(opened, encode_probe(own_mac, address), address), Counter[str]()
    if expected:
        alone = await _collect(opened, encode_probe(own_mac, address, _packed(expected[0])), address)
    return ArpAnswers(
        macs=tuple(sorted(broadcast)),
        asked=PROBES if expected else 0,
        heard=min(PROBES, max((broadcast[mac] for mac in expected), default=0)),
        heard_alone=min(PROBES, alone.total()),
    )


def _encode_request(to: bytes, own_mac: bytes, *, sender: bytes, target: bytes) -> bytes:
    return _FRAME.pack(to, own_mac, ETH_P_ARP, _ETHERNET, _IPV4, 6, 4, _REQUEST, own_mac, sender, bytes(6), target)


def _packed(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


async def _collect(opened: socket.socket, probe: bytes, address: str) -> Counter[str]:
    """How often each MAC answers."""
    loop, found = asyncio.get_running_loop(), Counter[str]()
    for wait_s in (*[SPACING_S] * (PROBES - 1), LINGER_S):
        opened.send(probe)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while True:
                    found[decode_answer(await loop.sock_recv(opened, _SNAP_BYTES), address)] += 1
    del found[""]
    return found
