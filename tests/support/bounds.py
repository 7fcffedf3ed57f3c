"""What a node may send at most, as `core.probing.packet_budget` states it, and what it did send."""

from __future__ import annotations

from collections.abc import Sequence

from meshwatchd.core.probing.packet_budget import DEPTH, LATE_NS, LEAST_RATE
from meshwatchd.model.settings import SECOND


def most_regular(packets_per_second: int, span_ns: int) -> float:
    """The most regular probes that leave within any span of that length."""
    return packets_per_second / 8 + packets_per_second * 9 / 8 * (span_ns + LATE_NS) / SECOND


def most_probes(packets_per_second: int, span_ns: int) -> float:
    """The most probes of any kind that leave within any span of that length."""
    others = DEPTH + max(packets_per_second / 4, LEAST_RATE) * (span_ns + LATE_NS) / SECOND
    return most_regular(packets_per_second, span_ns) + others


def busiest(instants: Sequence[int], span_ns: int) -> int:
    """The most of these, which are in order, within any span of that length."""
    most = first = 0
    for last, at in enumerate(instants):
        while instants[first] <= at - span_ns:
            first += 1
        most = max(most, last - first + 1)
    return most
