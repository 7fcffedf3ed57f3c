"""The two kinds of new flow, each a small state machine over one non-blocking socket.

A flow lives at most DEADLINE_NS. That is also the kernel's first retransmission time of a SYN
(TCP_TIMEOUT_INIT, 1 s, RFC 6298 section 2), so a TCP flow that succeeds did so with its first SYN:
retransmission cannot paint over a hole in the path.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from typing import Protocol

from netnslab.traffic_records import Flow, FlowKind, Outcome
from netnslab.traffic_server import ECHO_PORT, MESSAGE

DEADLINE_NS = 1_000_000_000
# tcp_info.tcpi_total_retrans: an unsigned 32-bit integer in host order, 100 bytes into the structure
# (linux/tcp.h; fields are only ever appended).
TOTAL_RETRANS = struct.Struct("=100xI")
# A close that leaves no TIME_WAIT behind (RST): 100 flows a second would fill the port range.
ABORT_ON_CLOSE = struct.pack("ii", 1, 0)


class LiveFlow(Protocol):
    """A flow in the air."""

    sock: socket.socket
    start_ns: int
    interest: int  # the epoll events it waits for

    def on_ready(self, now_ns: int) -> Flow | None:
        """Serve the socket; returns the record when the flow has ended."""

    def expire(self) -> Flow:
        """The deadline has come: the record of the loss."""


class UdpFlow:
    """One datagram, one echo.

    Raises:
        OSError: the kernel refused the port (EADDRINUSE) or had no route.
    """

    interest = select.EPOLLIN

    def __init__(self, target: str, *, source_port: int, sequence: int) -> None:
        self._source_port = source_port
        self.sock = _bound(socket.SOCK_DGRAM, source_port)
        self.start_ns = time.monotonic_ns()
        self._payload = MESSAGE.pack(sequence, self.start_ns)
        try:
            self.sock.connect((target, ECHO_PORT))
            self.sock.send(self._payload)
        except OSError:
            self.sock.close()
            raise

    def on_ready(self, now_ns: int) -> Flow | None:
        """Read the echo, or the ICMP error that came instead of it."""
        try:
            payload = self.sock.recv(2048)
        except BlockingIOError:
            return None
        except OSError as error:
            return self._record(Outcome.REFUSED, reason=name_of(error.errno))
        if payload != self._payload:
            return None
        return self._record(Outcome.OK, rtt_ns=now_ns - self.start_ns)

    def expire(self) -> Flow:
        """No echo within the deadline."""
        return self._record(Outcome.LOST)

    def _record(self, outcome: Outcome, *, rtt_ns: int | None = None, reason: str = "") -> Flow:
        return Flow(
            kind=FlowKind.UDP,
            start_ns=self.start_ns,
            outcome=outcome,
            source_port=self._source_port,
            rtt_ns=rtt_ns,
            reason=reason,
        )


class TcpFlow:
    """Connect, request, response, close.

    Raises:
        OSError: the kernel refused the port (EADDRINUSE) or had no route.
    """

    def __init__(self, target: str, *, source_port: int, sequence: int) -> None:
        self.interest = select.EPOLLOUT
        self._source_port = source_port
        self._connect_ns: int | None = None
        self._received = 0
        self.sock = _bound(socket.SOCK_STREAM, source_port)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT_ON_CLOSE)
        self.start_ns = time.monotonic_ns()
        self._request = MESSAGE.pack(sequence, self.start_ns)
        error = self.sock.connect_ex((target, ECHO_PORT))
        if error not in (0, errno.EINPROGRESS):
            self.sock.close()
            raise OSError(error, "connect")

    def on_ready(self, now_ns: int) -> Flow | None:
        """Go one step on: handshake done -> send the request; response read -> done."""
        try:
            if self._connect_ns is None:
                return self._on_connected(now_ns)
            return self._on_response(now_ns)
        except BlockingIOError:
            return None
        except OSError as error:
            return self._record(Outcome.REFUSED, reason=name_of(error.errno))

    def expire(self) -> Flow:
        """No complete response within the deadline."""
        return self._record(Outcome.LOST)

    def _on_connected(self, now_ns: int) -> Flow | None:
        if error := self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return self._record(Outcome.REFUSED, reason=name_of(error))
        self._connect_ns = now_ns - self.start_ns
        self.sock.send(self._request)
        self.interest = select.EPOLLIN
        return None

    def _on_response(self, now_ns: int) -> Flow | None:
        chunk = self.sock.recv(2048)
        self._received += len(chunk)
        if self._received >= MESSAGE.size:
            return self._record(Outcome.OK, rtt_ns=now_ns - self.start_ns)
        return None if chunk else self._record(Outcome.REFUSED, reason="closed early")

    def _record(self, outcome: Outcome, *, rtt_ns: int | None = None, reason: str = "") -> Flow:
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TOTAL_RETRANS.size)
        return Flow(
            kind=FlowKind.TCP,
            start_ns=self.start_ns,
            outcome=outcome,
            source_port=self._source_port,
            rtt_ns=rtt_ns,
            connect_ns=self._connect_ns,
            retransmits=TOTAL_RETRANS.unpack(info)[0] if len(info) == TOTAL_RETRANS.size else 0,
            reason=reason,
        )


def name_of(number: int | None) -> str:
    """The symbol of an errno, such as ECONNREFUSED."""
    return errno.errorcode.get(number or 0, str(number))


def _bound(kind: socket.SocketKind, source_port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    try:
        sock.setblocking(False)
        sock.bind(("", source_port))
    except OSError:
        sock.close()
        raise
    return sock
