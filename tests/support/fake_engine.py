"""An engine that only probes: for tests of the loop and the adapters around the real one's interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from meshwatchd.model.events import Event, SendFailed, Tick
from meshwatchd.model.faults import Severity
from meshwatchd.model.ids import NodeName, SessionId
from meshwatchd.model.outputs import ConfigureSessions, Output, SendProbe, SessionPlan
from meshwatchd.model.status import Status

FIRST_PORT, LAST_PORT = 10_000, 17_999


@dataclass
class FakeEngine:
    """Sends one probe of each session every interval; keeps every event with its time.

    Attributes:
        answers: outputs to give to an event, by its type, once.
        severity: of its status.
        early_ns: from when on a Tick is worth its while for who is awake; None for not at all.
    """

    plans: tuple[SessionPlan, ...] = ()
    interval_ns: int = 10_000_000
    max_probes: int = 1_000_000
    events: list[tuple[int, Event]] = field(default_factory=list)
    answers: dict[type, list[Output]] = field(default_factory=dict)
    sent: int = 0
    severity: Severity = Severity.OK
    early_ns: int | None = None
    _due_ns: int | None = None
    _port: int = FIRST_PORT

    def begin(self, now_ns: int) -> list[Output]:
        """Start probing."""
        self._due_ns = now_ns if self.plans else None
        return [ConfigureSessions(sessions=self.plans)]

    def handle(self, event: Event, now: int) -> list[Output]:
        """Note the event; probe on ticks, and again after a busy port."""
        self.events.append((now, event))
        if isinstance(event, Tick):
            return self._tick(now)
        if isinstance(event, SendFailed):
            return [self._probe(int(event.session), event.seq)]
        return self.answers.pop(type(event), [])

    def deadline(self) -> int | None:
        """When the next round is due."""
        return self._due_ns

    def early_at(self) -> int | None:
        """As a test has set it."""
        return self.early_ns

    def status(self, now: int, counters: Mapping[str, int]) -> Status:
        """A picture of nothing but the counters."""
        return Status(
            at_ns=now,
            node=NodeName("n"),
            location="",
            role="",
            mode="",
            is_ready=True,
            severity=self.severity,
            pairs=(),
            sessions=(),
            counters=dict(counters),
        )

    def seen(self, kind: type) -> list[Event]:
        """The events of one type, in order."""
        return [event for _now, event in self.events if isinstance(event, kind)]

    def _tick(self, now: int) -> list[Output]:
        assert self._due_ns is not None
        self._due_ns += self.interval_ns
        if self.sent >= self.max_probes:
            self._due_ns = None
            return []
        return [self._probe(session, self.sent // len(self.plans)) for session in range(len(self.plans))]

    def _probe(self, session: int, seq: int) -> SendProbe:
        self.sent += 1
        self._port = FIRST_PORT if self._port >= LAST_PORT else self._port + 1
        return SendProbe(session=SessionId(session), seq=seq, source_port=self._port)
