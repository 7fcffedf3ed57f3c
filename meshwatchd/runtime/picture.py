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
        self._is_asked = False
        self.status: Status | None = None

    def take(self, status: Status) -> None:
        """The engine has sent one."""
        self.status, self._is_asked = status, False
        self._told.set()

    async def refresh(self) -> None:
        """Wait until the status is the engine's of this moment, or it is plain that the engine gives no answer."""
        if self.status is not None and self._clock() - self.status.at_ns < FRESH_NS:
            return
        self._told.clear()
        if not self._is_asked:
            self._is_asked = True
            self._ask()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._told.wait()
                return
        self._is_asked = False
