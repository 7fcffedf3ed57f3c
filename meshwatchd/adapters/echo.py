"""ICMP echo: what any node answers, whether or not a daemon runs there.

    offset  bytes  content (RFC 792; RFC 4443 section 4.1)
    0       1      type: 8 request, 0 reply; for IPv6 128 and 129
    1       1      code 0
    2       2      checksum, the kernel's to fill in for IPv6 and datagram sockets
    4       2      identifier; that of a datagram socket is the kernel's
    6       2      sequence number, big endian
    8       n      data

A datagram socket needs no privilege but a group in net.ipv4.ping_group_range, a raw one CAP_NET_RAW (icmp(7)).
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, NamedTuple

from meshwatchd.model.errors import KernelError

HEADERS: Final = {4: 28, 6: 48}
"""Bytes of IP and ICMP headers: what a packet has beside its data."""

_HEADER: Final = struct.Struct(">BBHHH")
_REQUEST: Final = {4: 8, 6: 128}
_REPLY: Final = {4: 0, 6: 129}
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 23, 3
"""linux/in.h, linux/in6.h: DF is set, and what the kernel believes of the path's MTU is ignored."""
_RECEIVE_BYTES: Final = 65_535


class Echo(NamedTuple):
    """What came of one request; rtt_ns is None for no answer, `problem` says why where that is known."""

    rtt_ns: int | None
    problem: str = ""


class Echoes:
    """Requests to one address, one at a time.

    Args:
        size: bytes of the whole IP packet, with DF; 0 for a small one that may be fragmented.
        source: this node's address to ask from; empty, or one that is gone, for that of the route.
        is_fresh: a socket, and so an identifier, for each request: a flow that nobody has seen.

    Raises:
        KernelError: no socket may be opened.
    """

    def __init__(
        self,
        address: str,
        *,
        size: int = 0,
        source: str = "",
        is_fresh: bool = False,
        make: Callable[[int, int, int], socket.socket] = socket.socket,
    ) -> None:
        self._make = make
        self._version = ip_address(address).version
        self._address, self._source, self._is_fresh = address, source, is_fresh
        self._data = bytes(max(0, size - HEADERS[self._version])) if size else bytes(16)
        self._is_unfragmented = bool(size)
        self._sequence = 0
        self._socket = self._open()

    @property
    def opened(self) -> socket.socket:
        """Where answers come in."""
        return self._socket

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, timeout_s: float) -> Echo:
        """Send one request and wait for its answer."""
        if self._is_fresh and self._sequence:
            self._socket.close()
            self._socket = self._open()
        began_ns = time.monotonic_ns()
        try:
            self.send()
            return self._wait(began_ns, began_ns + round(timeout_s * 1e9))
        except OSError as error:
            return Echo(None, error.strerror or str(error))

    def send(self) -> None:
        """Send the next request.

        Raises:
            OSError: it did not leave.
        """
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._socket.connect((self._address, 0))
        self._socket.send(self._request())

    def _open(self) -> socket.socket:
        family, protocol = (
            (socket.AF_INET, socket.IPPROTO_ICMP) if self._version == 4 else (socket.AF_INET6, socket.IPPROTO_ICMPV6)
        )
        try:
            made = self._make(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, protocol)
        except PermissionError:
            try:
                made = self._make(family, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
            except OSError as error:
                remedy = "use sudo, or: sysctl -w net.ipv4.ping_group_range='0 2147483647'"
                raise KernelError("send an ICMP echo", error.errno or errno.EPERM, f"not allowed; {remedy}") from error
        self._identifier = 1 + int.from_bytes(os.urandom(2), "big") % 0xFFFE
        if self._is_unfragmented and self._version == 4:
            made.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
        elif self._is_unfragmented:
            made.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
        if self._source:
            with contextlib.suppress(OSError):
                made.bind((self._source, 0))
        return made

    def _request(self) -> bytes:
        header = _HEADER.pack(_REQUEST[self._version], 0, 0, self._identifier, self._sequence)
        if self._version == 6:
            return header + self._data
        checksum = _checksum(header + self._data)
        return header[:2] + struct.pack(">H", checksum) + header[4:] + self._data

    def _wait(self, began_ns: int, until_ns: int) -> Echo:
        while (left_ns := until_ns - time.monotonic_ns()) > 0:
            if not select.select([self._socket], [], [], left_ns / 1e9)[0]:
                break
            if self.is_answer(self._socket.recv(_RECEIVE_BYTES)):
                return Echo(time.monotonic_ns() - began_ns)
        return Echo(None)

    def is_answer(self, packet: bytes) -> bool:
        """Whether a packet answers the last request."""
        is_raw = self._socket.type == socket.SOCK_RAW
        if is_raw and self._version == 4:
            packet = packet[4 * (packet[0] & 0x0F) :] if packet else b""
        if len(packet) < _HEADER.size:
            return False
        kind, _, _, identifier, sequence = _HEADER.unpack_from(packet)
        is_mine = identifier == self._identifier or not is_raw
        return kind == _REPLY[self._version] and is_mine and bool(sequence == self._sequence)


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    padded = data + bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(~total & 0xFFFF)
