"""Source ports that make every flow a new one.

A flow is new only if no middle box remembers its 5-tuple. Ports drawn by the kernel, or from a small
pool, repeat within seconds, and a repeated 5-tuple may ride on remembered state through a fault that
kills new flows. So the ports 1024-65535 are taken in the order of a permutation, and the place in
the permutation is read from the clock: a source that is restarted goes on where time has moved to,
not where its predecessor began. At 200 flows a second of one protocol the permutation lasts 322 s.
"""

from __future__ import annotations

import math

FIRST_PORT = 1024
PORT_COUNT = 65_536 - FIRST_PORT
# Flows of one protocol a second, at most: PORT_COUNT / 200 = 322 s, more than five minutes.
MAX_RATE = 200
# Near PORT_COUNT divided by the golden ratio, so that neighbours in time are far apart in number.
STEP = 39_869

assert math.gcd(STEP, PORT_COUNT) == 1, "the walk must visit every port"


class PortWalk:
    """The permutation, entered where the clock points."""

    def __init__(self, now_ns: int) -> None:
        """Args:
        now_ns: CLOCK_MONOTONIC; the walk advances MAX_RATE places a second with it.
        """
        self._place = now_ns * MAX_RATE // 1_000_000_000

    def take(self) -> int:
        """The next source port."""
        port = FIRST_PORT + self._place * STEP % PORT_COUNT
        self._place += 1
        return port
