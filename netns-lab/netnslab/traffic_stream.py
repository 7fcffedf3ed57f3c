"""The long-lived connection: a numbered message every 10 ms, and every echo recorded.

It stands for what an operator has open when the network breaks: an ssh session, a database
connection. It never reconnects, for its only question is whether it survives.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

from netnslab.traffic_clock import Cadence
from netnslab.traffic_flows import name_of
from netnslab.traffic_records import Echo, Record, StreamEvent
from netnslab.traffic_server import MESSAGE, STREAM_PORT

INTERVAL_NS = 10_000_000


class Stream:
    """One TCP connection to the stream service of `target`.

    Args:
        write: takes every record that comes of it.
        now_ns: the instant of the first message, if the connection is up by then.
    """

    def __init__(self, target: str, *, write: Callable[[Record], None], now_ns: int) -> None:
        self._write = write
        self._cadence = Cadence(first_ns=now_ns, interval_ns=INTERVAL_NS)
        self._sent = 0
        self._answered = 0
        self._unsent = bytearray()
        self._unread = bytearray()
        self._is_connected = False
        self._is_over = False
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.connect_ex((target, STREAM_PORT))

    @property
    def next_ns(self) -> int:
        """When the next message is due."""
        return self._cadence.next_ns

    @property
    def is_over(self) -> bool:
        """The socket is closed."""
        return self._is_over

    def tick(self, now_ns: int) -> None:
        """Send the messages that are due; before the handshake ends they are not made up for."""
        for _instant in self._cadence.due(now_ns):
            if self._is_connected and not self._is_over:
                self._unsent += MESSAGE.pack(self._sent, now_ns)
                self._sent += 1
        if self._unsent:
            self._flush(now_ns)

    def on_ready(self, mask: int, now_ns: int) -> None:
        """Serve the socket after epoll named it."""
        if not self._is_connected:
            self._finish_connect(now_ns)
        elif mask & (select.EPOLLIN | select.EPOLLERR | select.EPOLLHUP):
            self._read(now_ns)

    def finish(self, now_ns: int) -> None:
        """Close in good order and say so, unless the connection was lost before."""
        if self._is_connected:
            self._end("finished", now_ns, reason="")
        else:
            self._end("reset", now_ns, reason="never connected")

    def _finish_connect(self, now_ns: int) -> None:
        if error := self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._end("reset", now_ns, reason=name_of(error))
            return
        self._is_connected = True
        self._write(StreamEvent(event="connected", at_ns=now_ns, sent=0))

    def _flush(self, now_ns: int) -> None:
        if self._is_over:
            return
        try:
            del self._unsent[: self.sock.send(self._unsent)]
        except BlockingIOError:
            pass  # the kernel's buffer is full: the message leaves with a later tick
        except OSError as error:
            self._end("reset", now_ns, reason=name_of(error.errno))

    def _read(self, now_ns: int) -> None:
        try:
            chunk = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._end("reset", now_ns, reason=name_of(error.errno))
            return
        if not chunk:
            self._end("reset", now_ns, reason="closed by the peer")
            return
        self._unread += chunk
        complete = len(self._unread) - len(self._unread) % MESSAGE.size
        for sequence, sent_ns in MESSAGE.iter_unpack(bytes(self._unread[:complete])):
            self._on_echo(sequence, sent_ns, now_ns)
        del self._unread[:complete]

    def _on_echo(self, sequence: int, sent_ns: int, now_ns: int) -> None:
        if sequence != self._answered:
            self._end("disordered", now_ns, reason=f"expected {self._answered}, read {sequence}")
            return
        self._answered += 1
        self._write(Echo(sequence=sequence, sent_ns=sent_ns, rtt_ns=now_ns - sent_ns))

    def _end(self, event: str, now_ns: int, *, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self.sock.close()
        self._write(StreamEvent(event=event, at_ns=now_ns, sent=self._sent, reason=reason))
