"""The places at which regular probes leave: one wake-up serves whatever is due about the same time."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from meshwatchd.core.probing.round_robin import Turn
from meshwatchd.model.settings import MS

GRID_NS = 1 * MS
"""Regular probes leave on multiples of this, early rather than late: a wake-up costs more than a probe."""

GRID_PROBES = 160
GRID_PARTS = 8
LEAST_GRID_PARTS = 4
"""Nodes that send more than one probe a millisecond have a coarser grid: the more they send, the fewer places to an
interval, from eight at one a millisecond to four at two, so that the four sessions of a leg stay apart. A wake-up at
either end costs as much as half a dozen probes, and the caches it finds cold as much again: 50 probes a wake-up instead
of 4 at 200 sessions of 50 ms. But a hundred and some at most, also at 4 000 of 100 ms: the last would leave late."""

SCATTER = 0x9E3779B1
"""A prime near 2**32 divided by the golden ratio: multiples of it, modulo 2**32, lie evenly and in no order that is
easily met (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""


class Grid:
    """The grid of one node.

    Attributes:
        step_ns: from place to place.
    """

    __slots__ = ("_jitter_ns", "_rng", "step_ns")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.step_ns, self._jitter_ns = GRID_NS, 0

    def lay_out(self, turns: Sequence[Turn]) -> float:
        """Lay the places for rounds as they are; returns how many probes leave in a millisecond."""
        probes = GRID_NS * sum(len(turn.sessions) / turn.rest_ns for turn in turns)
        self.step_ns = GRID_NS
        if probes > 1:
            shortest_ns = min(turn.rest_ns for turn in turns)
            full_ns = GRID_PROBES * GRID_NS / probes
            parts = max(LEAST_GRID_PARTS, GRID_PARTS / probes, shortest_ns / full_ns)
            self.step_ns = max(GRID_NS, shortest_ns // math.ceil(parts))
            self._jitter_ns = min(self.step_ns // 2, shortest_ns // 10)
        return probes

    def departure(self, turn: Turn) -> int:
        """When the next probe leaves: a little earlier than its turn, and on the grid.

        Jitter of single probes would be lost between the places of a coarse grid, or take a probe from one to the
        other. There it is the places that lie a little early, each by an amount of its own.
        """
        if self.step_ns == GRID_NS:
            early = turn.grid - int(self._rng.random() * turn.jitter_ns)
            return early - early % GRID_NS
        place = turn.grid // self.step_ns
        return place * self.step_ns - (place * SCATTER % 2**32 * self._jitter_ns >> 32)
