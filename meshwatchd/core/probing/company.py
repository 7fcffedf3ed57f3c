"""Slow probes leave early, together with what leaves anyway.

A wake-up costs more than a probe. So a slow one leaves up to a quarter of its interval early where the engine is awake,
since something else leaves or a packet has come: it hardly ever wakes the engine itself. Places of a round stay where
they are, and so does the average.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from meshwatchd.core.probing.round_robin import Turn
from meshwatchd.model.settings import SECOND

EARLY_PART = 4
"""RFC 5880 section 6.8.7 lets an interval be a quarter shorter."""

SLOW_NS = 1 * SECOND
"""Sessions from this interval on leave in company. The faster ones notice faults, and for that their pace is even."""

QUIET_PROBES = 0.2
"""Who sends more in a millisecond is awake most of the time, and has no packets to spare for who comes early."""


class Company:
    """The rounds that may leave early, by from when on.

    Attributes:
        is_quiet: whether wake-ups are few; else nothing leaves early.
    """

    __slots__ = ("_heap", "_pushed", "is_quiet")

    def __init__(self) -> None:
        self.is_quiet = False
        self._heap: list[tuple[int, int, Turn]] = []
        self._pushed = 0

    @property
    def at(self) -> int | None:
        """When the first of them may leave; None for nobody."""
        return self._heap[0][0] if self._heap else None

    def lay_out(self, probes: float) -> None:
        """The node sends so many probes a millisecond from here on."""
        self.is_quiet = probes <= QUIET_PROBES
        if not self.is_quiet:
            self._heap.clear()

    def offer(self, turn: Turn) -> None:
        """A round has its next place."""
        if self.is_quiet and turn.interval_ns >= SLOW_NS:
            turn.early_at = turn.grid - min(turn.interval_ns // EARLY_PART, turn.step_ns // 2)
            self._pushed += 1
            heapq.heappush(self._heap, (turn.early_at, self._pushed, turn))

    def take(self, now: int) -> Iterator[Turn]:
        """The rounds that may leave now and have not; those whose place was booked are left to it."""
        while self._heap and self._heap[0][0] <= now:
            at, _, turn = heapq.heappop(self._heap)
            if turn.early_at == at and turn.at > now and not turn.is_booked:
                yield turn

    def retain(self, turns: list[Turn]) -> None:
        """Forget the rounds that are gone."""
        alive = {id(turn) for turn in turns}
        self._heap = [entry for entry in self._heap if id(entry[2]) in alive]
        heapq.heapify(self._heap)
