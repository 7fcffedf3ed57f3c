"""Size probes over loopback: exactly as long as asked for, answered at that length, and counted by the reflector."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import pytest

from meshwatchd.adapters.netlink.learned import LearnedMtu
from meshwatchd.adapters.packet.sizer import FIRST_SSID, Sizer, ssid_of
from meshwatchd.model.events import RequestReceived
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.mtu import SendSizeProbe, SizeAnswered, SizePlan, SizeUnsent
from meshwatchd.wire.replay import MAX_SESSIONS, ReplayGuard
from tests.support.packet_node import ADDRESS, free_port, nodes, udp
from tests.support.pump import pump


def _plan(port, *, may_fragment=False, device=""):
    return SizePlan(
        session=0,
        peer=NodeName("b1"),
        layer=Layer.OVERLAY,
        path=1,
        source=ADDRESS,
        destination=ADDRESS,
        port=port,
        source_port=free_port(),
        may_fragment=may_fragment,
        device=device,
    )


@contextmanager
def _measuring(**kwargs):
    """A node a1 that measures towards b1's reflector."""
    with nodes("a1", "b1") as (poller, (here, there)):
        port, learned = free_port(), LearnedMtu()
        there.reflector.listeners.listen([port])
        sizer = Sizer(
            poller=poller,
            peers=here.peers,
            own=here.own(),
            counters=here.counters,
            emit=here.events.append,
            learned=learned,
        )
        sizer.configure([_plan(port, **kwargs)])
        try:
            yield poller, here, there, sizer
        finally:
            sizer.close()
            learned.close()


def _ask(poller, measuring, seq, size):
    """Send one probe and wait for its answer."""
    here, sizer = measuring
    sizer.send(SendSizeProbe(session=0, seq=seq, size_bytes=size))
    pump(poller, lambda: any(event.seq == seq for event in here.events))


@pytest.mark.parametrize("size", [300, 1400, 1420, 1500, 8921, 9000, 9216])
def test_a_probe_of_any_size_is_answered_at_its_length(size):
    """From ordinary ones to jumbo frames; the peer is told how long the packet was."""
    with _measuring() as (poller, here, there, sizer):
        _ask(poller, (here, sizer), 7, size)

        (answer,) = here.events
        assert isinstance(answer, SizeAnswered)
        assert (0, 7, 0, 0) == (answer.session, answer.seq, answer.count, answer.learned_mtu_bytes)
        (heard,) = there.events
        assert isinstance(heard, RequestReceived)
        assert (size, Layer.OVERLAY, 1) == (heard.size_bytes, heard.layer, heard.path)
        assert not there.reflector._familiar


def test_answers_are_counted_by_the_reflector():
    """The count goes up with each request that arrives, which tells lost requests from lost answers."""
    with _measuring() as (poller, here, _there, sizer):
        for seq in range(3):
            _ask(poller, (here, sizer), seq, 1400)

        assert [0, 1, 2] == [answer.count for answer in here.events]


def test_a_probe_that_the_kernel_does_not_take_is_told():
    """No such device: the errno says why, and nothing is waited for."""
    with _measuring(device="nowhere0") as (_poller, here, _there, sizer):
        sizer.send(SendSizeProbe(session=0, seq=3, size_bytes=1400))

        (told,) = here.events
        assert isinstance(told, SizeUnsent)
        assert (0, 3) == (told.session, told.seq)
        assert 0 == len(sizer._outstanding)


def test_a_probe_that_may_be_fragmented_is_answered_and_not_told_as_a_size():
    """What arrives in fragments says nothing of the size that passes in one piece."""
    with _measuring(may_fragment=True) as (poller, here, there, sizer):
        _ask(poller, (here, sizer), 1, 1800)

        assert [1] == [answer.seq for answer in here.events]
        assert [0] == [heard.size_bytes for heard in there.events]


def test_forged_and_foreign_answers_do_not_count():
    """Whoever does not know the key gets no further than a counter."""
    with _measuring() as (poller, here, _there, sizer):
        plan = sizer._plans[0]
        sizer.send(SendSizeProbe(session=0, seq=1, size_bytes=1400))
        with udp() as stranger:
            stranger.sendto(bytes(300), (ADDRESS, plan.source_port))
        pump(poller, lambda: bool(here.events))

        assert 1 == len(here.events)


def test_session_identifiers_are_apart_from_those_of_ordinary_probes():
    """Both have replay windows at the peer."""
    with _measuring() as (poller, here, there, sizer):
        _ask(poller, (here, sizer), 1, 1400)

        assert {FIRST_SSID} == set(there.peers.peer(NodeName("a1")).answered)


def test_paths_that_come_and_go_do_not_fill_what_the_peer_remembers():
    """A leader that changes once in five minutes brings thousands of new paths in a week."""
    guard, numbers, verdicts = ReplayGuard(), Counter[int](), Counter[str]()
    guard.confirm(7)
    for session in range(3 * MAX_SESSIONS):
        ssid = ssid_of(session)
        verdicts[guard.accept(7, numbers[ssid], session=ssid)] += 1
        numbers[ssid] += 1

    assert {"fresh": 3 * MAX_SESSIONS} == verdicts
    assert MAX_SESSIONS // 2 >= len(numbers)


def test_numbers_go_on_when_the_table_changes():
    """A session that began anew at 0 would be taken for a replay."""
    with _measuring() as (poller, here, there, sizer):
        _ask(poller, (here, sizer), 1, 1400)
        sizer.configure(list(sizer._plans.values()))
        _ask(poller, (here, sizer), 2, 1400)

        assert [0, 1] == [answer.count for answer in here.events]
        assert 0 == there.counters["requests-replayed"]


def test_what_nobody_waits_for_is_forgotten():
    """A probe that was lost is dropped after its life."""
    with _measuring() as (_poller, _here, _there, sizer):
        sizer.send(SendSizeProbe(session=0, seq=1, size_bytes=1400))
        assert 1 == len(sizer._outstanding)
        sizer.expire(1 << 62)
        assert 0 == len(sizer._outstanding)


def test_a_session_that_is_not_configured_sends_nothing():
    """Counted, and that is all."""
    with _measuring() as (_poller, here, _there, sizer):
        sizer.send(SendSizeProbe(session=9, seq=1, size_bytes=1400))

        assert 1 == here.counters["sends-without-session"]


def test_a_path_that_stays_keeps_its_socket_and_one_that_goes_does_not():
    """A probe under way is answered over a change of the table."""
    with _measuring() as (poller, here, _there, sizer):
        sizer.send(SendSizeProbe(session=0, seq=5, size_bytes=1400))
        sizer.configure(list(sizer._plans.values()))
        pump(poller, lambda: bool(here.events))
        assert [5] == [event.seq for event in here.events]

        sizer.configure([])
        assert {} == sizer._sockets
