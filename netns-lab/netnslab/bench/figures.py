"""What a list of measured values comes to. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

MS = 1_000_000
US = 1_000


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that at least `percent` per cent of all values do not exceed (nearest rank).

    Returns:
        None when there are no values.
    """
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1]


def spread(values: Sequence[float], *, unit: float = 1, digits: int = 2) -> dict[str, float | int | None]:
    """Count, p50, p99, least and greatest of some values, each divided by `unit`."""
    return {
        "n": len(values),
        "p50": scaled(percentile(values, 50), unit=unit, digits=digits),
        "p99": scaled(percentile(values, 99), unit=unit, digits=digits),
        "min": scaled(min(values, default=None), unit=unit, digits=digits),
        "max": scaled(max(values, default=None), unit=unit, digits=digits),
    }


def scaled(value: float | None, *, unit: float, digits: int = 2) -> float | None:
    """A value in another unit, rounded; None stays None."""
    return None if value is None else round(value / unit, digits)


def ratio(value: float | None, reference: float | None, *, digits: int = 2) -> float | None:
    """How many times the reference a value is; None without both, or of nothing."""
    if value is None or not reference:
        return None
    return round(value / reference, digits)


def histogram_percentile(counts: Mapping[int, int], percent: float) -> int | None:
    """The bucket that holds the nearest-rank percentile; buckets are named by their upper ends.

    Returns:
        None when all counts are zero.
    """
    total = sum(counts.values())
    rank = max(1, math.ceil(total * percent / 100))
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank and total:
            return bucket
    return None


def difference(after: Mapping[int, int], before: Mapping[int, int]) -> dict[int, int]:
    """What a histogram has gained since an earlier reading of it."""
    return {bucket: count - before.get(bucket, 0) for bucket, count in after.items() if count > before.get(bucket, 0)}
