"""One daemon for each probe port and each mark on kernel objects in a network namespace, whatever its directories are.

Two of them would take each other's rules and routes for remnants and remove them. Names of abstract sockets belong to
the network namespace, as ports and rules do, and end with their process: a locked file says nothing to a container.
Anybody may take such a name, so a process of another user keeps no daemon from starting.

Source: unix(7), abstract sockets and SO_PEERCRED.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from meshwatchd.adapters.socket_options import read_peer
from meshwatchd.model.ids import SERVICE_USER


class Holder(NamedTuple):
    """The process that has a name.

    Attributes:
        pid: 0 where it cannot be told: it is in another PID namespace, or does not listen.
        uid: -1 where it cannot be told.
    """

    name: str
    pid: int
    uid: int

    @property
    def is_a_daemon(self) -> bool:
        """Whether it may be a meshwatchd: root's, the service's, or of the user of this process."""
        try:
            return self.uid in {0, os.geteuid(), pwd.getpwnam(SERVICE_USER).pw_uid}
        except KeyError:
            return self.uid in {0, os.geteuid()}


class NamespaceLock:
    """Names in this network namespace, held until this process ends."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._held: list[socket.socket] = []

    def acquire(self) -> tuple[Holder, ...]:
        """Take the names; returns those that others have, and who. Never blocks."""
        return tuple(holder for name in self._names if (holder := self._take(name)) is not None)

    def _take(self, name: str) -> Holder | None:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            opened.bind(f"\0{name}")
            opened.listen(1)
        except OSError:
            opened.close()
            return _holder(name)
        self._held.append(opened)
        return None

    def release(self) -> None:
        """Give the names back."""
        for each in self._held:
            each.close()
        self._held.clear()


def names_of(*, port: int, protocol: int) -> tuple[str, str]:
    """What one daemon has for itself: the port of its reflector, and the protocol number of its rules and routes."""
    return f"meshwatchd/probe.port/{port}", f"meshwatchd/kernel.protocol/{protocol}"


def daemons(holders: Iterable[Holder]) -> Holder | None:
    """The first that may be a daemon."""
    return next((each for each in holders if each.is_a_daemon), None)


def _holder(name: str) -> Holder:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
        try:
            asking.connect(f"\0{name}")
            pid, uid = read_peer(asking)
        except OSError:
            # It has ended meanwhile, or does not listen, as a daemon does.
            return Holder(name, 0, -1)
    return Holder(name, pid, uid)
