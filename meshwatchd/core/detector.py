"""The sequential test that tells a broken path from an unlucky one.

Every probe ends as a hit or a miss. Two hypotheses compete for them:

    H0  the path is as it always is: a probe is missed with probability LOSS_HEALTHY
    H1  new flows die, but some fresh probes ride on outer flows that the network still remembers:
        a probe is missed with probability LOSS_BROKEN

A miss speaks for H1 by ln(LOSS_BROKEN / LOSS_HEALTHY), a hit against it by ln((1-LOSS_BROKEN) / (1-LOSS_HEALTHY)).
Page's CUSUM adds these and never falls below zero; it trips at TRIP. By Lorden's inequality the mean number of probes
between false trips is at least exp(TRIP), so TRIP = -ln(1e-10) gives the stated rate of one false trip in 1e10 probes
at LOSS_HEALTHY, and far fewer below it.

"n misses in a row" cannot do this: VXLAN folds all inner flows into about 28 000 outer source ports, so after an hour
of probing half of the fresh probes survive a fault that kills every new outer flow.
"""

from __future__ import annotations

import math

LOSS_HEALTHY = 0.05
"""Loss that must never move a route. A path that is worse for good is a fault of its own."""

LOSS_BROKEN = 0.5
"""Smallest loss that must: half of the probes may ride on remembered outer flows (15 minutes of memory at 20 Hz)."""

FALSE_TRIP_RATE = 1e-10
"""False trips a probe at LOSS_HEALTHY."""

MISS_NATS = math.log(LOSS_BROKEN / LOSS_HEALTHY)
HIT_NATS = math.log((1 - LOSS_BROKEN) / (1 - LOSS_HEALTHY))
TRIP_NATS = -math.log(FALSE_TRIP_RATE)

SUSPECT_NATS = MISS_NATS * 0.99
"""One miss out of the blue is worth a confirm burst, and nothing more."""

RECOVER_NATS = 10 * -HIT_NATS
"""Evidence of health that ends a trip: ten answers more than the misses weigh."""


class Cusum:
    """One CUSUM over the outcomes of probes, with a second one that watches for recovery after a trip.

    Attributes:
        hold_off_ns: how long there must have been doubt before it trips. The arithmetic above takes misses for
            independent; the probes of a burst share the fate of one short stall, and only time tells it from a fault.
    """

    __slots__ = ("_doubted_at", "_recovery", "hold_off_ns", "is_tripped", "nats")

    def __init__(self, hold_off_ns: int = 0) -> None:
        self.nats = 0.0
        self.is_tripped = False
        self.hold_off_ns = hold_off_ns
        self._doubted_at = 0
        self._recovery = 0.0

    @property
    def is_suspect(self) -> bool:
        """Whether there is evidence worth a confirm burst."""
        return not self.is_tripped and self.nats >= SUSPECT_NATS

    def hit(self, now: int) -> None:
        """An answer arrived."""
        self._add(HIT_NATS, now)

    def miss(self, now: int) -> None:
        """No answer arrived in time."""
        self._add(MISS_NATS, now)

    def heal(self, now: int) -> None:
        """An answer arrived after it had been counted as a miss: take the miss back, count a hit."""
        self._add(HIT_NATS - MISS_NATS, now)

    def reset(self) -> None:
        """Forget everything but a trip; used when the evidence was gathered by a stalled process."""
        self.nats = TRIP_NATS if self.is_tripped else 0.0
        self._recovery = 0.0

    def _add(self, nats: float, now: int) -> None:
        if self.is_tripped:
            self._recovery = max(0.0, self._recovery - nats)
            if self._recovery >= RECOVER_NATS:
                self.is_tripped, self.nats, self._recovery = False, 0.0, 0.0
            return
        if self.nats == 0.0:
            self._doubted_at = now
        self.nats = min(max(0.0, self.nats + nats), TRIP_NATS)
        if self.nats >= TRIP_NATS and now - self._doubted_at >= self.hold_off_ns:
            self.is_tripped, self._recovery = True, 0.0


def probes_to_trip(loss_ratio: float) -> float:
    """Mean number of probes until a trip when probes are missed at the given ratio; infinite when it never trips."""
    drift = loss_ratio * MISS_NATS + (1 - loss_ratio) * HIT_NATS
    return TRIP_NATS / drift if drift > 0 else math.inf
