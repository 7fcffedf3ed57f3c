"""Asks for services in the agent: canaries of kinds dns, tls and http, each when the engine has it asked.

    engine --AskFrame--> exchange of `adapters.service_prober` --AnswerFrame--> engine

The engine keeps the timetable, so that the agent sleeps between two questions, and sleeps for good where no such canary
is declared. dnspython, 3.3 MiB, is loaded by the first question.

Each question has one answer. Where this process was too late to say what was found, the answer is that nothing was
seen: its own sleep is not the silence of a service.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import SendFailed
from meshwatchd.model.frames import AnswerFrame, AskFrame
from meshwatchd.model.ids import SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.model.service_check import NOT_SEEN, ServiceSeen
from meshwatchd.model.units import MINUTE, MS, SECOND

if TYPE_CHECKING:
    from meshwatchd.adapters.service_prober import ServiceProber

STALE_NS: Final = 1 * SECOND
"""A question that has waited so long for this process is not asked: the core has given it up."""

LATE_NS: Final = 200 * MS
"""Whoever wakes up so much later than the end of an exchange may have slept through its answers."""

FORGOTTEN_NS: Final = 5 * MINUTE
"""Of a canary that has not been asked for so long nothing is kept; each is asked once a minute at least."""


class ServiceDesk:
    """The exchanges under way."""

    def __init__(self, send: Callable[[AnswerFrame], None]) -> None:
        self._send = send
        self._poller = Poller()
        self._prober: ServiceProber | None = None
        self._plans: dict[SessionId, tuple[SessionPlan, int]] = {}
        self._numbers: dict[tuple[SessionId, int], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self, frame: AskFrame) -> None:
        """Ask once; the answer follows within about a second."""
        key, now_ns = (frame.plan.session, frame.seq), monotonic_ns()
        self._give_up_other_plans(frame.plan)
        self._numbers[key] = frame.number
        if now_ns - frame.at_ns > STALE_NS:
            self._answer(SendFailed(session=frame.plan.session, seq=frame.seq, errno=NOT_SEEN))
            return
        if self._prober is None:
            self._prober = self._open()
        self._know(self._prober, frame.plan, now_ns)
        self._prober.send(SendProbe(session=frame.plan.session, seq=frame.seq, source_port=frame.source_port))
        self._arm(self._prober)

    def close(self) -> None:
        """Forget everything that is under way."""
        if self._timer is not None:
            self._timer.cancel()
        if self._prober is not None:
            asyncio.get_running_loop().remove_reader(self._poller.fileno())
            self._prober.close()
            self._prober = None
        self._poller.close()

    def _open(self) -> ServiceProber:
        from meshwatchd.adapters.service_prober import ServiceProber  # noqa: PLC0415 - 3 MiB, where it is declared only

        asyncio.get_running_loop().add_reader(self._poller.fileno(), self._read)
        # The engine counts what it asks and what it is answered.
        return ServiceProber(poller=self._poller, counters=Counter(), emit=self._answer)

    def _give_up_other_plans(self, plan: SessionPlan) -> None:
        """End what is under way for another plan of that number, of which the prober says nothing."""
        if (known := self._plans.get(plan.session)) is not None and known[0] != plan:
            for session, seq in [key for key in self._numbers if key[0] == plan.session]:
                self._answer(SendFailed(session=session, seq=seq, errno=NOT_SEEN))

    def _know(self, prober: ServiceProber, plan: SessionPlan, now_ns: int) -> None:
        """Note what a session asks."""
        known = self._plans.get(plan.session)
        self._plans[plan.session] = plan, now_ns
        if known is not None and known[0] == plan:
            return
        self._plans = {
            number: (each, at_ns) for number, (each, at_ns) in self._plans.items() if now_ns - at_ns < FORGOTTEN_NS
        }
        prober.configure(each for each, _ in self._plans.values())

    def _answer(self, event: ServiceSeen | SendFailed) -> None:
        number = self._numbers.pop((event.session, event.seq), None)
        if number is not None:
            self._send(AnswerFrame(number=number, event=event))

    def _read(self) -> None:
        self._poller.dispatch(self._poller.ready())
        if self._prober is not None:
            self._arm(self._prober)

    def _arm(self, prober: ServiceProber) -> None:
        """Wake up when the next exchange is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ns = prober.deadline()
        if due_ns is not None:
            left_ns = max(0, due_ns - monotonic_ns())
            self._timer = asyncio.get_running_loop().call_later(left_ns / SECOND, self._expire, prober, due_ns)

    def _expire(self, prober: ServiceProber, due_ns: int) -> None:
        now_ns = monotonic_ns()
        # An answer that is here already is heard first.
        self._poller.dispatch(self._poller.ready())
        if now_ns - due_ns > LATE_NS:
            prober.give_up(now_ns, NOT_SEEN)
        else:
            prober.expire(max(now_ns, due_ns))
        self._arm(prober)
