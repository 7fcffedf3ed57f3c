"""Who is called when a descriptor is ready: one epoll and one table."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Final

Ready = list[tuple[int, int]]
"""Descriptors that are ready, each with what epoll says of it."""

Reader = Callable[[int], None]
"""Takes the descriptor that is ready (readable, writable if asked for, or broken)."""

MAX_EVENTS: Final = 8192
"""More than the loop ever has descriptors: a turn must see everything that is readable before it judges."""


class Poller:
    """epoll, level-triggered, with a callback for each descriptor."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._readers: dict[int, Reader] = {}

    def close(self) -> None:
        """Close the epoll descriptor; the others belong to those who added them."""
        self._epoll.close()

    def add(self, fd: int, reader: Reader) -> None:
        """Call `reader` whenever `fd` is readable or broken."""
        self._epoll.register(fd, select.EPOLLIN)
        self._readers[fd] = reader

    def set_writing(self, fd: int, *, is_wanted: bool) -> None:
        """Call the descriptor's reader also when it can be written to, or stop doing so."""
        self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if is_wanted else 0))

    def forget(self, fd: int) -> None:
        """Drop a descriptor that is about to be closed: closing it is what removes it from epoll."""
        self._readers.pop(fd, None)

    def wait(self) -> Ready:
        """Block until something is ready; an interrupted wait is resumed."""
        return self._epoll.poll(-1, MAX_EVENTS)

    def fileno(self) -> int:
        """The epoll descriptor, readable while something is ready, for a loop that has a poller of its own."""
        return self._epoll.fileno()

    def ready(self) -> Ready:
        """What is ready at this moment; never blocks."""
        return self._epoll.poll(0, MAX_EVENTS)

    def dispatch(self, ready: Ready) -> None:
        """Call the readers; a descriptor forgotten meanwhile is skipped."""
        readers = self._readers
        for fd, _mask in ready:
            reader = readers.get(fd)
            if reader is not None:
                reader(fd)
