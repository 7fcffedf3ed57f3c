"""How long a packet was on its way, by two clocks that cannot be read at once.

The kernel dates an arrival by the wall clock, the sender counts on the monotonic one, and the process may lose the
processor between the two readings. So the wall clock is read between two readings of the other, again while these are
far apart, and what is left of the doubt makes a round trip longer, never shorter than it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

GOOD_NS: Final = 20_000
"""Readings this close together are taken; three in a row take about 1 us."""
_TRIES: Final = 5


class ClockReading(NamedTuple):
    """One instant by both clocks: the monotonic one is in `before_ns`..`after_ns` when the wall clock is `wall_ns`."""

    before_ns: int
    wall_ns: int
    after_ns: int

    @property
    def doubt_ns(self) -> int:
        """How far the two clocks may have been read apart."""
        return self.after_ns - self.before_ns


def read_clocks(
    monotonic: Callable[[], int] = time.monotonic_ns, wall: Callable[[], int] = time.time_ns
) -> ClockReading:
    """Read both; the best of a few readings where the process is interrupted."""
    best = ClockReading(monotonic(), wall(), monotonic())
    for _ in range(_TRIES - 1):
        if best.doubt_ns <= GOOD_NS:
            break
        best = min(best, ClockReading(monotonic(), wall(), monotonic()), key=lambda reading: reading.doubt_ns)
    return best


def turnaround_ns(reading: ClockReading, *, sent_ns: int, arrived_wall_ns: int) -> int:
    """Nanoseconds from sending (monotonic) to arrival (wall).

    A wait in the socket that takes up the whole time, or none, is a step of the wall clock: without it the answer came
    when it was read.
    """
    elapsed_ns = reading.after_ns - sent_ns
    waited_ns = reading.wall_ns - arrived_wall_ns
    return elapsed_ns - waited_ns if 0 < waited_ns < elapsed_ns else elapsed_ns
