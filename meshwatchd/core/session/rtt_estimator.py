"""How long to wait for an answer: an estimate shared by all sessions of one leg.

RFC 6298's estimator follows the mean. A detector that acts within 100 ms must not take the tail for loss, so the worst
delay of the recent past is remembered beside it and fades: a leg that held packets up for 80 ms a moment ago gets the
time to do so again, and one that never does is judged at the shortest wait.

That shortest wait is earned. A leg of which nothing is known may stall at any moment, like a tunnel that rekeys or a
machine that is short of CPU. One that has been watched for a minute without a slow answer is *trusted*: it is judged
by the calm timers, until one slow answer shows that it stalls after all.
"""

from __future__ import annotations

HALF_LIFE_NS = 3_000_000_000
"""The worst delay counts half after this long."""

PEAK_MARGIN = 2
"""Wait for twice the worst recent delay: a queue that is filling has not shown its worst yet."""

MAX_WAIT_NS = 1_000_000_000

TRUSTED_AFTER_NS = 60_000_000_000
"""Without a slow answer for this long, a stall is not what this leg does. Half of the usual two minutes between two
rekeys of a WireGuard tunnel: what happens there is seen half of the time, and then costs the trust."""


class DelayEstimator:
    """Smoothed, varying and worst round-trip time of one leg, in nanoseconds.

    Args:
        floor_ns: the shortest wait for an answer.
        calm_floor_ns: the same while the leg is trusted; None never trusts.
    """

    __slots__ = ("_calm_floor_ns", "_calm_since", "_floor_ns", "_peak_at", "_peak_ns", "_rttvar_ns", "srtt_ns")

    def __init__(self, floor_ns: int, calm_floor_ns: int | None = None) -> None:
        self.srtt_ns = 0
        self._floor_ns = floor_ns
        self._calm_floor_ns = calm_floor_ns
        self._calm_since: int | None = None
        self._rttvar_ns = 0
        self._peak_ns = 0
        self._peak_at = 0

    def sample(self, rtt_ns: int, now: int) -> None:
        """Take in the round-trip time of an answer, a late one included."""
        srtt_ns = self.srtt_ns
        # Half the calm wait is slow on a short leg; on a long one, whatever takes half as long again as usual.
        if self._calm_since is None or (rtt_ns > srtt_ns + srtt_ns // 2 and rtt_ns > (self._calm_floor_ns or 0) // 2):
            self._calm_since = now
        if srtt_ns == 0:
            self.srtt_ns, self._rttvar_ns = rtt_ns, rtt_ns // 2
        else:
            self._rttvar_ns += (abs(srtt_ns - rtt_ns) - self._rttvar_ns) // 4
            self.srtt_ns = srtt_ns + (rtt_ns - srtt_ns) // 8
        # A power for each answer is too much: nearly all are below what is left of the peak at the next half-life.
        peak_ns = self._peak_ns
        if rtt_ns >= peak_ns or (
            rtt_ns >= peak_ns >> 1 + (now - self._peak_at) // HALF_LIFE_NS and rtt_ns >= self._peak(now)
        ):
            self._peak_ns, self._peak_at = rtt_ns, now

    def follow(self, other: DelayEstimator) -> None:
        """Packets of this leg take another one from here on: what was learned of that one is what there is to know."""
        self.srtt_ns, self._rttvar_ns = other.srtt_ns, other._rttvar_ns
        self._peak_ns, self._peak_at = other._peak_ns, other._peak_at
        self._calm_since = other._calm_since

    def distrust(self, now: int) -> None:
        """Something stalled that no answer tells of: trust has to be earned anew."""
        if self._calm_since is not None:
            self._calm_since = now

    def is_trusted(self, now: int) -> bool:
        """Whether the leg has been watched for long enough without a slow answer."""
        since = self._calm_since
        return since is not None and self._calm_floor_ns is not None and now - since >= TRUSTED_AFTER_NS

    @property
    def usual_ns(self) -> int:
        """How long an answer takes at most on an ordinary day (RFC 6298 section 2, without the clock granularity)."""
        return self.srtt_ns + 4 * self._rttvar_ns

    @property
    def outrun_ns(self) -> int:
        """How long to wait for an answer when a later one has come: nothing stalls, so the calm wait will do."""
        return MAX_WAIT_NS if self._calm_floor_ns is None else max(self._calm_floor_ns, self.usual_ns)

    def wait_ns(self, now: int) -> int:
        """How long an answer may take before it counts as missing."""
        # `usual_ns` and `is_trusted`, spelled out: this is asked for each probe.
        wait_ns, calm_floor_ns, since = self._floor_ns, self._calm_floor_ns, self._calm_since
        if calm_floor_ns is not None and since is not None and now - since >= TRUSTED_AFTER_NS:
            wait_ns = calm_floor_ns
        wait_ns = max(wait_ns, self.srtt_ns + 4 * self._rttvar_ns)
        if PEAK_MARGIN * self._peak_ns > wait_ns:
            wait_ns = max(wait_ns, PEAK_MARGIN * self._peak(now))
        return min(wait_ns, MAX_WAIT_NS)

    def _peak(self, now: int) -> int:
        return int(self._peak_ns * 0.5 ** ((now - self._peak_at) / HALF_LIFE_NS))
