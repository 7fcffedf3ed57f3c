"""The source ports in use: one socket for each source address and port, shared by all sessions.

A flow is fresh when its 5-tuple was not used before. Sessions differ in their destinations, so all of them may use one
new port at the same time: a new port costs a socket, and a socket costs ten times what a probe does.
"""

from __future__ import annotations

import errno
import os
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet.delivery import Ancillary
from meshwatchd.adapters.packet.sockets import filtered_packets, guard, open_probe
from meshwatchd.adapters.poller import Poller, Reader

Waiting = TypeVar("Waiting")


class SourcePort(Generic[Waiting]):
    """One socket.

    A passing port lives for a second or so, and a filter is two thirds of what its socket costs: it is attached when
    something has come that is no answer.

    Attributes:
        fd: its descriptor.
        queue: what waits to be sent from it.
        send_to: sends a packet to an address literal and a port, or raises OSError.
        used_ns: when it was used last; CLOCK_MONOTONIC.
    """

    __slots__ = ("_dropped", "_is_guarded", "_socket", "address", "fd", "queue", "send_to", "used_ns")

    def __init__(self, address: tuple[str, int], *, is_guarded: bool) -> None:
        self.address, self._is_guarded = address, is_guarded
        self._socket = open_probe(*address, is_guarded=is_guarded)
        self._dropped = 0
        self.fd = self._socket.fileno()
        self.send_to: Callable[[bytes, tuple[str, int]], int] = self._socket.sendto
        self.queue: list[Waiting] = []
        self.used_ns = monotonic_ns()

    def guard(self) -> None:
        """Let the kernel drop what cannot be an answer, from here on."""
        if not self._is_guarded:
            self._is_guarded = True
            guard(self._socket)

    def send_with(self, packet: bytes, control: Ancillary, address: tuple[str, int]) -> None:
        """Send a packet with ancillary data, or raise OSError."""
        self._socket.sendmsg((packet,), control, 0, address)

    def take_dropped(self) -> int:
        """Packets that the kernel dropped at this socket since the last call: filtered, or for want of room."""
        before, self._dropped = self._dropped, filtered_packets(self._socket)
        return self._dropped - before

    def close(self) -> None:
        """Close the socket; its descriptor means nothing any more."""
        self._socket.close()


class SourcePorts(Generic[Waiting]):
    """All of them."""

    def __init__(self, *, poller: Poller, reader: Reader, counters: Counter[str], max_open: int) -> None:
        self._poller, self._reader, self._counters = poller, reader, counters
        self._max_open = max_open
        # The passing ones in the order of their last use, so that the next to close is the first.
        self._passing: OrderedDict[tuple[str, int], SourcePort[Waiting]] = OrderedDict()
        self._kept: dict[tuple[str, int], SourcePort[Waiting]] = {}
        self._by_fd: dict[int, SourcePort[Waiting]] = {}

    def __len__(self) -> int:
        return len(self._by_fd)

    def __getitem__(self, fd: int) -> SourcePort[Waiting]:
        return self._by_fd[fd]

    def use(self, source: str, port: int, *, is_kept: bool) -> SourcePort[Waiting]:
        """The socket of a source address and port, opened if it is not open; `expire` spares one that is kept for a
        known flow.

        Raises:
            OSError: it cannot be opened (see `sockets.open_probe`), or EMFILE: every socket has something to send.
        """
        address = (source, port)
        found = self._kept.get(address)
        if found is None:
            found = self._passing.get(address)
            if found is None:
                return self._open(address, is_kept=is_kept)
            if is_kept:
                self._kept[address] = self._passing.pop(address)
                found.guard()
            else:
                self._passing.move_to_end(address)
        return found

    def expire(self, limit_ns: int) -> None:
        """Close the passing ones that were last used before this instant."""
        passing = self._passing
        while passing:
            oldest = next(iter(passing.values()))
            if oldest.used_ns >= limit_ns or oldest.queue:
                return
            self._close(oldest)

    def close(self) -> None:
        """Close them all, kept or not."""
        for port in list(self._by_fd.values()):
            self._close(port)

    def _open(self, address: tuple[str, int], *, is_kept: bool) -> SourcePort[Waiting]:
        if len(self._by_fd) >= self._max_open:
            self._make_room()
        opened: SourcePort[Waiting] = SourcePort(address, is_guarded=is_kept)
        self._by_fd[opened.fd] = opened
        (self._kept if is_kept else self._passing)[address] = opened
        self._poller.add(opened.fd, self._reader)
        return opened

    def _make_room(self) -> None:
        """Close the one that was used longest ago: what could still answer it most likely has."""
        self._counters["source-ports-limit"] += 1
        oldest = next(iter(self._passing.values()), None)
        if oldest is None or oldest.queue:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self._close(oldest)

    def _close(self, port: SourcePort[Waiting]) -> None:
        del self._by_fd[port.fd]
        if self._passing.pop(port.address, None) is None:
            del self._kept[port.address]
        self._poller.forget(port.fd)
        port.close()
