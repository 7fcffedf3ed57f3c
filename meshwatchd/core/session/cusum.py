"""The sequential test that tells a broken path from an unlucky one.

Every probe ends as a hit or a miss. Three hypotheses compete for them:

    H0   the path is as it always is: a probe is missed with probability LOSS_HEALTHY
    H1a  new flows die, but some fresh probes ride on outer flows that the network still remembers, or nothing passes
         at all: a probe is missed with probability 0.5 at least
    H1b  a quarter of the hash buckets of some table is broken: a probe is missed with probability 0.25

The test has an *arm* for each H1. A miss speaks for it by ln(p1 / p0), a hit against it by ln((1 - p1) / (1 - p0)).
Page's CUSUM adds these and never falls below zero; an arm trips at TRIP_NATS. By Lorden's inequality the mean number of
probes between false trips of one arm is at least exp(TRIP_NATS), and two arms trip no more often than each on its own
together. So -ln(1e-10 / 2) gives the stated rate of one false trip in 1e10 probes at LOSS_HEALTHY, and far fewer below.

"n misses in a row" cannot do this: VXLAN folds all inner flows into about 28 000 outer source ports, so after an hour
of probing half of the fresh probes survive a fault that kills every new outer flow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

LOSS_EACH_WAY = 0.05
"""Loss that must never move a route. A path that is worse for good is a fault of its own."""

LOSS_HEALTHY = 1 - (1 - LOSS_EACH_WAY) ** 2
"""The same as a probe feels it, which goes there and back: one in ten. A test against 5 % of probes has a false trip a
day where 5 % of the packets are lost."""

FALSE_TRIP_RATE = 1e-10
"""False trips a probe at LOSS_HEALTHY, of all arms together."""


class Arm(NamedTuple):
    """One alternative to health.

    Attributes:
        loss_ratio: the loss it stands for.
        miss_nats, hit_nats: what a miss adds, and what a hit adds (less than zero).
    """

    loss_ratio: float
    miss_nats: float
    hit_nats: float

    @classmethod
    def against_health(cls, loss_ratio: float) -> Arm:
        """The arm for a loss, by its log-likelihood ratios against LOSS_HEALTHY."""
        return cls(loss_ratio, math.log(loss_ratio / LOSS_HEALTHY), math.log((1 - loss_ratio) / (1 - LOSS_HEALTHY)))


HALF = Arm.against_health(0.5)
"""Half of the probes may ride on remembered outer flows: 15 minutes of memory after an hour of probing."""

QUARTER = Arm.against_health(0.25)
"""A quarter of the hash buckets is the smallest share that is called a fault."""

ARMS = (HALF, QUARTER)

MISS_NATS = HALF.miss_nats
HIT_NATS = HALF.hit_nats
TRIP_NATS = -math.log(FALSE_TRIP_RATE / len(ARMS))

SUSPECT_NATS = MISS_NATS * 0.99
"""One miss out of the blue is worth a confirm burst, and nothing more."""

RECOVER_NATS = 10 * -HIT_NATS
"""Evidence of health that ends a trip: ten answers more than the misses weigh, 32 after a trip for a broken quarter.

It also ends a doubt that had grown as large and lacked nothing but age. Without that, the relay that agrees to leave a
path before its own doubt is old enough would trust it again only after 40 to 130 answers, and traffic waits for both.
"""

TOLD_NS = 200_000_000
TOLD_PAUSE_NS = 10_000_000_000
"""How long the word of another node, that it doubts the same path, counts for the age of a doubt that begins here; and
how long no other word counts after it. Who doubts without end, by chance or on purpose, hurries nobody."""


class Cusum:
    """The sums of all arms over the outcomes of probes, with another one that watches for recovery after a trip.

    Attributes:
        nats: the evidence: the largest arm's sum, 0 to TRIP_NATS. An attribute, not a property: it is read several
            times for each probe.
        tripped_by: the arm that condemned, while `is_tripped`.
        hold_off_ns: how long there must have been doubt before it trips. The arithmetic above takes misses for
            independent; the probes of a burst share the fate of one short stall, and only time tells it from a fault.
        told_at: when another node said last that it has begun to doubt the same. A doubt that begins soon after that is
            as old as this word: the other's miss and this one speak of one stall, or of one fault.
    """

    __slots__ = (
        "_doubted_half",
        "_doubted_quarter",
        "_half",
        "_held",
        "_quarter",
        "_recovery",
        "hold_off_ns",
        "nats",
        "told_at",
        "tripped_by",
    )

    def __init__(self, hold_off_ns: int = 0) -> None:
        self.hold_off_ns = hold_off_ns
        self.tripped_by: Arm | None = None
        self.nats = self._half = self._quarter = 0.0
        self._doubted_half = self._doubted_quarter = 0
        self._held: Arm | None = None
        self._recovery = 0.0
        self.told_at = -TOLD_PAUSE_NS

    @property
    def is_tripped(self) -> bool:
        """Whether an arm has condemned and nothing has acquitted since."""
        return self.tripped_by is not None

    @property
    def is_suspect(self) -> bool:
        """Whether there is evidence worth a confirm burst."""
        return self.tripped_by is None and self.nats >= SUSPECT_NATS

    def told(self, now: int) -> None:
        """Another node has begun to doubt the same."""
        if now - self.told_at >= TOLD_PAUSE_NS:
            self.told_at = now

    def hit(self, now: int) -> None:
        """An answer arrived."""
        if self.nats == 0.0:
            # No sum falls below zero, and without evidence nothing is tripped: nearly all answers end here.
            return
        self._add(HALF.hit_nats, QUARTER.hit_nats, now)

    def miss(self, now: int) -> None:
        """No answer arrived in time."""
        self._add(HALF.miss_nats, QUARTER.miss_nats, now)

    def heal(self, now: int) -> None:
        """An answer arrived after it had been counted as a miss: take the miss back, count a hit."""
        self._add(HALF.hit_nats - HALF.miss_nats, QUARTER.hit_nats - QUARTER.miss_nats, now)

    def reset(self) -> None:
        """Forget everything but a trip; used when the evidence was gathered by a stalled process."""
        self.nats = self._half = self._quarter = TRIP_NATS if self.is_tripped else 0.0
        self._held, self._recovery = None, 0.0

    def acquit(self) -> None:
        """Forget a trip as well, and all that led to it."""
        self.tripped_by = self._held = None
        self.nats = self._half = self._quarter = self._recovery = 0.0

    def _add(self, half: float, quarter: float, now: int) -> None:
        if self.tripped_by is not None:
            # By value: an engine that a journal brings back has arms of its own.
            self._recover(half if self.tripped_by == HALF else quarter)
            return
        if self._half == 0.0 or self._quarter == 0.0:
            began = self.told_at if now - self.told_at < TOLD_NS else now
            if self._half == 0.0:
                self._doubted_half = began
            if self._quarter == 0.0:
                self._doubted_quarter = began
        self._half = min(max(0.0, self._half + half), TRIP_NATS)
        self._quarter = min(max(0.0, self._quarter + quarter), TRIP_NATS)
        self.nats = max(self._half, self._quarter)
        # What is bad enough for the arm of a half recovers by its measure, though the other arm has doubted for longer.
        if self._half >= TRIP_NATS:
            self._convict(HALF, now - self._doubted_half)
        elif self._quarter >= TRIP_NATS:
            self._convict(QUARTER, now - self._doubted_quarter)
        elif self._held is not None:
            self._recover(half if self._held == HALF else quarter)

    def _convict(self, arm: Arm, doubted_ns: int) -> None:
        """The evidence suffices; what it still takes is time."""
        self._recovery = 0.0
        if doubted_ns >= self.hold_off_ns:
            self.tripped_by, self._held = arm, None
        else:
            self._held = arm

    def _recover(self, nats: float) -> None:
        """Answers acquit by the measure of the arm that condemned: three in four are none where a quarter is broken.

        So they do where that arm would have condemned, had the doubt been older: it takes no more to be believed then.
        """
        self._recovery = max(0.0, self._recovery - nats)
        if self._recovery >= RECOVER_NATS:
            self.acquit()
