"""How much more slowly an engine probes that cannot keep up.

Nobody is accused for what a busy engine does not read in time: waits end at what was read (`Tick.heard_ns`), and what
is lost at its own full socket proves nothing. But that costs the time in which faults are found, and the peers' work is
in vain. So an engine that is at work all of the time sends less, step by step until it has time to spare, and returns
to its pace as slowly as it must not to be overloaded by that again.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.model.load import EngineOverloaded, EngineRelieved, LoadMeasured
from meshwatchd.model.process_facts import ClockStalled
from meshwatchd.model.settings import MINUTE

BUSY_PERCENT = 90
"""From here on work piles up: at real-time priority the kernel leaves 95 % of a core (sched_rt_runtime_us)."""

SPARE_PERCENT = 75
"""Below this a step back to the full pace does not reach BUSY_PERCENT."""

ROUNDS = 2
"""A single second of work may be one long turn, stopped in the middle."""

GROWTH = 1.5
SHRINKAGE = 0.9

MOST_SLOWDOWN = 10.0
"""Where this does not help, it is not the probes that take the time."""

REMEDY = (
    "lower probe.packets_per_second, choose a slower probe.profile, or give the daemon more of a core"
    " (CAP_SYS_NICE or LimitRTPRIO for real-time priority; no CPU quota)"
)


class Load:
    """Follows the engine's own load.

    Attributes:
        slowdown: by how much fewer packets are to be sent, 1 to MOST_SLOWDOWN.
    """

    def __init__(self) -> None:
        self.slowdown = 1.0
        self._rounds = 0
        self._dropped = 0
        self._has_dropped = False

    def dropped(self, packets: int) -> None:
        """Answers were lost at the own socket; counts with the next measurement."""
        self._dropped += packets
        self._has_dropped = True

    def measured(self, event: LoadMeasured, late_ns: int) -> Iterator[EngineOverloaded | EngineRelieved]:
        """One more round."""
        if event.busy_percent >= BUSY_PERCENT or self._has_dropped:
            self._rounds += 1
            if (self._rounds >= ROUNDS or self._has_dropped) and self.slowdown < MOST_SLOWDOWN:
                self.slowdown = min(MOST_SLOWDOWN, self.slowdown * GROWTH)
                yield EngineOverloaded(
                    busy_percent=event.busy_percent,
                    dropped=self._dropped,
                    late_ns=late_ns,
                    slowdown=round(self.slowdown, 2),
                    remedy=REMEDY,
                )
            self._has_dropped = False
            return
        self._rounds = 0
        if event.busy_percent < SPARE_PERCENT and self.slowdown > 1.0:
            self.slowdown = max(1.0, self.slowdown * SHRINKAGE)
            if self.slowdown == 1.0:
                dropped, self._dropped = self._dropped, 0
                yield EngineRelieved(dropped=dropped)


class Stalls:
    """Tells of short stalls and of long ones, once a minute each, with a count: a slow CPU has many a second."""

    def __init__(self) -> None:
        self._kinds: dict[bool, tuple[int, int, int]] = {}

    def note(self, late_ns: int, now: int, *, is_long: bool) -> Iterator[ClockStalled]:
        """One more."""
        told_at, worst_ns, count = self._kinds.get(is_long, (now - MINUTE, 0, 0))
        worst_ns, count = max(worst_ns, late_ns), count + 1
        if now - told_at >= MINUTE:
            yield ClockStalled(late_ns=worst_ns, count=count)
            told_at, worst_ns, count = now, 0, 0
        self._kinds[is_long] = told_at, worst_ns, count
