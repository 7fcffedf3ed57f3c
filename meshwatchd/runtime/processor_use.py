"""What share of a processor this daemon takes, from one question to the next."""

from __future__ import annotations

from collections.abc import Callable

from meshwatchd.model.settings import SECOND


class ProcessorUse:
    """Nobody wakes for it: processor times are read when somebody asks.

    Args:
        used_ns: processor time of all processes together so far; None where that is not known.
        now_ns: CLOCK_MONOTONIC.
    """

    def __init__(self, used_ns: Callable[[], int | None], now_ns: Callable[[], int]) -> None:
        self._used_ns, self._now_ns = used_ns, now_ns
        self._at, self._used = now_ns(), used_ns()
        self._percent: float | None = None

    def percent(self) -> float | None:
        """Of one core, since the question before; two within a second have the same answer.

        Returns:
            None in the first second, and where processor times are not known.
        """
        now = self._now_ns()
        if now - self._at >= SECOND:
            used, before, since = self._used_ns(), self._used, self._at
            self._at, self._used, self._percent = now, used, None
            # A process that was started again begins at nothing.
            if used is not None and before is not None and used >= before:
                self._percent = round(100 * (used - before) / (now - since), 2)
        return self._percent
