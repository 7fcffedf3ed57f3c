"""Canaries of kinds dns, tls and http as the engine's process sees them: its agent asks, and says what it has seen.

The core commands each question as it commands a probe. It goes to the agent with all that is needed to ask it, so that
an agent that has just been started, or a configuration that has changed, is told nothing else. A question that no agent
can be asked, or that one has left without an answer, has not been seen: SendFailed(NOT_SEEN), which is no miss.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.model.events import SendFailed
from meshwatchd.model.frames import AnswerFrame, AskFrame
from meshwatchd.model.ids import SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.model.service_check import NOT_SEEN, ServiceSeen
from meshwatchd.model.units import MS, SECOND
from meshwatchd.runtime.agent_link import AgentLink

PATIENCE_NS: Final = 1_500 * MS
"""An exchange takes a second at most: an agent that owes an answer for longer is not asked anything more."""

OWED_NS: Final = 10 * SECOND
"""An agent that hangs has been replaced by then; whatever was asked before has no answer any more."""

Emit = Callable[[ServiceSeen | SendFailed], None]


class ServiceQuestions:
    """The questions that the agent owes an answer for.

    Attributes:
        sessions: whose probes are sent here.
    """

    def __init__(self, *, agent: AgentLink, counters: Counter[str], emit: Emit) -> None:
        self._agent, self._counters, self._emit = agent, counters, emit
        agent.answered, agent.disconnected = self.answered, self.disconnected
        self._numbers = itertools.count(1)
        self._plans: dict[SessionId, SessionPlan] = {}
        # In the order of asking, so that the oldest is the first.
        self._asked: dict[int, tuple[SendProbe, int]] = {}
        self.sessions: frozenset[SessionId] = frozenset()

    def configure(self, plans: Iterable[SessionPlan]) -> None:
        """Take over a table of sessions; answers about those whose plans are not the same are not waited for."""
        before, self._plans = self._plans, {plan.session: plan for plan in plans}
        self.sessions = frozenset(self._plans)
        gone = {number for number, plan in before.items() if self._plans.get(number) != plan}
        self._asked = {number: each for number, each in self._asked.items() if each[0].session not in gone}

    def send(self, command: SendProbe) -> None:
        """Have the agent ask once."""
        now_ns = monotonic_ns()
        if not self._agent.is_connected or self._is_owed(now_ns):
            self._not_seen(command)
            return
        number = next(self._numbers)
        self._asked[number] = command, now_ns
        self._counters["canaries-asked"] += 1
        self._agent.send(
            AskFrame(
                number=number,
                at_ns=now_ns,
                plan=self._plans[command.session],
                seq=command.seq,
                source_port=command.source_port,
            )
        )

    def answered(self, frame: AnswerFrame) -> None:
        """Tell the core what the agent says; an answer that nobody waits for any more is dropped."""
        if self._asked.pop(frame.number, None) is None:
            return
        if isinstance(frame.event, ServiceSeen):
            self._counters["services-seen"] += 1
        elif frame.event.errno == NOT_SEEN:
            self._counters["services-not-seen"] += 1
        else:
            self._counters["canaries-failed"] += 1
        self._emit(frame.event)

    def disconnected(self) -> None:
        """The agent is gone: nothing of what it was asked will be answered."""
        asked, self._asked = self._asked, {}
        for command, _ in asked.values():
            self._not_seen(command)

    def _is_owed(self, now_ns: int) -> bool:
        while self._asked:
            number, (_, at_ns) = next(iter(self._asked.items()))
            if now_ns - at_ns < OWED_NS:
                return now_ns - at_ns > PATIENCE_NS
            del self._asked[number]
        return False

    def _not_seen(self, command: SendProbe) -> None:
        self._counters["services-not-seen"] += 1
        self._emit(SendFailed(session=command.session, seq=command.seq, errno=NOT_SEEN))
