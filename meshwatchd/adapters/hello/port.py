"""The UDP port of hellos, for IPv4 and IPv6.

A socket filter drops in the kernel what does not begin like a hello. Of the rest so many a second are looked at: a hash
for each datagram is a way to keep a core busy, and whoever gives up looking sooner lets strangers starve the mesh.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Final

from meshwatchd.adapters import bpf
from meshwatchd.adapters.socket_options import grow_buffer
from meshwatchd.model.errors import KernelError
from meshwatchd.wire import hello, short_hello

MOST_A_SECOND: Final = 20_000
"""A hundred times what a mesh of a thousand nodes sends while everything changes. To find that one is not signed costs
7 us, so all of them 15 % of a core."""

_BUFFER_BYTES: Final = 2 * 1024 * 1024
"""A thousand hellos, as the kernel accounts them: all nodes answer the first one at once, beside a flood of others."""

_IP_PKTINFO: Final = 8
"""linux/in.h; socket has no name for it before Python 3.14."""
_PKTINFO: Final = struct.Struct("@i4s4s")
"""struct in_pktinfo: interface, source, and where the packet came to, which senders leave empty."""

_FILTER: Final = (
    (bpf.LOAD_WORD, 0, 0, bpf.UDP_HEADER_BYTES),
    (bpf.EQUAL, 1, 0, int.from_bytes(hello.MAGIC, "big")),
    (bpf.EQUAL, 0, 1, int.from_bytes(short_hello.MAGIC, "big")),
    bpf.ACCEPT,
    bpf.REFUSE,
)
"""Drops what does not begin with the magic."""

Address = tuple[str, int]


class HelloPort:
    """The sockets.

    Args:
        counters: "hello-over-rate", "hello-unsent".
    """

    def __init__(self, port: int, receive: Callable[[bytes, Address], None], counters: Counter[str]) -> None:
        self._port = port
        self._receive = receive
        self._counters = counters
        self._transports: dict[socket.AddressFamily, asyncio.DatagramTransport] = {}
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}
        self._second = 0
        self._taken = 0

    async def open(self) -> None:
        """Listen on both families, or on IPv4 alone where the kernel has no other.

        Raises:
            KernelError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                opened = _open(family, self._port)
            except OSError as error:
                if family == socket.AF_INET6 and error.errno in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
                    continue
                self.close()
                text = f"{error.strerror}; another program has the port of hellos (one below probe.port)"
                raise KernelError(f"listen on UDP port {self._port}", error.errno or 0, text) from error
            transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(self._take), sock=opened)
            self._transports[family] = transport
            self._sockets[family] = opened

    def close(self) -> None:
        """Listen no more."""
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()
        self._sockets.clear()

    def send_from(self, source: str, datagram: bytes, address: str, port: int = 0) -> None:
        """The same from an IPv4 address of this node, whatever the route would choose (IP_PKTINFO, ip(7)).

        A mesh may hide the route's choice behind another address and, where two nodes call each other, another port.
        """
        opened = self._sockets.get(socket.AF_INET)
        if opened is None:
            self._counters["hello-unsent"] += 1
            return
        chosen = _PKTINFO.pack(0, socket.inet_aton(source), bytes(4))
        with contextlib.suppress(OSError):
            opened.sendmsg([datagram], [(socket.IPPROTO_IP, _IP_PKTINFO, chosen)], 0, (address, port or self._port))

    def send(self, datagram: bytes, address: str, port: int = 0) -> None:
        """Send to an address, by default to its port of hellos; what cannot be sent is lost as on the way."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        transport = self._transports.get(family)
        if transport is None:
            self._counters["hello-unsent"] += 1
            return
        with contextlib.suppress(OSError):
            transport.sendto(datagram, (address, port or self._port))

    def _take(self, datagram: bytes, address: Address) -> None:
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._taken = second, 0
        self._taken += 1
        if self._taken > MOST_A_SECOND:
            self._counters["hello-over-rate"] += 1
            return
        self._receive(datagram, address)


class _Protocol(asyncio.DatagramProtocol):
    """asyncio's shape of a receiver."""

    def __init__(self, take: Callable[[bytes, Address], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        self._take(data, (str(addr[0]).partition("%")[0], int(addr[1])))

    def error_received(self, exc: Exception) -> None:
        """ICMP told that nobody is there; silence would have told the same."""


def _open(family: socket.AddressFamily, port: int) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        grow_buffer(opened, socket.SO_RCVBUF, _BUFFER_BYTES)
        bpf.attach(opened, bpf.assemble(_FILTER))
        opened.bind(("", port))
    except OSError:
        opened.close()
        raise
    return opened
