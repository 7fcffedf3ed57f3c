"""Which fresh probes of peers arrive here: whether a direction works in which nothing is answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.model.ids import Layer

INBOUND_NS = 1_000_000_000
"""A direction is named from then on: of fewer probes too many may have ridden on remembered flows."""

MIN_EXPECTED = 2
"""Of fewer regular probes that should have come, silence says nothing."""

HEARD_HISTORY = 64


class Arrivals:
    """The last of each peer and layer.

    Args:
        known: names of nodes; those that are gone leave nothing behind.
        before: the same in the topology before this one.
    """

    def __init__(self, known: Collection[str], before: Arrivals | None = None) -> None:
        kept = {} if before is None else before.heard
        self.heard: dict[tuple[str, Layer], deque[int]] = {key: kept[key] for key in kept if key[0] in known}

    def note(self, peer: str, layer: Layer, now: int) -> None:
        """One has arrived."""
        self.heard.setdefault((peer, layer), deque(maxlen=HEARD_HISTORY)).append(now)

    def direction(self, peers: Iterable[str], layer: Layer, since: int, now: int) -> Leg:
        """Whether what peers send arrives since an instant, by the rate at which it came before."""
        arrivals = [self.heard.get((peer, layer), ()) for peer in sorted(peers)]
        expected = (now - since) * sum(_rate(times, since) for times in arrivals)
        if now - since < INBOUND_NS or expected < MIN_EXPECTED:
            return Leg.UNKNOWN
        heard = sum(at >= since for times in arrivals for at in times)
        if heard * 2 >= expected:
            return Leg.ALIVE
        return Leg.DEAD if heard * 3 <= expected else Leg.UNKNOWN


def _rate(arrivals: Iterable[int], until: int) -> float:
    """Regular probes a nanosecond of one peer before an instant, which only that peer's own budgets decide."""
    before = [at for at in arrivals if at < until]
    return (len(before) - 1) / (before[-1] - before[0]) if len(before) > 1 and before[-1] > before[0] else 0.0
