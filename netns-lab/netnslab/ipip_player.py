"""IPIP played by a process, for kernels without it: one device on which packets go in and come out as IPIP's do.

    python -I -S ipip_player.py tunl0

The kernel's tunl0 sends each packet to the next hop of its route, so whoever plays it has to know that next hop; a TUN
delivers packets without it. A TAP is asked for it: ARP wants a link address for each next hop, the answer has the
next hop in it, and the frame brings it back.

    route  192.168.100.13 via 10.244.4.74 dev tunl0 onlink
    ARP    who has 10.244.4.74?                    answered with 02:49:0a:f4:04:4a
    frame  to 02:49:0a:f4:04:4a, any packet        sent as IPIP to 10.244.4.74

A script by itself, without a package around it: a mesh starts one on each node, and an import would be what takes long.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import sys
from pathlib import Path

# linux/if_tun.h and linux/sockios.h.
TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x1002
SIOCSIFHWADDR = 0x8924
ARPHRD_ETHER = 1
IFREQ_BYTES = 40

ETH_P_IP = b"\x08\x00"
ETH_P_ARP = b"\x08\x06"
OWN_MAC = b"\x02\x49\xff\xff\xff\xff"
PREFIX = b"\x02\x49"
"""Locally administered; the four bytes after it are an IPv4 address."""

# Hardware and protocol of an ARP packet for IPv4 on Ethernet, and the operation (RFC 826).
ARP_REQUEST = b"\x00\x01\x08\x00\x06\x04\x00\x01"
ARP_REPLY = ARP_REQUEST[:-1] + b"\x02"

ETHERNET_BYTES = 14
IP_BYTES = 20
LARGEST = 65_535
FLAG_DF = 0x4000
BATCH = 64
"""Packets taken from one side before the other is looked at."""

# What a packet may meet between here and its next hop, as in the kernel's device: counted there, dropped here.
TOLERATED = frozenset(
    (
        *(errno.EMSGSIZE, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EPERM),
        *(errno.ENOBUFS, errno.EINVAL, errno.EAGAIN, errno.EIO),
    )
)


def answer(frame: bytes) -> bytes | None:
    """The ARP reply to a request for any next hop; None for every other frame."""
    body = frame[ETHERNET_BYTES:]
    if frame[12:14] != ETH_P_ARP or body[:8] != ARP_REQUEST:
        return None
    asker, asker_ip, wanted = body[8:14], body[14:18], body[24:28]
    return asker + PREFIX + wanted + ETH_P_ARP + ARP_REPLY + PREFIX + wanted + wanted + asker + asker_ip


def encapsulate(frame: bytes) -> tuple[bytes, bytes] | None:
    """A frame's packet in IPIP, and where to; None for what is no IPv4 packet for a next hop.

    TTL and "don't fragment" are the packet's own, as by default in the kernel (ip_tunnel_xmit() in
    net/ipv4/ip_tunnel.c). Source, identification and checksum are left to the kernel.
    """
    if frame[:2] != PREFIX or frame[12:14] != ETH_P_IP or len(frame) < ETHERNET_BYTES + IP_BYTES:
        return None
    packet, next_hop = frame[ETHERNET_BYTES:], frame[2:6]
    flags = int.from_bytes(packet[6:8], "big") & FLAG_DF
    outer = struct.pack("!BBHHHBBH4s4s", 0x45, 0, IP_BYTES + len(packet), 0, flags, packet[8], 4, 0, bytes(4), next_hop)
    return outer + packet, next_hop


def decapsulate(packet: bytes) -> bytes | None:
    """The frame with what is inside an IPIP packet; None for what is not IPv4 inside."""
    inner = packet[(packet[0] & 0x0F) * 4 :]
    if len(inner) < IP_BYTES or inner[0] >> 4 != 4:
        return None
    return OWN_MAC + PREFIX + packet[12:16] + ETH_P_IP + inner


def main() -> None:
    """Make the device and play it until ended; the device appears when everything else is there."""
    name = sys.argv[1]
    Path("/proc/self/comm").write_text("ipip-player", encoding="ascii")
    receiver = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IPIP)
    sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for each in (receiver, sender):
        each.setblocking(False)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF if each is receiver else socket.SO_SNDBUF, 1 << 22)
    tap = _open_tap(name)
    poll = select.poll()
    poll.register(tap, select.POLLIN)
    poll.register(receiver, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if tap in ready:
            _send_all(tap, sender)
        if receiver.fileno() in ready:
            _receive_all(receiver, tap)


def _open_tap(name: str) -> int:
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    request = struct.pack("16sH", name.encode("ascii"), IFF_TAP_NO_PI).ljust(IFREQ_BYTES, b"\0")
    fcntl.ioctl(tap, TUNSETIFF, request)
    address = struct.pack("16sH", name.encode("ascii"), ARPHRD_ETHER) + OWN_MAC
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFHWADDR, address.ljust(IFREQ_BYTES, b"\0"))
    return tap


def _send_all(tap: int, sender: socket.socket) -> None:
    for _ in range(BATCH):
        try:
            frame = os.read(tap, LARGEST)
        except OSError as error:
            if error.errno in TOLERATED:
                return
            raise
        if (reply := answer(frame)) is not None:
            _write(tap, reply)
        elif (wrapped := encapsulate(frame)) is not None:
            packet, next_hop = wrapped
            try:
                sender.sendto(packet, (socket.inet_ntoa(next_hop), 0))
            except OSError as error:
                if error.errno not in TOLERATED:
                    raise


def _receive_all(receiver: socket.socket, tap: int) -> None:
    for _ in range(BATCH):
        try:
            packet = receiver.recv(LARGEST)
        except OSError as error:
            if error.errno in TOLERATED:
                return
            raise
        frame = decapsulate(packet)
        if frame is not None:
            _write(tap, frame)


def _write(tap: int, frame: bytes) -> None:
    try:
        os.write(tap, frame)
    except OSError as error:
        if error.errno not in TOLERATED:
            raise


if __name__ == "__main__":
    main()
