"""How long to wait for an answer: an estimate shared by all sessions of one leg.

RFC 6298's estimator follows the mean. A detector that acts within 100 ms must not take the tail for loss, so the worst
delay of the recent past is remembered beside it and fades: a leg that held packets up for 80 ms a moment ago gets the
time to do so again, and one that never does is judged at the profile's shortest wait.
"""

from __future__ import annotations

HALF_LIFE_NS = 10_000_000_000
"""The worst delay counts half after this long."""

PEAK_MARGIN = 2
"""Wait for twice the worst recent delay: a queue that is filling has not shown its worst yet."""

MAX_WAIT_NS = 1_000_000_000


class DelayEstimator:
    """Smoothed, varying and worst round-trip time of one leg, in nanoseconds."""

    __slots__ = ("_floor_ns", "_peak_at", "_peak_ns", "_rttvar_ns", "srtt_ns")

    def __init__(self, floor_ns: int) -> None:
        self.srtt_ns = 0
        self._floor_ns = floor_ns
        self._rttvar_ns = 0
        self._peak_ns = 0
        self._peak_at = 0

    def sample(self, rtt_ns: int, now: int) -> None:
        """Take in the round-trip time of an answer, a late one included."""
        if self.srtt_ns == 0:
            self.srtt_ns, self._rttvar_ns = rtt_ns, rtt_ns // 2
        else:
            self._rttvar_ns += (abs(self.srtt_ns - rtt_ns) - self._rttvar_ns) // 4
            self.srtt_ns += (rtt_ns - self.srtt_ns) // 8
        if rtt_ns >= self._peak(now):
            self._peak_ns, self._peak_at = rtt_ns, now

    def wait_ns(self, now: int) -> int:
        """How long an answer may take before it counts as missing."""
        usual = self.srtt_ns + 4 * self._rttvar_ns
        return min(max(self._floor_ns, usual, PEAK_MARGIN * self._peak(now)), MAX_WAIT_NS)

    def _peak(self, now: int) -> int:
        return int(self._peak_ns * 0.5 ** ((now - self._peak_at) / HALF_LIFE_NS))
