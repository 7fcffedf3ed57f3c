"""The engine's side of canaries that ask for services: what nobody has seen is never taken for silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from meshwatchd.model.events import SendFailed
from meshwatchd.model.frames import AnswerFrame, AskFrame
from meshwatchd.model.ids import SessionId
from meshwatchd.model.outputs import SendProbe
from meshwatchd.model.service_check import NOT_SEEN, ServiceSeen
from meshwatchd.runtime.service_questions import OWED_NS, PATIENCE_NS, ServiceQuestions
from tests.support.service_frames import service_plan

SESSION = SessionId(7)


class _Agent:
    """The link to an agent."""

    def __init__(self) -> None:
        self.is_connected = True
        self.sent: list[AskFrame] = []
        self.send = self.sent.append
        self.answered: Callable[[AnswerFrame], None]
        self.disconnected: Callable[[], None]


class _Stage:
    def __init__(self) -> None:
        self.agent, self.counters, self.events = _Agent(), Counter[str](), list[Any]()
        self.questions = ServiceQuestions(
            agent=cast("Any", self.agent), counters=self.counters, emit=self.events.append
        )
        self.questions.configure((service_plan(15443),))

    def ask(self, seq=5):
        self.questions.send(SendProbe(session=SESSION, seq=seq, source_port=40_000))

    def answer(self, number, seq=5):
        self.agent.answered(AnswerFrame(number=number, event=ServiceSeen(session=SESSION, seq=seq)))

    def wait(self, duration_ns):
        """As if all that was asked had been asked so much earlier."""
        asked = self.questions._asked
        self.questions._asked = {number: (command, at - duration_ns) for number, (command, at) in asked.items()}


def _not_seen(seq=5):
    return SendFailed(session=SESSION, seq=seq, errno=NOT_SEEN)


def test_a_question_carries_all_that_is_needed_to_ask_it_and_its_answer_is_an_event():
    """So an agent that has just been started needs nothing else."""
    stage = _Stage()
    stage.ask()
    (frame,) = stage.agent.sent
    stage.answer(frame.number)
    stage.answer(frame.number)

    assert (service_plan(15443), 5, 40_000) == (frame.plan, frame.seq, frame.source_port)
    assert [ServiceSeen(session=SESSION, seq=5)] == stage.events
    assert {"canaries-asked": 1, "services-seen": 1} == stage.counters
    assert {SESSION} == stage.questions.sessions


def test_without_an_agent_nothing_is_seen_and_nothing_waits_for_the_next_one():
    """Also what the last one was asked."""
    stage = _Stage()
    stage.ask()
    stage.agent.is_connected = False
    stage.agent.disconnected()
    stage.ask(seq=6)

    assert [_not_seen(), _not_seen(6)] == stage.events
    assert 1 == len(stage.agent.sent)


def test_an_agent_that_owes_an_answer_is_asked_nothing_more_until_it_answers():
    """It hangs, maybe; after a while nobody expects that answer any more."""
    stage = _Stage()
    stage.ask()
    stage.wait(PATIENCE_NS + 1)
    stage.ask(seq=6)
    assert [_not_seen(6)] == stage.events

    stage.answer(1)
    stage.ask(seq=7)
    assert [5, 7] == [frame.seq for frame in stage.agent.sent]

    stage.wait(OWED_NS)
    stage.ask(seq=8)
    assert [5, 7, 8] == [frame.seq for frame in stage.agent.sent]


def test_answers_about_another_plan_are_dropped():
    """The number of the session stands for something else by then."""
    stage = _Stage()
    stage.ask()
    stage.questions.configure((service_plan(443),))
    stage.answer(1)
    assert [] == stage.events

    stage.ask()
    stage.questions.configure((service_plan(443),))
    stage.answer(2)
    assert [ServiceSeen(session=SESSION, seq=5)] == stage.events


def test_what_the_agent_could_not_ask_is_told_as_it_is():
    """A source port that is taken is tried again by the core."""
    stage = _Stage()
    for number, reason in ((1, 98), (2, NOT_SEEN)):
        stage.ask()
        stage.agent.answered(AnswerFrame(number=number, event=SendFailed(session=SESSION, seq=5, errno=reason)))

    assert [98, NOT_SEEN] == [event.errno for event in stage.events]
    assert (1, 1) == (stage.counters["canaries-failed"], stage.counters["services-not-seen"])
