"""The answering end of the traffic source: three echo services in one epoll loop.

    UDP  port 7   every datagram back to where it came from
    TCP  port 7   one request, one response, then close
    TCP  port 8   every byte back, for as long as the connection lives

Port 7 is the echo port of RFC 862; port 8 is its neighbour. Both are below the ports that the
driver takes for its flows, so no flow can collide with a service of its own pod.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field

ECHO_PORT = 7
STREAM_PORT = 8
# Bytes of a request, of a response and of a message of the long-lived connection:
# sequence number and send time, two unsigned 64-bit integers in network byte order.
MESSAGE = struct.Struct("!QQ")
# A client that lost its network never says goodbye. Longer than any deadline of the driver.
REQUEST_PATIENCE_NS = 5_000_000_000
# Datagrams read before the loop looks at the other sockets again.
DATAGRAM_BATCH = 64
# Echo that the kernel does not take, per connection; a client that never reads is cut off.
BACKLOG_LIMIT_BYTES = 1 << 20


@dataclass(slots=True)
class Connection:
    """An accepted connection; `is_stream` tells the two TCP services apart."""

    sock: socket.socket
    is_stream: bool
    accepted_ns: int
    received: bytearray = field(default_factory=bytearray)
    is_backlogged: bool = False


class EchoServer:
    """Bind the three services on every address of this namespace and answer until interrupted."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._datagrams.bind(("", ECHO_PORT))
        self._datagrams.setblocking(False)
        self._requests = _listen(ECHO_PORT)
        self._streams = _listen(STREAM_PORT)
        self._connections: dict[int, Connection] = {}
        self._waiting: deque[Connection] = deque()
        for sock in (self._datagrams, self._requests, self._streams):
            self._epoll.register(sock, select.EPOLLIN)

    def run(self) -> None:
        """Serve until an exception (the one that SIGTERM raises) ends it."""
        while True:
            for fd, _mask in self._epoll.poll(REQUEST_PATIENCE_NS / 1e9):
                self._on_ready(fd)
            self._close_silent_clients(time.monotonic_ns())

    def _on_ready(self, fd: int) -> None:
        if fd == self._datagrams.fileno():
            self._echo_datagrams()
        elif fd == self._requests.fileno():
            self._accept(self._requests, is_stream=False)
        elif fd == self._streams.fileno():
            self._accept(self._streams, is_stream=True)
        elif connection := self._connections.get(fd):
            self._serve(connection)

    def _echo_datagrams(self) -> None:
        for _ in range(DATAGRAM_BATCH):
            try:
                payload, peer = self._datagrams.recvfrom(2048)
                self._datagrams.sendto(payload, peer)
            except OSError:
                # Drained (EAGAIN), or there is no way back to this client (ENETUNREACH and the
                # like): either way its driver will know by the missing echo.
                return

    def _accept(self, listener: socket.socket, *, is_stream: bool) -> None:
        while True:
            try:
                sock, _peer = listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock=sock, is_stream=is_stream, accepted_ns=time.monotonic_ns())
            self._connections[sock.fileno()] = connection
            self._epoll.register(sock, select.EPOLLIN)
            if not is_stream:
                self._waiting.append(connection)
                self._serve(connection)  # the request is often there already: saves a turn of the loop

    def _serve(self, connection: Connection) -> None:
        try:
            chunk = connection.sock.recv(65536)
        except BlockingIOError:
            chunk = None
        except OSError:
            chunk = b""
        if chunk == b"":
            self._close(connection)
            return
        connection.received += chunk or b""
        if connection.is_stream:
            self._echo_stream(connection)
        elif len(connection.received) >= MESSAGE.size:
            self._respond(connection)

    def _respond(self, connection: Connection) -> None:
        with contextlib.suppress(OSError):  # the client has gone; closing is all that is left to do
            connection.sock.send(connection.received)
        self._close(connection)

    def _echo_stream(self, connection: Connection) -> None:
        """Send back what the kernel takes; the rest waits for the socket to become writable."""
        try:
            taken = connection.sock.send(connection.received) if connection.received else 0
        except BlockingIOError:
            taken = 0
        except OSError:
            self._close(connection)
            return
        del connection.received[:taken]
        if len(connection.received) > BACKLOG_LIMIT_BYTES:
            self._close(connection)
            return
        if bool(connection.received) != connection.is_backlogged:
            connection.is_backlogged = not connection.is_backlogged
            wanted = select.EPOLLIN | (select.EPOLLOUT if connection.is_backlogged else 0)
            self._epoll.modify(connection.sock, wanted)

    def _close_silent_clients(self, now_ns: int) -> None:
        while self._waiting:
            oldest = self._waiting[0]
            if oldest.sock.fileno() >= 0 and now_ns - oldest.accepted_ns < REQUEST_PATIENCE_NS:
                return
            self._waiting.popleft()
            self._close(oldest)

    def _close(self, connection: Connection) -> None:
        fd = connection.sock.fileno()
        if fd < 0:
            return
        del self._connections[fd]
        connection.sock.close()  # leaves the epoll set with it


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(512)
    listener.setblocking(False)
    return listener
