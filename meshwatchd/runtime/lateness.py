"""How late the loop's own timers are: a probe that leaves late or is timed out late says nothing about the network."""

from __future__ import annotations

from typing import Final

STALL_NS: Final = 20_000_000
"""Later than this the process was stopped or starved: the shortest detection time is 20 ms."""

EVENT_NS: Final = 50_000
"""Twice what an event or a probe costs: a turn that took longer than all of them by a stall was stopped meanwhile."""

BUCKETS: Final = 32
"""By powers of two of a microsecond: the last one begins at 18 minutes."""

WINDOW: Final = 10
"""Housekeeping rounds, seconds, in half of what counts as recent: some thousand wake-ups for a p99 to rest on."""

_UNIT_NS: Final = 1_000


class Lateness:
    """A histogram of the recent past, in two halves of which the older one is thrown away, and a maximum for ever.

    Attributes:
        max_ns: the worst there was.
        p50_ns, p99_ns: of the last one to two windows, as of the last `turn_over`; interpolated inside a bucket.
    """

    __slots__ = ("_before", "_now", "_rounds", "max_ns", "p50_ns", "p99_ns")

    def __init__(self) -> None:
        self.max_ns = self.p50_ns = self.p99_ns = 0
        self._before = [0] * BUCKETS
        self._now = [0] * BUCKETS
        self._rounds = 0

    def note(self, late_ns: int) -> None:
        """A wake-up was late by so many nanoseconds; 0 is a wake-up for another reason than the timer."""
        if late_ns <= 0:
            return
        self._now[min((late_ns // _UNIT_NS).bit_length(), BUCKETS - 1)] += 1
        self.max_ns = max(self.max_ns, late_ns)

    def turn_over(self) -> None:
        """Work out the percentiles; called once for each housekeeping round."""
        counts = [old + new for old, new in zip(self._before, self._now, strict=True)]
        self.p50_ns, self.p99_ns = (min(_quantile(counts, share), self.max_ns) for share in (0.50, 0.99))
        self._rounds += 1
        if self._rounds % WINDOW == 0:
            self._before, self._now = self._now, [0] * BUCKETS

    def export(self) -> dict[str, int]:
        """As counters of the status."""
        return {
            "loop-lateness-max-ns": self.max_ns,
            "loop-lateness-p50-ns": self.p50_ns,
            "loop-lateness-p99-ns": self.p99_ns,
        }


def stopped_ns(worked_ns: int, *, events: int) -> int:
    """For how long a turn was not at work, where that is a stall; 0 where it took as long as it had to do."""
    beyond_ns = worked_ns - EVENT_NS * events
    return beyond_ns if beyond_ns > STALL_NS else 0


def _quantile(counts: list[int], share: float) -> int:
    """The value that a share of the counts does not exceed, in nanoseconds; 0 without counts."""
    wanted = sum(counts) * share
    seen = 0
    for bucket, count in enumerate(counts):
        if count and seen + count >= wanted:
            low, high = (1 << bucket >> 1), 1 << bucket
            return int((low + (high - low) * (wanted - seen) / count) * _UNIT_NS)
        seen += count
    return 0
