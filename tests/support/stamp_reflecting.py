"""Our reflector for other makers' senders on loopback, and one sender's socket."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.stamp_interop.reflector import StandardReflector
from meshwatchd.model.stamp import StampSettings
from tests.support.packet_node import free_port, udp
from tests.support.pump import pump

LOOPBACK = ("127.0.0.0/8", "::1/128")


class Reflecting:
    """A reflector on loopback, and one sender's socket."""

    def __init__(self, settings: StampSettings, key: bytes | None, sender: socket.socket) -> None:
        self.poller, self.counters = Poller(), Counter[str]()
        self.reported: list[tuple[str, str]] = []
        self.reflector = StandardReflector(
            poller=self.poller,
            counters=self.counters,
            settings=settings,
            key=key,
            report=lambda source, reason: self.reported.append((source, reason)),
        )
        self.reflector.retry()
        self.sender, self.target = sender, ("127.0.0.1", settings.listen)

    def ask(self, packet: bytes) -> bytes:
        """The answer to a packet."""
        before = self.counters["stamp-answered"]
        self.sender.sendto(packet, self.target)
        pump(self.poller, lambda: self.counters["stamp-answered"] > before)
        return self.sender.recv(65_535)

    def refuse(self, packet: bytes) -> str:
        """The reason for which a packet gets no answer."""
        before = self.counters.copy()
        self.sender.sendto(packet, self.target)
        pump(self.poller, lambda: self.counters != before)
        (reason,) = self.counters - before
        return reason


@contextmanager
def reflecting(*, key: bytes | None = None, **changes: object) -> Iterator[Reflecting]:
    """A reflector of these settings, closed at the end."""
    settings = StampSettings(**{"listen": free_port(), "allow": LOOPBACK, **changes})  # type: ignore[arg-type]
    with udp() as sender:
        running = Reflecting(settings, key, sender)
        try:
            yield running
        finally:
            running.reflector.close()
            running.poller.close()
