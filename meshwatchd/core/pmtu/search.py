"""Where between a size that passes and one that does not the limit lies, for both directions of a path.

A probe is answered by a packet of its own length, so an answer proves the size both ways. Without an answer the
reflector's count tells whether the probe had arrived: if so, the limit met is that of the way back.

    echoed    passes both ways
    arrived   passes outbound, its answer is lost
    lost      does not even arrive

So two limits are searched: that of the way there and back, by answers, and that of the way there, by the count. A limit
of the way back that lies above that of the way there cannot be seen from here, only from the other end.

Each answer is a proof, and each silence a guess that loss can spoil. The first size above each limit is therefore
asked once more in the end; if it passes, a guess was wrong, and the part above is searched again.

Source: RFC 8899 section 5.3, with halving instead of a table: it ends at the exact byte.
"""

from __future__ import annotations

from enum import StrEnum

MAX_REPAIRS = 4
"""Wrong guesses that are repaired; more mean a path that changes while it is measured."""


class Outcome(StrEnum):
    """What became of the probes of one size."""

    ECHOED = "echoed"
    ARRIVED = "arrived"
    LOST = "lost"


class _Bracket:
    """One limit: `low` passes, `high` does not, `top` did not when the search began."""

    __slots__ = ("high", "is_sure", "low", "top")

    def __init__(self, low: int, top: int) -> None:
        self.low, self.high, self.top = low, top, top
        self.is_sure = False

    def passes(self, size_bytes: int) -> bool:
        """Note that a size passes; whether that refutes an earlier guess."""
        self.low = max(self.low, size_bytes)
        if self.low < self.high:
            return False
        self.high, self.is_sure = max(self.top, self.low + 1), False
        return True

    def fails(self, size_bytes: int) -> None:
        """Note that a size does not pass."""
        if size_bytes > self.low:
            self.is_sure = self.is_sure or size_bytes == self.high == self.low + 1
            self.high = min(self.high, size_bytes)

    def next(self) -> int | None:
        """The size to ask about; None when the limit is known and was asked again, or nothing above is of interest."""
        if self.low >= self.top:
            return None
        if self.high - self.low > 1:
            return (self.low + self.high) // 2
        return None if self.is_sure else self.high


class SizeSearch:
    """One search.

    Args:
        passing_bytes: a size that was echoed.
        failing_bytes: a larger one that was not.
        is_arriving: whether probes of that larger one arrive at the peer.
    """

    def __init__(self, *, passing_bytes: int, failing_bytes: int, is_arriving: bool) -> None:
        self._both = _Bracket(passing_bytes, failing_bytes)
        self._there = _Bracket(passing_bytes, failing_bytes)
        # Nothing above the failing size is asked: what arrives up to there arrives as far as anybody cares.
        self._is_there_open = is_arriving
        self._failing_bytes = failing_bytes
        self._repairs = 0

    @property
    def both_bytes(self) -> int:
        """The longest probe that was answered."""
        return self._both.low

    @property
    def outbound_bytes(self) -> int:
        """The longest probe that arrives at the peer."""
        return self._failing_bytes if self._is_there_open else max(self._there.low, self._both.low)

    def next(self) -> int | None:
        """The size to ask about; None when both limits are known."""
        size = self._both.next()
        return self._there.next() if size is None and not self._is_there_open else size

    def note(self, size_bytes: int, outcome: Outcome) -> None:
        """Take in what became of the probes of a size."""
        is_refuted = False
        if outcome is Outcome.ECHOED:
            is_refuted = self._both.passes(size_bytes)
        else:
            self._both.fails(size_bytes)
        if outcome is Outcome.LOST:
            self._there.fails(size_bytes)
        else:
            is_refuted = self._there.passes(size_bytes) or is_refuted
            self._is_there_open = self._is_there_open or size_bytes >= self._failing_bytes
        self._repairs += is_refuted
        if self._repairs > MAX_REPAIRS:
            self._both.is_sure = self._there.is_sure = True
