"""One size, tried on one path: which probes leave when, and what is to be made of the answers.

A look is one probe. A trial proper sends it many times, each between two small ones over the same flow:

    small  LARGE  small  LARGE  ...  LARGE  small

One answer to a large one is proof, and ends it. Silence of all of them means their size only if the small ones
between them are answered: a path that is down, a stall and a burst of loss take both. With 10 large ones lost and a
healthy loss of 9.75 % (one packet in twenty, each way) the size is accused falsely once in 10^10 trials, and a trial
follows a missed look only.

Each answer carries the reflector's count of answers in the session. Between the first and the last small one that are
answered the count grows by the small ones and by the large ones that have arrived, whatever became of their answers.
"""

from __future__ import annotations

from meshwatchd.core.pmtu.search import Outcome
from meshwatchd.model.mtu import SMALL_BYTES
from meshwatchd.model.settings import MS

GAP_NS = 4 * MS
"""Between two packets of a trial: 1 500 bytes each 8 ms are 1.5 Mbit/s, for less than a tenth of a second."""

GRACE_NS = 15 * MS
"""After the answer to the last small probe: a large one takes longer over a slow line, and may be overtaken."""


class Trial:
    """The probes of one size.

    Args:
        size_bytes: what is tried.
        pairs: how many large ones with a small one each; 0 is a look, one probe alone.
    """

    __slots__ = ("_first", "_is_refused", "_last", "_pending", "_position", "is_echoed", "pairs", "size_bytes")

    def __init__(self, size_bytes: int, pairs: int) -> None:
        self.size_bytes, self.pairs = size_bytes, pairs
        self.is_echoed = False
        self._is_refused = False
        self._position = 0
        self._pending: dict[int, int] = {}
        self._first: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None

    @property
    def is_begun(self) -> bool:
        """Whether one of its probes has left."""
        return self._position > 0

    @property
    def is_sent(self) -> bool:
        """Whether all of its probes have left."""
        return self._position >= self._count

    @property
    def _count(self) -> int:
        return 2 * self.pairs + 1

    def next(self, seq: int) -> int:
        """The size of the next probe; it leaves under this number."""
        position = self._position
        self._position += 1
        self._pending[seq] = position
        is_small = self.pairs and position % 2 == 0
        return SMALL_BYTES if is_small else self.size_bytes

    def answered(self, seq: int, count: int) -> bool:
        """Take in an answer; whether it is to a probe of this trial."""
        position = self._pending.pop(seq, None)
        if position is None:
            return False
        if not self.pairs or position % 2:
            self.is_echoed = True
        else:
            self._first = self._first or (position, count)
            self._last = (position, count)
        return True

    @property
    def is_overtaken(self) -> bool:
        """Whether the last probe of all, a small one, is answered."""
        return self.pairs > 0 and self._last is not None and self._last[0] == self._count - 1

    def refused(self) -> None:
        """The own device does not take the size."""
        self._is_refused = True
        self._position = self._count

    @property
    def is_decided(self) -> bool:
        """Whether no answer could change the outcome."""
        return self.is_echoed or self._is_refused

    def outcome(self) -> Outcome | None:
        """What it showed; None when the small probes were lost as well, or there were none."""
        if self.is_echoed:
            return Outcome.ECHOED
        if self._is_refused:
            return Outcome.LOST
        if self._answered_small * 2 < self.pairs + 1 or not self.pairs:
            return None
        return Outcome.ARRIVED if self._is_arriving() else Outcome.LOST

    @property
    def _answered_small(self) -> int:
        missing = sum(1 for position in self._pending.values() if position % 2 == 0)
        return self.pairs + 1 - missing

    def _is_arriving(self) -> bool:
        """Whether most large probes between the first and the last small one that were answered have arrived."""
        if self._first is None or self._last is None:
            return False
        steps = (self._last[0] - self._first[0]) // 2
        arrived = self._last[1] - self._first[1] - steps
        return steps > 0 and arrived * 2 >= steps
