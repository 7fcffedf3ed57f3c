"""Frames go to whichever agent lives."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.model.events import AgentLost, Event, ObjectLost, ReplyReceived, SnapshotReceived
from meshwatchd.model.frames import FactFrame
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import DaemonReady, ObjectReasserted, Output
from meshwatchd.model.settings import MS, SECOND
from meshwatchd.runtime.heartbeat import Patience
from meshwatchd.wire.auth import BOUND, key_id
from tests.support.engine_node import REPORTING_AGENT, engine_node, python_agent
from tests.support.packet_node import SECRET
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


KEYS_AGENT = """
from collections import Counter
from meshwatchd.model.events import ObjectLost
from meshwatchd.model.frames import EventFrame, KeysFrame
from meshwatchd.model.identity import PairBinding
from meshwatchd.runtime.link import agent_end
end = agent_end(3, Counter())
end.send(KeysFrame(bindings=(PairBinding(peer="b1", shared=bytes(32), signs=True),)))
end.send(EventFrame(event=ObjectLost(what="later")))
"""
"""Tells the key of a pair, and something else behind it."""


def test_keys_of_pairs_are_in_force_before_what_came_behind_them():
    """They are no events: nothing that is recorded holds a secret."""
    with engine_node(python_agent(KEYS_AGENT)) as node:
        node.agent.advance(monotonic_ns())
        events = []

        def has_heard() -> bool:
            events.extend(node.agent.receive())
            return bool(events)

        pump(node.poller, has_heard)

        assert [ObjectLost(what="later")] == events
        assert key_id(SECRET.secret) ^ BOUND == node.effects._peers.sending_key(NodeName("b1")).key_id


def test_more_than_the_socket_holds_is_written_when_there_is_room():
    """The loop is woken for writing as long as something waits, and not longer."""
    with engine_node(python_agent(REPORTING_AGENT)) as node:
        node.agent.advance(monotonic_ns())
        for _ in range(70):
            node.agent.send(FactFrame(at_ns=1, fact=ObjectReasserted(what="x" * 100_000)))

        pump(node.poller, lambda: node.agent.receive() is not None and not node.agent._is_writing)

        assert node.agent._outbox.piece() is None
        assert 0 == node.counters["link-facts-dropped"]


def test_an_agent_that_closes_its_link_and_does_not_end_is_killed():
    """Nobody can ask it any more, and it has what the next one needs."""
    script = "import os, time; os.close(3); time.sleep(60)"
    with engine_node(python_agent(script), patience=Patience(first_ns=500 * MS, later_ns=500 * MS)) as node:
        node.agent.advance(monotonic_ns())
        due_ns = node.agent.deadline()

        def is_over() -> bool:
            node.agent.receive()
            node.agent.advance(monotonic_ns())
            return bool(node.inbox)

        pump(node.poller, is_over)

        assert due_ns is not None
        [lost] = node.inbox
        assert isinstance(lost, AgentLost)
        assert (-9, True) == (lost.exit_status, lost.silent_ns >= 500 * MS)


@pytest.mark.parametrize("cause", [signal.SIGSTOP, signal.SIGUSR1])
def test_a_hung_agent_is_replaced_while_the_engine_probes_on(cause):
    """Stopped, or spinning: no probe is missed, systemd hears of a healthy engine, and another agent reports."""
    # Where the engine is late itself the agent hangs before its first answer: thirty seconds would be waited then.
    patience = Patience(first_ns=3 * SECOND, later_ns=400 * MS)
    with engine_node(python_agent(REPORTING_AGENT), patience=patience) as node:
        answered: list[int] = []

        def hang_once(event: Event, _now: int) -> None:
            if isinstance(event, SnapshotReceived) and not answered:
                answered.append(len(node.core.seen(ReplyReceived)))
                pid = node.agent._supervisor.pid
                assert pid is not None
                os.kill(pid, cause)

        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.seen(SnapshotReceived)) == 2 and "WATCHDOG=1" in node.notices, hang_once)

        [lost] = node.core.seen(AgentLost)
        assert isinstance(lost, AgentLost)
        assert (-9, True) == (lost.exit_status, lost.silent_ns >= 400 * MS)
        assert 1 == node.counters["agent-exits"]
        assert "WATCHDOG=1" in node.notices
        assert len(node.core.seen(ReplyReceived)) > answered[0] + 20


STOPPED_AGENT = """
from collections import Counter
from meshwatchd.runtime.link import LinkClosedError, agent_end
end = agent_end(3, Counter())
end._socket.setblocking(True)
heard = []
try:
    while True:
        heard += end.receive()
except LinkClosedError:
    open("{path}", "w").write(repr([type(each).__name__ for each in heard]))
"""


@pytest.mark.parametrize("is_ordered", [True, False])
def test_the_agent_hears_whether_the_engine_stops_in_order(tmp_path, is_ordered):
    """An exception is no order: what the agent would take back stays for the next process."""
    path = tmp_path / "heard"
    with engine_node(python_agent(STOPPED_AGENT.replace("{path}", str(path)))) as node:
        node.core.plans = ()

        def end(now: int) -> list[Output]:
            node.core._due_ns = now + 10_000_000
            if node.agent.is_connected and not is_ordered:
                raise RuntimeError("a bug")
            if node.agent.is_connected:
                node.loop.stop()
            return []

        node.core._tick = end  # type: ignore[method-assign]
        node.core._due_ns = monotonic_ns()
        with contextlib.nullcontext() if is_ordered else pytest.raises(RuntimeError, match="a bug"):
            node.loop.run()
    assert ("StopFrame" in path.read_text()) is is_ordered
