"""What one node may send in all, whatever its pairs of locations want at once.

Regular probes   `Pace`: an eighth more than `probe.packets_per_second`, and an eighth of a second's worth at once. In
                 rest the rates (`probing.intervals`) keep below it, so it binds where many sessions are new, or all are
                 due at once after a stall: what has no room waits for it, in the order in which it was due.
All others       `Allowance`: confirm bursts, messages, what verifies a move, size probes. DEPTH probes at once, and a
                 quarter of `probe.packets_per_second` a second after that, LEAST_RATE at least.

So with P packets a second, in any t seconds and whatever happens, a node sends no more than

    P (1/8 + 9/8 (t + LATE))  +  DEPTH  +  max(P/4, LEAST_RATE) (t + LATE)

probes: 1.64 P + 7 500 in any second and 83 P + 7 500 in any minute, P being 500 or more. LATE is how much later than
it is granted a probe may leave; an engine that is late itself owes them for that much longer. Answers have budgets of
their own (`adapters.packet.peers`), and hellos, which the agent sends, have theirs (`core.membership.hello_schedule`).

A node of up to five pairs does not come to the end of that: each has a budget of its own for bursts, and DEPTH is
five of these. With fifty pairs in doubt at once it is a tenth of what they would send, and the question is whose probes
those are. Each use has to leave something for those that matter more, and the more a pair has had lately the more it
has to leave:

    MUST     leaves nothing      messages that begin or answer something, and the probes that verify a move
    REPEAT   half of `moves`     what repeats them: lost, it comes again or is learned from banners; size probes; and
                                 what this node has to ask before it can answer a proposal
    DOUBT    `moves`             the first slices of each pair, `share` probes: enough where everything is missed
    DOUBT    and `newcomers`     more of them, for confirmed doubt
    CHANCE   still more          doubt that one miss speaks for, and what explains a fault that is left anyway

So each pair gets two slices however many others are at it, confirmed doubt comes before a chance miss, whoever had less
comes first, and a pair that has to wait goes on with its regular probes. Numbers of pairs play no part.
"""

from __future__ import annotations

from enum import IntEnum

from meshwatchd.model.load import ProbesFreed, ProbesHeld
from meshwatchd.model.settings import MINUTE, MS, SECOND

BURST_BUDGET = 1_500
"""Burst probes of one pair in a minute: a full burst, the layers and standbys it asks, and as much again in reserve."""

FEW_PAIRS = 5
DEPTH = FEW_PAIRS * BURST_BUDGET
"""The leaders of four or five locations may fail at once, and all of them at the worst time of a minute."""

RATE_PART = 4
LEAST_RATE = BURST_BUDGET * FEW_PAIRS * SECOND // MINUTE
"""Probes a second: where few regular ones are wanted, five pairs still have what their own budgets earn."""

LATE_NS = 100 * MS
"""Nothing of a burst leaves later than this after it was granted: a slice is 20 to 60 ms long, and one may wait for the
end of the one before."""

MOVES, MOVES_OF_PAIR = DEPTH // 3, 250
NEWCOMERS, SHARE = DEPTH // 3, 100
CHANCE_OF_PAIR = BURST_BUDGET // 2
"""What is kept for moves, for pairs whose doubt is new, and for confirmed doubt: so much for each pair, as far as that
goes. With few pairs there are few to keep it for."""

LEVELLING = 2
"""A pair leaves one probe more for every second one that it has had: who had less comes first."""

PACE_PART = 8


class Use(IntEnum):
    """What is asked for; the later ones have to leave more."""

    MUST = 0
    REPEAT = 1
    DOUBT = 2
    CHANCE = 3


class Share:
    """What one pair has had lately: for confirmed doubt, and for chance misses, which are no reason to have less of the
    other. It is forgotten as fast as the pair's part of the allowance comes in.
    """

    __slots__ = ("_at", "_had")

    def __init__(self) -> None:
        self._had = [0.0, 0.0]
        self._at = 0

    def had(self, use: Use, now: int, per_ns: float) -> float:
        """Probes, less what is forgotten: so many a nanosecond."""
        faded = (now - self._at) * per_ns
        self._had = [max(0.0, had - faded) for had in self._had]
        self._at = now
        return self._had[use is Use.CHANCE]

    def add(self, use: Use, probes: int) -> None:
        """It has got so many."""
        self._had[use is Use.CHANCE] += probes


class Allowance:
    """What a node may send besides its regular probes."""

    def __init__(self, packets_per_second: int) -> None:
        self._per_ns = max(packets_per_second // RATE_PART, LEAST_RATE) / SECOND
        self._level = float(DEPTH)
        self._at = 0
        self._held = 0
        self._is_told = False
        self.begin(1)

    def begin(self, pairs: int) -> None:
        """There are so many pairs of locations from here on."""
        moves = min(MOVES, MOVES_OF_PAIR * pairs)
        self._share = min(SHARE, NEWCOMERS // (pairs + 1))
        newcomers = self._share * (pairs + 1)
        self._leaving = {Use.MUST: 0, Use.REPEAT: moves // 2, Use.DOUBT: moves + newcomers}
        self._leaving[Use.CHANCE] = max(moves + newcomers, min(DEPTH * 3 // 4, CHANCE_OF_PAIR * pairs))
        self._first = moves
        self._fading = self._per_ns / max(1, pairs)

    def left(self, now: int) -> float:
        """Probes that might leave at once; below 0 where some that are booked still wait for it."""
        self._level = min(DEPTH, self._level + (now - self._at) * self._per_ns)
        self._at = now
        return self._level

    def take(self, probes: int, now: int, use: Use, share: Share | None = None, *, of: int = 1) -> int:
        """Ask for some probes.

        Args:
            probes: how many.
            now: nanoseconds.
            use: what they are for.
            share: of the pair that asks; None where it is not about one.
            of: the answer is a multiple of this; `probes` is one.

        Returns:
            How many may leave.
        """
        granted = self._room(probes, now, use, share)
        if granted < probes:
            self._held += probes - granted + granted % of
            granted -= granted % of
        self._level -= granted
        if share is not None:
            share.add(use, granted)
        return granted

    def has_room(self, probes: int, now: int, use: Use, share: Share) -> bool:
        """Whether all of these would be granted; where they would not, they count as held back."""
        granted = self._room(probes, now, use, share)
        self._held += probes - granted
        return granted == probes

    def _room(self, probes: int, now: int, use: Use, share: Share | None = None) -> int:
        left = self.left(now)
        had = 0.0 if share is None else share.had(use, now, self._fading)
        leaving = self._leaving[use] + had / LEVELLING
        if share is not None and use is Use.DOUBT and had + probes <= self._share:
            leaving = self._first + had / LEVELLING
        return max(0, min(probes, int(left - leaving)))

    def book(self, probes: int, now: int) -> int:
        """Probes that have to leave, if later.

        Returns:
            When there is room for the last of them.
        """
        self._level = self.left(now) - probes
        return now if self._level >= 0 else now + int(-self._level / self._per_ns)

    def news(self, now: int) -> ProbesHeld | ProbesFreed | None:
        """Told once when something was held back first, and once when there is plenty again."""
        if self._held and not self._is_told:
            self._is_told = True
            return ProbesHeld(left=int(self._level))
        if self._is_told and self.left(now) >= DEPTH * 7 // 8:
            held, self._held, self._is_told = self._held, 0, False
            return ProbesFreed(held=held)
        return None


class Pace:
    """Places for regular probes."""

    __slots__ = ("_ahead_ns", "_full_at", "_gap_ns")

    def __init__(self, packets_per_second: int) -> None:
        self._gap_ns = SECOND * PACE_PART // (packets_per_second * (PACE_PART + 1))
        self._ahead_ns = self._gap_ns * max(1, packets_per_second // PACE_PART)
        self._full_at = 0

    def book(self, now: int) -> int:
        """When the next probe may leave: at once, as a rule."""
        full_at = self._full_at
        self._full_at = (max(full_at, now)) + self._gap_ns
        at = self._full_at - self._ahead_ns
        return max(now, at)
