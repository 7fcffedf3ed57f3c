"""Frames cross whole, in order, or not at all, and nobody waits."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from meshwatchd.model.decoding import refusals
from meshwatchd.model.events import ObjectLost, SnapshotReceived
from meshwatchd.model.faults import Severity
from meshwatchd.model.frames import MAX_FRAME_BYTES, AliveFrame, EventFrame, FactFrame, ProvisionFrame, StatusFrame
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import DaemonReady, EnsureProvision, ObjectReasserted
from meshwatchd.model.plan import Provision, Route
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.status import Status
from meshwatchd.runtime import link
from meshwatchd.runtime.link import PIECE_BYTES, QUEUE_BYTES, LinkClosedError, Outbox


def _fact(size: int = 0, at_ns: int = 0) -> FactFrame:
    return FactFrame(at_ns=at_ns, fact=ObjectReasserted(what="x" * size))


def _status(at_ns: int) -> StatusFrame:
    return StatusFrame(
        status=Status(
            at_ns=at_ns,
            node=NodeName("a1"),
            location="",
            role="",
            mode="",
            is_ready=True,
            severity=Severity.OK,
            pairs=(),
            sessions=(),
            counters={},
        )
    )


def _provision(size: int = 0) -> ProvisionFrame:
    routes = (Route(dst="x" * size, table=1, dev="d"),)
    return ProvisionFrame(command=EnsureProvision(provision=Provision(routes=routes)))


@pytest.fixture
def ends():
    """Both ends and the engine's counters."""
    counters: Counter[str] = Counter()
    ours, theirs = link.pair()
    engine, agent = link.engine_end(ours, counters), link.agent_end(theirs.detach(), Counter())
    yield engine, agent, counters
    engine.close()
    agent.close()


def test_frames_arrive_in_order_and_typed(ends):
    """Both directions at once."""
    engine, agent, _counters = ends
    engine.send(_fact(at_ns=1))
    engine.send(FactFrame(at_ns=2, fact=DaemonReady(pair=3)))
    agent.send(AliveFrame())
    agent.send(EventFrame(event=ObjectLost(what="rule")))

    assert [_fact(at_ns=1), FactFrame(at_ns=2, fact=DaemonReady(pair=3))] == agent.receive()
    assert [AliveFrame(), EventFrame(event=ObjectLost(what="rule"))] == engine.receive()
    assert [] == engine.receive()


def test_frame_of_almost_four_mebibytes_crosses(ends):
    """A snapshot of a large node is cut into pieces and put together."""
    engine, agent, _counters = ends
    routes = tuple(Route(dst=f"{'x' * 1000}{number}", table=1, dev="d") for number in range(4000))
    frame = EventFrame(event=SnapshotReceived(snapshot=Snapshot(routes=routes)))
    assert MAX_FRAME_BYTES * 0.9 < len(msgspec.msgpack.encode(frame)) < MAX_FRAME_BYTES

    received: list[object] = []
    agent.send(frame)
    for _ in range(100):
        received += engine.receive()
        agent.flush()

    assert [frame] == received
    assert not agent.wants_write


def test_reader_that_stops_costs_no_time_and_old_facts_only(ends):
    """The queue is bounded: the oldest facts go, commands stay, and what is left arrives in order."""
    engine, agent, counters = ends
    engine.send(_provision())
    size = 100_000
    count = 3 * QUEUE_BYTES // size
    for number in range(count):
        engine.send(_fact(size, at_ns=number))
    engine.send(_provision())
    assert engine.wants_write

    received: list[object] = []
    while engine.wants_write:
        received += agent.receive()
        engine.flush()
    received += agent.receive()

    facts = [frame.at_ns for frame in received if isinstance(frame, FactFrame)]
    assert [_provision()] * 2 == [frame for frame in received if isinstance(frame, ProvisionFrame)]
    assert count - counters["link-facts-dropped"] == len(facts)
    assert counters["link-facts-dropped"] > 0
    assert sorted(set(facts)) == facts
    assert count - 1 == facts[-1]


def test_only_the_newest_status_waits():
    """An older status is worth nothing; facts go before it."""
    counters: Counter[str] = Counter()
    outbox = Outbox(counters)
    outbox.put(_status(1))
    outbox.put(_fact())
    outbox.put(_status(2))

    frames = []
    while (piece := outbox.piece()) is not None:
        frames.append(piece[1:])
        outbox.advance()

    assert [msgspec.msgpack.encode(_fact()), msgspec.msgpack.encode(_status(2))] == frames
    assert 1 == counters["link-status-superseded"]


def test_frame_under_way_is_finished_or_begun_anew():
    """It is not dropped in the middle; for the next agent it starts from the beginning."""
    outbox = Outbox(Counter())
    outbox.put(_fact(3 * PIECE_BYTES))
    first = outbox.piece()
    outbox.advance()
    for _ in range(2 * QUEUE_BYTES // 1_000_000):
        outbox.put(_fact(1_000_000))
    second = outbox.piece()
    outbox.rewind()

    assert first != second
    assert first == outbox.piece()


def test_frame_beyond_the_limit_is_dropped_and_counted(ends):
    """Nothing of it is sent."""
    engine, agent, counters = ends
    engine.send(_fact(MAX_FRAME_BYTES))
    engine.send(_fact())

    assert 1 == counters["link-frames-too-large"]
    assert [_fact()] == agent.receive()


def test_unreadable_frame_is_counted_and_the_next_one_read(ends):
    """An agent of another version must not stop the engine."""
    engine, agent, _counters = ends
    agent._socket.send(b"\0\xc1")
    agent._socket.send(b"\0" + msgspec.msgpack.encode({"frame": "Unheard"}))
    agent.send(AliveFrame())

    assert [AliveFrame()] == engine.receive()
    assert 2 == refusals.counts["frame"]


def test_flood_of_pieces_without_an_end_takes_no_memory(ends):
    """Pieces beyond the largest frame are thrown away as they come."""
    engine, agent, counters = ends
    piece = b"\1" + bytes(PIECE_BYTES)
    sent = 0
    while sent <= 2 * MAX_FRAME_BYTES:
        try:
            sent += agent._socket.send(piece)
        except BlockingIOError:
            engine.receive()
    engine.receive()
    assert engine._partial_bytes > MAX_FRAME_BYTES
    assert sum(map(len, engine._partial)) <= MAX_FRAME_BYTES

    agent._socket.send(b"\0")
    agent.send(AliveFrame())

    assert [AliveFrame()] == engine.receive()
    assert 1 == counters["link-frames-too-large"]


def test_end_of_the_other_side_is_told_after_its_last_words(ends):
    """What was sent before the end is received first; sending into the void is no error."""
    engine, agent, _counters = ends
    agent.send(AliveFrame())
    agent.close()
    engine.send(_fact())

    assert [AliveFrame()] == engine.receive()
    with pytest.raises(LinkClosedError):
        engine.receive()
    assert engine.wants_write
