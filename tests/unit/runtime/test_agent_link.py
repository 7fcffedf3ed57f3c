"""Frames go to whichever agent lives."""

from __future__ import annotations

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.model.events import AgentLost, ObjectLost, SnapshotReceived
from meshwatchd.model.frames import FactFrame
from meshwatchd.model.outputs import DaemonReady, ObjectReasserted
from meshwatchd.runtime.agent_link import ALIVE_NS
from tests.support.engine_node import REPORTING_AGENT, engine_node, python_agent
from tests.support.pump import pump

ECHO_AGENT = """
from collections import Counter
from meshwatchd.model.events import ObjectLost
from meshwatchd.model.frames import EventFrame, FactFrame
from meshwatchd.runtime.link import LinkClosedError, agent_end
end = agent_end(3, Counter())
end._socket.setblocking(True)
total = 0
while total < 2:
    piece = end._socket.recv(40000)
    for frame in end._take(piece):
        total += 1
        end.send(EventFrame(event=ObjectLost(what=str(frame.at_ns))))
"""
"""Says the time of the first two facts it gets, then ends."""


def test_what_was_said_before_the_agent_lived_reaches_it():
    """Facts wait in order; the agent's answers become events."""
    with engine_node(python_agent(ECHO_AGENT)) as node:
        for at_ns in (1, 2):
            node.agent.send(FactFrame(at_ns=at_ns, fact=DaemonReady(pair=0)))
        node.agent.advance(monotonic_ns())
        events = []

        def both_echoed() -> bool:
            events.extend(node.agent.receive())
            return len(events) >= 2

        pump(node.poller, both_echoed)
        pump(node.poller, lambda: bool(node.inbox))

        assert [ObjectLost(what="1"), ObjectLost(what="2")] == events
        assert [AgentLost(exit_status=0)] == list(node.inbox)
        assert node.agent.deadline() is not None


def test_more_than_the_socket_holds_is_written_when_there_is_room():
    """The loop is woken for writing as long as something waits, and not longer."""
    with engine_node(python_agent(REPORTING_AGENT)) as node:
        node.agent.advance(monotonic_ns())
        for _ in range(70):
            node.agent.send(FactFrame(at_ns=1, fact=ObjectReasserted(what="x" * 100_000)))

        pump(node.poller, lambda: node.agent.receive() is not None and not node.agent._is_writing)

        assert node.agent._outbox.piece() is None
        assert 0 == node.counters["link-facts-dropped"]


def test_agent_is_alive_while_it_says_so():
    """Its word holds for five seconds."""
    with engine_node(python_agent(REPORTING_AGENT)) as node:
        now_ns = monotonic_ns()
        assert not node.agent.is_alive(now_ns)
        node.agent.advance(now_ns)
        events = []

        def has_reported() -> bool:
            events.extend(node.agent.receive())
            return node.agent.has_reported

        pump(node.poller, has_reported)

        assert [SnapshotReceived] == [type(event) for event in events]
        assert node.agent.is_alive(monotonic_ns())
        assert not node.agent.is_alive(monotonic_ns() + ALIVE_NS + 1)
