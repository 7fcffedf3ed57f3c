"""The engine's picture of itself, as the agent has it: pushed while anything changes, asked for when somebody looks.

A mesh that is well tells nothing new, and making and reading a status each second cost as much as three probes and
their answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

from meshwatchd.model.settings import MS
from meshwatchd.model.status import Status

FRESH_NS: Final = 500 * MS
"""A picture so old is shown as it is: however many look, the engine makes two a second for them."""

PATIENCE_S: Final = 1.0
"""The engine answers within milliseconds. Of one that does not the last picture is shown, which tells its age."""


class Picture:
    """One engine's.

    Args:
        ask: has the engine send its status.

    Attributes:
        status: the last one; None before the first.
    """

    def __init__(self, ask: Callable[[], None], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._ask, self._clock = ask, clock
        self._told = asyncio.Event()
        # Since when an answer is waited for; 0 where none is.
        self._asked_ns = 0
        self.status: Status | None = None

    def take(self, status: Status) -> None:
        """The engine has sent one: an answer, or news that may have waited while the agent was busy."""
        self.status = status
        if self._is_of(self._asked_ns):
            self._asked_ns = 0
        self._told.set()

    async def refresh(self) -> None:
        """Wait until the status is the engine's of this moment, or it is plain that the engine gives no answer."""
        now = self._clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while not self._is_of(now):
                    self._told.clear()
                    if not self._asked_ns:
                        self._asked_ns = now
                        self._ask()
                    await self._told.wait()
                return
        self._asked_ns = 0

    def _is_of(self, instant: int) -> bool:
        """Whether the status is young enough for who looks at an instant."""
        return self.status is not None and instant - self.status.at_ns < FRESH_NS
