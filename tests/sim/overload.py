"""An engine on a core that is too slow for it, in virtual time: its turns take time, and answers wait in its socket.

The schedule, the sessions, the groups and the bursts are the daemon's own (`enginerig.engine`), the turns are those of
`runtime.loop`: drain the socket, then tell the time, then let the probes leave, each step of which takes as long as it
is said to. Nothing is lost on the way, so that whatever is condemned is condemned for the engine's own slowness.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, cast

from enginerig.config import RigConfig, RigSession
from enginerig.engine import RigEngine
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.load import AnswersDropped, LoadMeasured
from meshwatchd.model.settings import MINUTE, MS, SECOND, DaemonSettings, ProbeProfile, ProbeSettings, Settings
from meshwatchd.runtime.lateness import Lateness, stopped_ns

if TYPE_CHECKING:
    from pathlib import Path

    from enginerig.notes import Notes

RTT_NS = MS
INTERVAL_NS = 100 * MS
MEMBERS = 4
BEGIN_NS = 50 * SECOND


class Told:
    """Keeps what the engine tells, in place of a file."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int, dict[str, object]]] = []

    def tell(self, event: str, at_ns: int, **fields: object) -> None:
        """One event."""
        self.lines.append((event, at_ns, fields))

    def of(self, event: str, *, since: int = 0) -> list[dict[str, object]]:
        """All of one name."""
        return [fields for name, at_ns, fields in self.lines if name == event and at_ns >= since]


class Machine:
    """One engine, its core and its socket.

    Args:
        legs: of MEMBERS sessions each.
        answer_ns, probe_ns: what an answer and a probe take.
        room: answers that fit into the socket.

    Attributes:
        dead: legs whose probes are lost.
        worked_ns: how long all turns have taken.
    """

    def __init__(self, legs: int, *, answer_ns: int, probe_ns: int, room: int = 1 << 30) -> None:
        sessions = tuple(_session(leg, member) for leg in range(legs) for member in range(MEMBERS))
        nowhere = cast("Path", None)
        config = RigConfig(
            node="a1",
            peers=("b1",),
            secret_hex="",
            events=nowhere,
            samples=nowhere,
            sessions=sessions,
            interval_ns=INTERVAL_NS,
        )
        settings = Settings(
            daemon=DaemonSettings(node="a1"),
            probe=ProbeSettings(profile=ProbeProfile.DEFAULT, flow_memory=4 * MINUTE),
        )
        self.now = BEGIN_NS
        self.told = Told()
        notes = cast("Notes", self.told)
        self.engine = RigEngine(config, settings, rng=random.Random(1), notes=notes, now=self.now)
        self.dead: set[int] = set()
        self.worked_ns = 0
        self._answer_ns, self._probe_ns, self._room = answer_ns, probe_ns, room
        self._answers: deque[tuple[int, ev.ReplyReceived]] = deque()
        self._measured_at, self._measured_ns = self.now, 0
        self.sent = self._events = 0
        self._lateness = Lateness()

    def run(self, duration_ns: int) -> None:
        """Let some time pass."""
        end = self.now + duration_ns
        while self.now < end:
            due = self.engine.deadline()
            wakes = [at for at in (due, self._answers[0][0] if self._answers else None) if at is not None]
            self.now = max(self.now, min(wakes))
            self._turn()

    def _turn(self) -> None:
        heard, self._events = self.now, 0
        due = self.engine.deadline()
        if due is not None:
            self._lateness.note(max(0, heard - due))
        self._drain(heard)
        due = self.engine.deadline()
        if due is not None and due <= self.now:
            self._handle(ev.Tick(heard_ns=heard))
        worked = self.now - heard
        self.worked_ns += worked
        if stopped := stopped_ns(worked, events=self._events):
            self._handle(ev.Stalled(late_ns=stopped))
        elapsed = self.now - self._measured_at
        if elapsed >= SECOND:
            busy = (self.worked_ns - self._measured_ns) * 100 // elapsed
            self._measured_at, self._measured_ns = self.now, self.worked_ns
            self._lateness.turn_over()
            self._handle(ev.LatenessMeasured(p99_ns=self._lateness.p99_ns))
            self._handle(LoadMeasured(busy_percent=min(100, busy)))

    def _drain(self, heard: int) -> None:
        """What has arrived and found room; the rest the kernel has thrown away, and says so."""
        arrived = []
        while self._answers and self._answers[0][0] <= heard:
            arrived.append(self._answers.popleft()[1])
        for answer in arrived[: self._room]:
            self.now += self._answer_ns
            self._handle(answer)
        if len(arrived) > self._room:
            self._handle(AnswersDropped(packets=len(arrived) - self._room))

    def _handle(self, event: ev.Event) -> None:
        self._events += 1
        for output in self.engine.handle(event, self.now):
            self._events += 1
            if isinstance(output, out.SendProbe):
                self.sent += 1
                self.now += self._probe_ns
                if output.session // MEMBERS not in self.dead:
                    answer = ev.ReplyReceived(
                        session=output.session, seq=output.seq, rtt_ns=RTT_NS, peer_epoch=1, banner=ev.Banner()
                    )
                    self._answers.append((self.now + RTT_NS, answer))


def _session(leg: int, member: int) -> RigSession:
    return RigSession(
        peer="b1",
        group=leg,
        is_pinned=False,
        path=leg,
        source="10.0.0.1",
        destination=f"10.0.1.{member}",
        port=20_000 + leg,
    )
