"""When to try again, and what to say of it: once when something begins to fail, once when it works again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

SECOND: Final = 1_000_000_000
SHORTEST_NS: Final = SECOND
LONGEST_NS: Final = 60 * SECOND

Say = Callable[..., None]
"""`meshwatchd.runtime.stderr.say`: event, level, fields."""


class Backoff:
    """Doubling waits with jitter, so that a thousand processes do not come back in one second.

    Args:
        what: that is tried, as it is called in the log.
        say: writes a line.
        dice: the source of jitter.
    """

    def __init__(self, what: str, say: Say, dice: random.Random) -> None:
        self._what, self._say, self._dice = what, say, dice
        self._failures = 0
        self._next_ns = 0

    def is_due(self, now: int) -> bool:
        """Whether it may be tried at an instant."""
        return now >= self._next_ns

    def failed(self, why: str, now: int) -> int:
        """It has failed; returns for how many nanoseconds it should be left alone."""
        if not self._failures:
            self._say("api.failed", level="warning", what=self._what, why=why)
        longest = min(LONGEST_NS, SHORTEST_NS << min(self._failures, 6))
        self._failures += 1
        wait_ns = self._dice.randint(longest // 2, longest)
        self._next_ns = now + wait_ns
        return wait_ns

    def worked(self) -> None:
        """It has worked."""
        if self._failures:
            self._say("api.recovered", level="info", what=self._what, failures=self._failures)
        self._failures = self._next_ns = 0
