"""When the traffic source starts something, and how late it was.

The source is an open loop: what is due is due, whether or not earlier flows were answered. A closed
loop would send less exactly while the network is broken and so report a shorter outage.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from netnslab.traffic_records import Punctuality

# A source that lies further behind than this (a suspended machine) gives up what it missed instead
# of starting hundreds of flows in one burst. The gap is reported as `skipped`.
MAX_BEHIND_NS = 1_000_000_000


class Cadence:
    """Instants at a fixed distance from each other, never moved by what happens at them.

    Args:
        first_ns: the first of them.
        interval_ns: the distance.
        jitter_ns: each comes up to so much later, by chance: two sources with one rate would keep for good the distance
            in time that they began with, and meet on the way always or never.
    """

    def __init__(self, *, first_ns: int, interval_ns: int, jitter_ns: int = 0) -> None:
        self.interval_ns = interval_ns
        self.skipped = 0
        self._grid_ns, self._jitter_ns = first_ns, jitter_ns
        self.next_ns = first_ns + self._chance_ns()

    def due(self, now_ns: int) -> Iterator[int]:
        """Yield every instant that has come, oldest first, each once."""
        behind_ns = now_ns - self.next_ns
        if behind_ns > MAX_BEHIND_NS:
            missed = behind_ns // self.interval_ns
            self.skipped += missed
            self._move(missed)
        while self.next_ns <= now_ns:
            instant = self.next_ns
            self._move(1)
            yield instant

    def _move(self, steps: int) -> None:
        self._grid_ns += steps * self.interval_ns
        self.next_ns = self._grid_ns + self._chance_ns()

    def _chance_ns(self) -> int:
        return random.randrange(self._jitter_ns) if self._jitter_ns else 0


class PunctualityMeter:
    """Collects lateness (start minus due instant) over a window of time."""

    def __init__(self, now_ns: int) -> None:
        self._lateness_ns: list[int] = []
        self._opened_ns = now_ns
        self._cpu_ns = time.process_time_ns()

    def note(self, lateness_ns: int) -> None:
        """Count one start that came `lateness_ns` after it was due."""
        self._lateness_ns.append(lateness_ns)

    def close_window(self, now_ns: int, *, skipped: int) -> Punctuality:
        """Summarise the window that ends at `now_ns` and open the next."""
        ordered = sorted(self._lateness_ns) or [0]
        cpu_ns = time.process_time_ns()
        summary = Punctuality(
            at_ns=now_ns,
            window_ns=now_ns - self._opened_ns,
            started=len(self._lateness_ns),
            skipped=skipped,
            lateness_p50_ns=ordered[len(ordered) // 2],
            lateness_p99_ns=ordered[len(ordered) * 99 // 100],
            lateness_max_ns=ordered[-1],
            cpu_ns=cpu_ns - self._cpu_ns,
        )
        self._lateness_ns.clear()
        self._opened_ns, self._cpu_ns = now_ns, cpu_ns
        return summary
