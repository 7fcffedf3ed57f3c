"""The agent's side of canaries that ask for services: each question has one answer, and none is out of date."""

from __future__ import annotations

import asyncio
import time

import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.model.events import SendFailed
from meshwatchd.model.frames import AnswerFrame, AskFrame
from meshwatchd.model.ids import SessionId
from meshwatchd.model.service_check import NOT_SEEN, Reach, ServiceSeen
from meshwatchd.model.units import MS, SECOND
from meshwatchd.runtime.service_desk import FORGOTTEN_NS, LATE_NS, STALE_NS, ServiceDesk
from tests.support.service_frames import service_plan
from tests.support.service_stage import closed_port, full_listener


def _frame(port, *, number=1, age_ns=0, session=7, seq=5):
    return AskFrame(
        number=number, at_ns=monotonic_ns() - age_ns, plan=service_plan(port, session), seq=seq, source_port=0
    )


def _not_seen(number, session=7):
    return AnswerFrame(number=number, event=SendFailed(session=SessionId(session), seq=5, errno=NOT_SEEN))


class _Told(list[AnswerFrame]):
    """What the engine is told."""

    def __init__(self) -> None:
        super().__init__()
        self._is_more = asyncio.Event()

    def put(self, frame: AnswerFrame) -> None:
        """Take the next one."""
        self.append(frame)
        self._is_more.set()

    async def until(self, count: int) -> None:
        """Wait for so many."""
        async with asyncio.timeout(20):
            while len(self) < count:
                self._is_more.clear()
                await self._is_more.wait()


def _with_desk(scenario):
    async def run():
        told = _Told()
        desk = ServiceDesk(told.put)
        try:
            await scenario(desk, told)
        finally:
            desk.close()
        return told

    return asyncio.run(run())


def test_what_was_found_is_told_under_the_number_of_the_question():
    """At once where the service refuses, by the loop alone."""
    with closed_port() as port:

        async def scenario(desk, told):
            desk.take(_frame(port, number=3))
            await told.until(1)

        (frame,) = _with_desk(scenario)

    assert isinstance(frame.event, ServiceSeen)
    assert frame.event.connection is not None
    assert (3, 5, Reach.REFUSED) == (frame.number, frame.event.seq, frame.event.connection.reach)


def test_a_service_that_says_nothing_is_told_when_its_time_is_up():
    """The desk wakes up for that by itself, and has nothing more to wake up for."""
    with full_listener() as port:

        async def scenario(desk, told):
            desk.take(_frame(port))
            await told.until(1)
            assert desk._timer is None
            assert {} == desk._numbers

        (frame,) = _with_desk(scenario)

    # On a machine that is busy elsewhere the desk is late, and says that instead.
    if isinstance(frame.event, ServiceSeen):
        assert frame.event.connection is not None
        assert Reach.SILENT is frame.event.connection.reach
    else:
        assert _not_seen(1) == frame


def test_whoever_slept_through_the_end_of_an_exchange_has_seen_nothing():
    """Its own sleep is not the silence of the service."""
    with full_listener() as port:

        async def scenario(desk, told):
            desk.take(_frame(port))
            asyncio.get_running_loop().call_soon(time.sleep, (SECOND + LATE_NS + 50 * MS) / SECOND)
            await told.until(1)

        assert [_not_seen(1)] == _with_desk(scenario)


def test_a_question_that_has_waited_too_long_is_not_asked():
    """As when the agent hung; nothing is loaded for it."""

    async def scenario(desk, told):
        desk.take(_frame(9, age_ns=STALE_NS + MS))
        assert desk._prober is None

    assert [_not_seen(1)] == _with_desk(scenario)


def test_a_session_that_asks_another_service_has_no_answer_about_the_former():
    """Numbers of sessions are used again when the configuration changes; plans that nobody asks about are dropped."""
    with full_listener() as former, closed_port() as port:

        async def scenario(desk, told):
            desk.take(_frame(former, number=1))
            desk._plans[SessionId(9)] = service_plan(former, 9), monotonic_ns() - FORGOTTEN_NS
            desk.take(_frame(port, number=2, seq=6))
            await told.until(2)
            assert [SessionId(7)] == [*desk._plans]

        told = _with_desk(scenario)

    assert [1, 2] == [frame.number for frame in told]
    assert [_not_seen(1)] == told[:1]


@pytest.mark.parametrize("is_asked", [False, True])
def test_nothing_is_told_behind_the_end(is_asked):
    """Whatever is under way."""
    with full_listener() as port:

        async def scenario(desk, told):
            if is_asked:
                desk.take(_frame(port))

        assert [] == _with_desk(scenario)
