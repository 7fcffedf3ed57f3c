"""The agent as the engine's loop sees it: takes frames at any time, whether it lives at the moment or not."""

from __future__ import annotations

import socket
from collections import Counter, deque
from typing import Final

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import AgentLost, Event, SnapshotReceived
from meshwatchd.model.frames import AliveFrame, EventFrame, StatusFrame, ToAgent
from meshwatchd.model.status import Status
from meshwatchd.runtime.link import EngineEnd, LinkClosedError, Outbox, engine_end
from meshwatchd.runtime.supervise import Spawn, Supervisor

ALIVE_NS: Final = 5_000_000_000
"""An agent whose loop has not gone round for so long is stuck, and the watchdog is to know."""


class AgentLink:
    """The supervised agent and the link to it.

    Args:
        spawn: starts an agent.
        poller, counters, inbox: shared with the loop; the end of an agent is an event.

    Attributes:
        has_reported: a complete dump of the kernel has arrived from some agent.
    """

    def __init__(self, *, spawn: Spawn, poller: Poller, counters: Counter[str], inbox: deque[Event]) -> None:
        self._poller, self._counters, self._inbox = poller, counters, inbox
        self._outbox = Outbox(counters)
        self._link: EngineEnd | None = None
        self._is_readable = False
        self._is_writing = False
        self._alive_ns: int | None = None
        self.has_reported = False
        self._supervisor = Supervisor(spawn=spawn, poller=poller, on_start=self._connect, on_exit=self._lost)

    def send(self, frame: ToAgent) -> None:
        """Send a frame, or keep it for when the agent reads again or is back."""
        if self._link is None:
            self._outbox.put(frame)
        else:
            self._link.send(frame)
            self._watch_writing()

    def send_status(self, status: Status) -> None:
        """Send the picture, which replaces one that still waits."""
        self.send(StatusFrame(status=status))

    def receive(self) -> list[Event]:
        """The events the agent sent since the last call; its signs of life are noted."""
        if not self._is_readable or self._link is None:
            return []
        self._is_readable = False
        self._link.flush()
        self._watch_writing()
        events: list[Event] = []
        try:
            for frame in self._link.receive():
                match frame:
                    case EventFrame():
                        events.append(frame.event)
                        self.has_reported |= isinstance(frame.event, SnapshotReceived)
                    case AliveFrame():
                        self._alive_ns = monotonic_ns()
        except LinkClosedError:
            self._disconnect()
        return events

    def is_alive(self, now_ns: int) -> bool:
        """Whether the agent's loop has gone round lately."""
        return self._alive_ns is not None and now_ns - self._alive_ns <= ALIVE_NS

    def deadline(self) -> int | None:
        """When a new agent is to be started."""
        return self._supervisor.deadline()

    def advance(self, now_ns: int) -> None:
        """Start an agent if one is due."""
        self._supervisor.advance(now_ns)

    def stop(self) -> None:
        """Tell the agent to end, by closing the link, and wait for it."""
        if self._link is not None:
            self._link.flush()
        self._disconnect()
        self._supervisor.stop()

    def _connect(self, end: socket.socket) -> None:
        self._disconnect()
        self._link = engine_end(end, self._counters, self._outbox)
        self._poller.add(self._link.fileno(), self._on_ready)
        self._link.flush()
        self._watch_writing()

    def _disconnect(self) -> None:
        if self._link is not None:
            self._poller.forget(self._link.fileno())
            self._link.close()
            self._link = None
        self._is_writing = False

    def _lost(self, status: int) -> None:
        self._counters["agent-exits"] += 1
        self._inbox.append(AgentLost(exit_status=status))

    def _on_ready(self, _fd: int) -> None:
        self._is_readable = True

    def _watch_writing(self) -> None:
        if self._link is not None and self._link.wants_write is not self._is_writing:
            self._is_writing = not self._is_writing
            self._poller.set_writing(self._link.fileno(), is_wanted=self._is_writing)
