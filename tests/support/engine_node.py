"""The engine process around a fake core, in this process, on loopback, with one real peer to probe."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import Event
from meshwatchd.model.ids import LocationName
from meshwatchd.model.outputs import Output
from meshwatchd.model.settings import DaemonSettings, MeshSettings, ProbeProfile, ProbeSettings, Settings
from meshwatchd.model.stamp import StampSettings
from meshwatchd.model.timers import TIMERS
from meshwatchd.model.topology import Node
from meshwatchd.runtime.agent_link import AgentLink
from meshwatchd.runtime.effects import Effects
from meshwatchd.runtime.heartbeat import PATIENCE, Patience
from meshwatchd.runtime.loop import Loop
from meshwatchd.runtime.supervise import LINK_FD, Spawn
from tests.support.fake_engine import FakeEngine
from tests.support.packet_node import NAMES, SECRET, PacketNode, free_port, plan

REPORTING_AGENT = """
import select
import signal
from collections import Counter
from meshwatchd.model.events import SnapshotReceived
from meshwatchd.model.frames import AliveFrame, EventFrame, PingFrame
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.runtime.link import LinkClosedError, agent_end
def spin(*_):
    while True:
        pass
signal.signal(signal.SIGUSR1, spin)
end = agent_end(3, Counter())
end.send(EventFrame(event=SnapshotReceived(snapshot=Snapshot())))
try:
    while True:
        select.select([end], [], [])
        for frame in end.receive():
            if isinstance(frame, PingFrame):
                end.send(AliveFrame())
except LinkClosedError:
    pass
"""
"""An agent that reports an empty kernel and then answers pings until the engine goes. It spins after SIGUSR1."""


NO_STAMP = StampSettings()


def no_agent(_end: socket.socket) -> int:
    """An agent that cannot be started."""
    raise OSError


def python_agent(script: str) -> Spawn:
    """An agent that is a few lines of Python; its end of the link is descriptor 3."""

    def spawn(end: socket.socket) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, end.fileno(), LINK_FD)]
        return os.posix_spawn(sys.executable, [sys.executable, "-c", script], os.environ, file_actions=actions)

    return spawn


def settings(stamp: StampSettings) -> Settings:
    """Three nodes that all live on loopback; this one is a1."""
    nodes = tuple(
        Node(
            name=name,
            location=LocationName("here"),
            node_ip="127.0.0.1",
            pod_cidr="10.0.0.0/24",
            overlay_ip="127.0.0.1",
        )
        for name in NAMES
    )
    # Ports of this test run, since loopback is shared.
    probe = ProbeSettings(port=free_port())
    return Settings(daemon=DaemonSettings(node="a1"), probe=probe, stamp=stamp, mesh=MeshSettings(node=nodes))


class EngineNode:
    """Loop, adapters and fake core of a1; b1 reflects beside it.

    Attributes:
        notices: what was told to systemd.
        reloads, settled, slimmed: when the loop asked for each.
        peer: b1.
    """

    def __init__(
        self,
        spawn: Spawn,
        stamp: StampSettings = NO_STAMP,
        stamp_key: bytes | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        self.poller = Poller()
        self.counters: Counter[str] = Counter()
        self.inbox: deque[Event] = deque()
        self.notices: list[str] = []
        self.reloads: list[int] = []
        self.settled: list[int] = []
        self.slimmed: list[int] = []
        self.peer = PacketNode("b1", self.poller)
        port = free_port()
        self.peer.reflector.listeners.listen((port,))
        self.core = FakeEngine(plans=(plan(port),))
        self.agent = AgentLink(
            spawn=spawn, poller=self.poller, counters=self.counters, inbox=self.inbox, patience=patience
        )
        self.effects = Effects(
            settings=settings(stamp),
            secrets=(SECRET,),
            epoch=5,
            poller=self.poller,
            inbox=self.inbox,
            counters=self.counters,
            agent=self.agent,
            max_files=1024,
            stamp_key=stamp_key,
        )
        self.loop = Loop(
            interval_ns=TIMERS[ProbeProfile.DEFAULT].interval_ns,
            engine=self.core,
            poller=self.poller,
            effects=self.effects,
            agent=self.agent,
            inbox=self.inbox,
            counters=self.counters,
            notify=self.notices.append,
            reload=lambda: self.reloads.append(monotonic_ns()),
            settle=lambda: self.settled.append(monotonic_ns()),
            slim=lambda: self.slimmed.append(monotonic_ns()),
        )

    def begin(self, now_ns: int) -> None:
        """Let the core start probing."""
        for output in self.core.begin(now_ns):
            self.effects.carry_out(output, now_ns)

    def run_until(self, is_done: Callable[[], bool], on_event: Callable[[Event, int], None] | None = None) -> None:
        """Run the loop until the predicate holds, which is asked after each event."""
        inner = self.core.handle

        def handle(event: Event, now: int) -> list[Output]:
            outputs = inner(event, now)
            if on_event is not None:
                on_event(event, now)
            if is_done():
                self.loop.stop()
            return outputs

        self.core.handle = handle  # type: ignore[method-assign]
        self.loop.run()

    def close(self) -> None:
        """Close what is open."""
        self.effects.close()
        self.agent.stop()
        self.peer.close()
        self.poller.close()


@contextmanager
def engine_node(
    spawn: Spawn = no_agent,
    *,
    stamp: StampSettings = NO_STAMP,
    stamp_key: bytes | None = None,
    patience: Patience = PATIENCE,
) -> Iterator[EngineNode]:
    """An engine that is closed at the end."""
    node = EngineNode(spawn, stamp, stamp_key, patience)
    try:
        yield node
    finally:
        node.close()
