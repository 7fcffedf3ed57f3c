"""Statistics of delays, and of their variation by direction."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

import msgspec


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Of some delays, in nanoseconds.

    Attributes:
        deviation_ns: standard deviation of all of them.
        p95_ns, p99_ns: the smallest delay that as many percent do not exceed (RFC 2330 section 11.3).
        jitter_ns: mean difference between neighbours (RFC 3393).
    """

    min_ns: int
    mean_ns: int
    median_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int
    deviation_ns: int
    jitter_ns: int


class Jitter(msgspec.Struct, frozen=True, kw_only=True):
    """Mean variation of the one-way delay from one answered packet to the next, in nanoseconds.

    An offset between the two clocks is in both delays and cancels out (RFC 3550 section 6.4.1, RFC 5481 section 4.1).
    """

    forward_ns: int
    reverse_ns: int


def spread_of(delays: Sequence[int]) -> Spread | None:
    """Sum up delays in the order of their packets; None without any."""
    if not delays:
        return None
    ordered = sorted(delays)
    return Spread(
        min_ns=ordered[0],
        mean_ns=round(statistics.fmean(ordered)),
        median_ns=round(statistics.median(ordered)),
        p95_ns=_percentile(ordered, 95),
        p99_ns=_percentile(ordered, 99),
        max_ns=ordered[-1],
        deviation_ns=round(statistics.pstdev(ordered)),
        jitter_ns=mean_step(delays),
    )


def mean_step(values: Sequence[int]) -> int:
    """The mean difference between neighbours, 0 where there are none."""
    steps = [abs(later - earlier) for earlier, later in itertools.pairwise(values)]
    return round(statistics.fmean(steps)) if steps else 0


def _percentile(ordered: Sequence[int], percent: int) -> int:
    return ordered[-(-len(ordered) * percent // 100) - 1]
