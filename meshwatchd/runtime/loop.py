"""The engine's loop: one epoll, one timer, and the order in which things are looked at.

    rest -> wake -> drain every readable socket -> core -> frames of the agent -> core -> stalled? -> Tick -> arm
    the timer

Sockets come first, so that an answer which is already here is heard before anything is called lost. Draining them takes
time, in which further answers arrive and further waits end: the Tick says up to when everything was heard, and what
ends later is judged in the next turn. Whoever was not scheduled for a while says so to the core before the Tick, or it
would take its own sleep for the peers' silence.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from meshwatchd.adapters.clock import Timer, monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.process import collect_young
from meshwatchd.adapters.storage.journal.writer import Journal
from meshwatchd.model.events import Event, LatenessMeasured, ReplyReceived, SendFailed, Stalled, Tick
from meshwatchd.model.faults import Severity
from meshwatchd.model.frames import StatusFrame
from meshwatchd.model.ids import SessionId
from meshwatchd.model.load import LoadMeasured
from meshwatchd.model.outputs import Output
from meshwatchd.model.service_check import ServiceSeen
from meshwatchd.model.status import Status
from meshwatchd.runtime.agent_link import AgentLink
from meshwatchd.runtime.effects import Effects
from meshwatchd.runtime.lateness import STALL_NS, Lateness, stopped_ns
from meshwatchd.runtime.share import Share
from meshwatchd.runtime.signals import SignalPipe

LATE_NS: Final = 2_000_000
"""Whoever wakes up so much later than asked looks once more for what is readable: that may have changed meanwhile."""
MAX_REST_NS: Final = 1_000_000
REST_SHARE: Final = 16
"""A wake-up costs more than a packet: packets that come within this time of each other share one. The timer is never
kept waiting by it: what is due in between is waited for instead."""
QUIET_GAP_NS: Final = 5_000_000
MOST_GAP_NS: Final = 100_000_000
"""Whose turns are further apart than that on average does not rest between them: the rest would be a wake-up of its
own, and hardly ever does a second packet come within it."""
LINGER_NS: Final = 400_000
BUSY_EVENTS: Final = 3
"""Probes of many sessions leave together and arrive one behind the other. Whoever has lately been given so many events
a turn waits so long behind the first packet: one turn for a dozen packets instead of two, at both ends."""
HOUSEKEEPING_NS: Final = 1_000_000_000
EARLY_NS: Final = 100_000_000
"""Whoever is awake does the chores of a second so much early: each alone would wake the engine, and two the agent."""
STATUS_GAP_NS: Final = 100_000_000
"""After a fact the status is sent soon, but a burst of facts makes no burst of statuses."""
STATUS_TAIL_NS: Final = 30_000_000_000
"""For so long after the last fact, or the last word of the agent, a status follows each second, and for as long as
anything is wrong. Then there is none until something happens or somebody looks: what the agent acts upon changes with a
fact, and one status costs as much as three probes and their answers. Longer than the agent waits to tell other nodes of
a change that it has seen (`node_reports.HURRY_GAP_NS`)."""
NO_PROGRESS_PAUSE_NS: Final = 1_000_000
"""What a deadline that stays due is put off by: at real-time priority a spinning loop takes the core."""
MAX_REPEATED: Final = 64
"""Turns for what is due at one instant: with that many probes have left as a second has."""
SLIM_AFTER: Final = 30
"""Housekeeping rounds until what the start needed is over: first dumps, a mesh, standing objects."""
YOUNG_EVERY: Final = 10
"""Housekeeping rounds between collections of young garbage."""


class EngineLike(Protocol):
    """The core, as the loop sees it."""

    def handle(self, event: Event, now: int) -> list[Output]:
        """Take in one event."""

    def deadline(self) -> int | None:
        """When a Tick is due."""

    def early_at(self) -> int | None:
        """From when on a Tick is worth its while for who is awake anyway."""

    def status(self, now: int, counters: Mapping[str, int]) -> Status:
        """The whole picture."""


class Loop:
    """Carries events to the core and its commands to the adapters until told to stop.

    Args:
        effects: carries out commands; its adapters put their events into `inbox`.
        interval_ns: between probes of a session; sets how long packets may wait for each other.
        settle: called once, when everything stands and probing has begun.
        slim: called once, when only what is used all the time is still needed.
        journal: is told of every event and what the core made of it.
        share: what is left of the CPU to others; None where they have another one.
    """

    def __init__(
        self,
        *,
        engine: EngineLike,
        poller: Poller,
        effects: Effects,
        agent: AgentLink,
        inbox: deque[Event],
        counters: Counter[str],
        interval_ns: int,
        notify: Callable[[str], None],
        reload: Callable[[], None],
        settle: Callable[[], None],
        slim: Callable[[], None],
        journal: Journal | None = None,
        share: Share | None = None,
    ) -> None:
        self._engine, self._poller, self._effects = engine, poller, effects
        self._agent, self._inbox, self._counters, self._notify = agent, inbox, counters, notify
        self._reload, self._settle_down, self._slim = reload, settle, slim
        self._journal, self._share = journal, share
        self._is_asked = self._is_due_known = False
        self._due_ns: int | None = None
        self._lateness = Lateness()
        self._rest_ns = min(MAX_REST_NS, interval_ns // REST_SHARE)
        self._rested_ns = 0
        # A moving mean of the time from one turn to the next.
        self._gap_ns = 0.0
        # Events handled in this turn, and a moving mean of it.
        self._handled, self._load = 0, 0.0
        # Outputs carried out in this turn, and turns in a row for what is due at one instant.
        self._carried = self._repeated = 0
        # The end of the last turn, how long all turns have worked since the last measurement of the load, and what
        # the last one took beyond its work.
        self._ended_ns = self._measured_ns = monotonic_ns()
        self._worked_ns = self._stopped_ns = 0
        self._timer = Timer()
        self._is_stopping = False
        self._is_ready = False
        self._housekeeping_ns = monotonic_ns() + HOUSEKEEPING_NS
        self._housekeepings = 0
        self._status_due_ns: int | None = self._housekeeping_ns
        self._status_sent_ns = 0
        # The last fact, or the last word of the agent.
        self._stirred_ns = self._housekeeping_ns

    def run(self) -> None:
        """Go round until SIGTERM or SIGINT, then stop in good order; the engine's kernel objects stay."""
        signals = SignalPipe((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        self._poller.add(self._timer.fileno(), _nothing)
        self._poller.add(signals.fileno(), lambda _fd: self._on_signals(signals))
        try:
            self._keep_journal(monotonic_ns())
            self._arm(self._chores_due_ns())
            while not self._is_stopping:
                self._turn()
        finally:
            self._notify("STOPPING=1")
            self._effects.close()
            self._agent.stop(is_ordered=self._is_stopping)
            if self._journal is not None:
                self._journal.close()
            signals.close()
            self._timer.close()

    def stop(self) -> None:
        """Leave the loop after this turn."""
        self._is_stopping = True

    def _rest(self) -> None:
        """Keep turns apart; who has been idle for longer reacts at once."""
        if self._gap_ns < QUIET_GAP_NS:
            self._sleep_until(self._rested_ns + self._rest_ns)

    def _sleep_until(self, instant_ns: int) -> None:
        """Unless the timer is due before."""
        left_ns = instant_ns - monotonic_ns()
        if left_ns > 0 and not self._timer.is_due_by(instant_ns):
            time.sleep(left_ns / 1e9)

    def _turn(self) -> None:
        self._rest()
        ready = self._poller.wait()
        before_ns, self._rested_ns = self._rested_ns, monotonic_ns()
        self._gap_ns += (min(self._rested_ns - before_ns, MOST_GAP_NS) - self._gap_ns) / 8
        if self._load >= BUSY_EVENTS and not self._timer.is_due_by(self._rested_ns):
            self._sleep_until(self._rested_ns + LINGER_NS)
            ready = self._poller.wait()
        self._load = (self._load + self._handled) / 2
        self._handled = self._carried = 0
        heard_ns = monotonic_ns()
        late_ns = self._timer.lateness_ns(heard_ns)
        if late_ns > LATE_NS:
            ready = self._poller.wait()
        # What was due before the last turn ended waited for its work; only sleep that was too long is a stall.
        stalled_ns = max(self._stopped_ns, min(late_ns, heard_ns - self._ended_ns))
        self._counters["loop-turns"] += 1
        self._poller.dispatch(ready)
        if self._inbox or self._effects.has_stated:
            self._settle()
        if self._agent.is_readable:
            self._hear_agent()
        if stalled_ns > STALL_NS:
            self._counters["loop-stalls"] += 1
            self._inbox.append(Stalled(late_ns=stalled_ns))
            self._settle()
        if late_ns:
            self._lateness.note(late_ns)
        is_stuck = self._tick(heard_ns)
        now_ns, chores_ns = monotonic_ns(), self._chores_due_ns()
        if now_ns + EARLY_NS >= chores_ns:
            self._housekeep(now_ns)
            chores_ns = self._chores_due_ns()
        self._arm(chores_ns, pause_ns=NO_PROGRESS_PAUSE_NS if is_stuck else 0)
        self._ended_ns = monotonic_ns()
        worked_ns = self._ended_ns - heard_ns
        self._worked_ns += worked_ns if self._share is None else worked_ns + self._leave_share(self._share)
        is_long = worked_ns > STALL_NS
        self._stopped_ns = stopped_ns(worked_ns, events=self._handled + self._carried) if is_long else 0

    def _hear_agent(self) -> None:
        told = self._agent.receive()
        self._inbox.extend(told)
        # What it says of a service is no event of its own.
        if self._inbox:
            self._settle()
        if told:
            self._stir()
        if self._agent.take_asked():
            self._hasten_status()

    def _leave_share(self, share: Share) -> int:
        """Sleep where nobody else would run; returns for how long, which counts as work that waits."""
        rest_ns = share.rest_ns(self._ended_ns)
        if rest_ns:
            self._counters["loop-rests"] += 1
            time.sleep(rest_ns / 1e9)
        return rest_ns

    def _tick(self, heard_ns: int) -> bool:
        """Give the core the time it asked for; True when it asks for the same instant again for no good reason."""
        due_ns, now_ns = self._deadline(), monotonic_ns()
        if due_ns is None:
            return False
        if due_ns > now_ns and ((early_ns := self._engine.early_at()) is None or early_ns > now_ns):
            return False
        carried = self._carried
        self._inbox.append(Tick(heard_ns=heard_ns))
        self._settle()
        self._effects.expire(heard_ns)
        if due_ns > now_ns or self._deadline() != due_ns:
            self._repeated = 0
            return False
        # More may be due at one instant than leaves at once, and what ended while sockets were read waits for a turn.
        self._repeated += 1
        is_excused = self._carried > carried and self._repeated <= MAX_REPEATED
        is_stuck = due_ns <= heard_ns and not is_excused
        self._counters["loop-ticks-stuck"] += is_stuck
        return is_stuck

    def _settle(self) -> None:
        """Give the core all events that wait, and those that its commands cause."""
        inbox, engine, journal = self._inbox, self._engine, self._journal
        while True:
            self._handled += len(inbox)
            self._is_due_known &= not inbox
            while inbox:
                event, now_ns = inbox.popleft(), monotonic_ns()
                outputs = engine.handle(event, now_ns)
                if journal is not None:
                    journal.note(event, now_ns, outputs, is_asked=self._is_asked)
                    self._is_asked = False
                # Most events of probes lead to nothing; the rest is asked for by outputs alone, or waits until later.
                if outputs:
                    self._carry_out(outputs, now_ns)
            self._effects.flush()
            # What could not be sent has come back.
            if not inbox:
                break
        if self._effects.take_stated():
            self._stir()
        if not self._is_ready and self._agent.has_reported:
            self._is_ready = True
            self._notify("READY=1")
            self._settle_down()

    def _carry_out(self, outputs: list[Output], now_ns: int) -> None:
        self._carried += len(outputs)
        for output in outputs:
            self._effects.carry_out(output, now_ns)
        ended = self._effects.take_ended()
        if ended:
            self._forget_probe_events(ended)

    def _forget_probe_events(self, ended: frozenset[SessionId]) -> None:
        """These ids stand for other sessions than they did, or for none."""

        def is_void(event: Event) -> bool:
            return isinstance(event, ReplyReceived | SendFailed | ServiceSeen) and event.session in ended

        kept = [event for event in self._inbox if not is_void(event)]
        self._inbox.clear()
        self._inbox.extend(kept)

    def _chores_due_ns(self) -> int:
        """When the first of what is done about once a second is due."""
        due_ns, agent_ns, status_ns = self._housekeeping_ns, self._agent.deadline(), self._status_due_ns
        if agent_ns is not None and agent_ns < due_ns:
            due_ns = agent_ns
        if status_ns is not None and status_ns < due_ns:
            due_ns = status_ns
        return due_ns

    def _housekeep(self, now_ns: int) -> None:
        # Who reads the one reads the other: the agent wakes once a second.
        has_told = self._tell_status(now_ns)
        self._agent.advance(now_ns, now_ns + (HOUSEKEEPING_NS if has_told else EARLY_NS))
        if now_ns + EARLY_NS >= self._housekeeping_ns:
            self._housekeeping_ns = now_ns + HOUSEKEEPING_NS
            self._housekeepings += 1
            self._measure_lateness()
            self._measure_load(now_ns)
            self._effects.retry()
            self._keep_journal(now_ns)
            # For the engine alone: an agent that hangs is replaced, and costs no probe.
            if self._is_ready and self._housekeepings % 2 == 0:
                self._notify("WATCHDOG=1")
            if self._housekeepings == SLIM_AFTER:
                self._slim()
            if self._housekeepings % YOUNG_EVERY == 0:
                collect_young()

    def _stir(self) -> None:
        """Something was told or heard that a status may show."""
        self._stirred_ns = monotonic_ns()
        self._hasten_status()

    def _hasten_status(self) -> None:
        soon_ns = self._status_sent_ns + STATUS_GAP_NS
        self._status_due_ns = soon_ns if self._status_due_ns is None else min(self._status_due_ns, soon_ns)

    def _tell_status(self, now_ns: int) -> bool:
        """Send a status if one is due; returns whether it was one of those that leave each second."""
        due_ns = self._status_due_ns
        if due_ns is None:
            return False
        is_routine = due_ns >= self._status_sent_ns + HOUSEKEEPING_NS
        if now_ns + (EARLY_NS if is_routine else 0) < due_ns:
            return False
        status = self._engine.status(now_ns, self._effects.counters())
        is_over = status.is_ready and status.severity is Severity.OK and now_ns - self._stirred_ns >= STATUS_TAIL_NS
        self._status_sent_ns, self._status_due_ns = now_ns, None if is_over else now_ns + HOUSEKEEPING_NS
        self._agent.send(StatusFrame(status=status))
        return is_routine

    def _deadline(self) -> int | None:
        """As the core says; between two events it says the same."""
        if not self._is_due_known:
            self._is_asked = self._is_due_known = True
            self._due_ns = self._engine.deadline()
        return self._due_ns

    def _keep_journal(self, now_ns: int) -> None:
        if self._journal is not None:
            self._journal.keep(self._engine, now_ns)

    def _measure_lateness(self) -> None:
        told_ns = self._lateness.p99_ns
        self._lateness.turn_over()
        for name, value_ns in self._lateness.export().items():
            self._counters[name] = value_ns
        if self._lateness.p99_ns != told_ns:
            self._inbox.append(LatenessMeasured(p99_ns=self._lateness.p99_ns))
            self._settle()

    def _measure_load(self, now_ns: int) -> None:
        elapsed_ns, worked_ns = now_ns - self._measured_ns, self._worked_ns
        self._measured_ns, self._worked_ns = now_ns, 0
        busy_percent = min(100, worked_ns * 100 // max(1, elapsed_ns))
        self._counters["loop-busy-percent"] = busy_percent
        self._inbox.append(LoadMeasured(busy_percent=busy_percent))
        self._settle()

    def _arm(self, chores_ns: int, pause_ns: int = 0) -> None:
        due_ns = self._deadline()
        if due_ns is not None and pause_ns:
            due_ns = max(due_ns, monotonic_ns() + pause_ns)
        self._timer.arm(chores_ns if due_ns is None or chores_ns < due_ns else due_ns)

    def _on_signals(self, signals: SignalPipe) -> None:
        for number in signals.take():
            if number is signal.SIGHUP:
                self._reload()
            else:
                self.stop()


def _nothing(_fd: int) -> None:
    """The timer needs no reading: arming it clears it."""
