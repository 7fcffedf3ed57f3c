"""Source ports for fresh flows: every port of the range once before any comes again."""

from __future__ import annotations

import math
import random


class PortPermutation:
    """A full-period walk over a port range.

    Leaving the choice to the kernel repeats ports early: half of the probes that survive a new-flows fault do so
    because the kernel drew a port it had drawn before. A walk with a stride coprime to the range repeats nothing
    within a period.
    """

    __slots__ = ("_first", "_position", "_reserved", "_size", "_stride")

    def __init__(self, first: int, last: int, rng: random.Random, reserved: range = range(0)) -> None:
        self._first = first
        self._reserved = reserved
        self._size = last - first + 1
        self._stride = _coprime_stride(self._size, rng)
        self._position = rng.randrange(self._size)

    def next(self) -> int:
        """The next port outside the reserved ones; each comes once before any comes again."""
        while True:
            self._position = (self._position + self._stride) % self._size
            port = self._first + self._position
            if port not in self._reserved:
                return port


def _coprime_stride(size: int, rng: random.Random) -> int:
    """A stride near the golden section of the range, so that neighbouring probes hash far apart."""
    stride = max(1, int(size * 0.618) + rng.randrange(max(1, size // 8)))
    while math.gcd(stride, size) != 1:
        stride += 1
    return stride
