"""The sockets that requests of peers come in by: one for each port and family."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Callable, Iterable

from meshwatchd.adapters.packet.sockets import filtered_packets, open_listener
from meshwatchd.adapters.poller import Poller


class Listener:
    """One listening socket; `is_routed` where answers leave by the routing table."""

    __slots__ = ("is_routed", "port", "socket")

    def __init__(self, port: int, family: socket.AddressFamily, *, is_routed: bool) -> None:
        self.port = port
        self.is_routed = is_routed
        self.socket = open_listener(port, family)


class Listeners:
    """All of them.

    Args:
        counters: `listen-failed` counts the sockets that cannot be opened.

    Attributes:
        by_fd: those that are open.
    """

    def __init__(
        self, poller: Poller, on_readable: Callable[[int], None], *, counters: Counter[str], routed_port: int
    ) -> None:
        self._poller, self._on_readable = poller, on_readable
        self._counters, self._routed_port = counters, routed_port
        self._open: dict[tuple[int, socket.AddressFamily], int] = {}
        self._wanted: tuple[int, ...] = ()
        self.by_fd: dict[int, Listener] = {}

    def listen(self, ports: Iterable[int]) -> None:
        """Listen on exactly these ports, for both families; one that is taken is left to `listen_again`."""
        self._wanted = tuple(sorted(set(ports)))
        for where in [where for where in self._open if where[0] not in self._wanted]:
            self._close(where)
        self.listen_again()

    def listen_again(self) -> None:
        """Open the wanted ports that could not be opened before; each that cannot be is counted."""
        for port in self._wanted:
            for family in (socket.AF_INET, socket.AF_INET6):
                if (port, family) not in self._open:
                    self._listen(port, family)

    def close(self) -> None:
        """Close all of them."""
        self._wanted = ()
        for where in list(self._open):
            self._close(where)

    def filtered(self) -> int:
        """Packets the kernel dropped at those that are open."""
        return sum(filtered_packets(listener.socket) for listener in self.by_fd.values())

    def _listen(self, port: int, family: socket.AddressFamily) -> None:
        try:
            listener = Listener(port, family, is_routed=port == self._routed_port)
        except OSError as error:
            # A kernel without IPv6 has no IPv6 requests either.
            self._counters["listen-failed"] += error.errno != errno.EAFNOSUPPORT
            return
        fd = listener.socket.fileno()
        self._open[port, family] = fd
        self.by_fd[fd] = listener
        self._poller.add(fd, self._on_readable)

    def _close(self, where: tuple[int, socket.AddressFamily]) -> None:
        fd = self._open.pop(where)
        self._poller.forget(fd)
        self.by_fd.pop(fd).socket.close()
