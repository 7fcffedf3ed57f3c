"""The agent as the engine's loop sees it: takes frames at any time, whether it lives at the moment or not."""

from __future__ import annotations

import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.process import is_runnable, read_used_ns
from meshwatchd.model.events import AgentLost, Event, SnapshotReceived
from meshwatchd.model.frames import (
    AliveFrame,
    AnswerFrame,
    EventFrame,
    KeysFrame,
    PingFrame,
    StatusAskedFrame,
    StopFrame,
    ToAgent,
)
from meshwatchd.model.identity import PairBinding
from meshwatchd.runtime.heartbeat import PATIENCE, Heartbeat, Patience
from meshwatchd.runtime.link import EngineEnd, LinkClosedError, Outbox, engine_end
from meshwatchd.runtime.supervise import Spawn, Supervisor


class AgentLink:
    """The supervised agent and the link to it.

    Args:
        patience: with an agent that does not answer; then it is killed, and another one started.

    Attributes:
        is_readable: the agent has sent something, which `receive` has not taken yet.
        has_reported: a complete dump of the kernel has arrived from some agent.
        bind: takes the keys of pairs, before any event that came behind them.
        answered: takes what the agent says of a service that it was to ask for.
        disconnected: called when the link of an agent is closed, once.
    """

    def __init__(
        self,
        *,
        spawn: Spawn,
        poller: Poller,
        counters: Counter[str],
        inbox: deque[Event],
        patience: Patience = PATIENCE,
    ) -> None:
        self._poller, self._counters, self._inbox = poller, counters, inbox
        self._outbox = Outbox(counters)
        self._link: EngineEnd | None = None
        self.is_readable = False
        self._is_writing = False
        self._patience = patience
        self._heartbeat = Heartbeat(patience, 0)
        self._is_asked = False
        self.has_reported = False
        self.bind: Callable[[Sequence[PairBinding]], None] = lambda _bindings: None
        self.answered: Callable[[AnswerFrame], None] = lambda _answer: None
        self.disconnected: Callable[[], None] = lambda: None
        self._supervisor = Supervisor(spawn=spawn, poller=poller, on_start=self._connect, on_exit=self._lost)

    @property
    def is_connected(self) -> bool:
        """Whether there is an agent that what is sent goes to; else it waits for the next one."""
        return self._link is not None

    def send(self, frame: ToAgent) -> None:
        """Send a frame, or keep it for when the agent reads again or is back; a status replaces one that waits."""
        if self._link is None:
            self._outbox.put(frame)
        else:
            self._link.send(frame)
            self._watch_writing()

    def receive(self) -> list[Event]:
        """The events the agent sent since the last call; its signs of life are noted."""
        if not self.is_readable or self._link is None:
            return []
        self.is_readable = False
        self._link.flush()
        self._watch_writing()
        events: list[Event] = []
        try:
            for frame in self._link.receive():
                match frame:
                    case EventFrame():
                        events.append(frame.event)
                        self.has_reported |= isinstance(frame.event, SnapshotReceived)
                    case KeysFrame():
                        self.bind(frame.bindings)
                    case AnswerFrame():
                        self.answered(frame)
                    case AliveFrame():
                        self._heartbeat.answered()
                    case StatusAskedFrame():
                        self._is_asked = True
        except LinkClosedError:
            self._disconnect()
        return events

    def take_asked(self) -> bool:
        """Whether the status was asked for since the last call."""
        taken, self._is_asked = self._is_asked, False
        return taken

    def deadline(self) -> int | None:
        """When a new agent is to be started, or the one that runs to be asked for an answer."""
        return self._supervisor.deadline() if self._supervisor.pid is None else self._heartbeat.due_ns

    def advance(self, now_ns: int, ahead_ns: int = 0) -> None:
        """Start an agent if one is due; kill one that hangs, also one that has closed its link and does not end. What
        is due until `ahead_ns` is asked now.
        """
        self._supervisor.advance(now_ns)
        pid = self._supervisor.pid
        if pid is None or max(now_ns, ahead_ns) < self._heartbeat.due_ns:
            return
        if self._heartbeat.look(now_ns, read_used_ns(pid), lambda: is_runnable(pid)):
            self.send(PingFrame())
        elif self._heartbeat.is_hung:
            self._supervisor.kill()

    def stop(self, *, is_ordered: bool = False) -> None:
        """Tell the agent to end, by closing the link, and wait for it.

        Args:
            is_ordered: somebody has told the daemon to stop, and no next one may come for long.
        """
        if self._link is not None:
            if is_ordered:
                self._link.send(StopFrame())
            self._link.flush()
        self._disconnect()
        self._supervisor.stop()

    def _connect(self, end: socket.socket) -> None:
        self._disconnect()
        self._heartbeat = Heartbeat(self._patience, monotonic_ns())
        self._link = engine_end(end, self._counters, self._outbox)
        self._poller.add(self._link.fileno(), self._on_ready)
        self._link.flush()
        self._watch_writing()

    def _disconnect(self) -> None:
        if self._link is not None:
            self._poller.forget(self._link.fileno())
            self._link.close()
            self._link = None
            self.disconnected()
        self._is_writing = False

    def _lost(self, status: int) -> None:
        self._counters["agent-exits"] += 1
        silent_ns = self._heartbeat.silent_ns if self._heartbeat.is_hung else 0
        self._inbox.append(AgentLost(exit_status=status, silent_ns=silent_ns))

    def _on_ready(self, _fd: int) -> None:
        self.is_readable = True

    def _watch_writing(self) -> None:
        if self._link is not None and self._link.wants_write is not self._is_writing:
            self._is_writing = not self._is_writing
            self._poller.set_writing(self._link.fileno(), is_wanted=self._is_writing)
