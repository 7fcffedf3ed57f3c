"""Both clocks of discovery, and what one says of the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from meshwatchd.model.settings import SECOND

JUMP_NS: Final = 60 * SECOND


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """Both clocks, in nanoseconds."""

    monotonic_ns: Callable[[], int] = time.monotonic_ns
    wall_ns: Callable[[], int] = time.time_ns

    def offset_ns(self) -> int:
        """Of the wall clock from the monotonic one."""
        return self.wall_ns() - self.monotonic_ns()


class JumpWatch:
    """Notices that the wall clock has jumped.

    It was put right, or this machine was resumed from a snapshot. Then it repeats what it has said before, and its
    peers refuse that.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._offset_ns = clocks.offset_ns()

    def look(self) -> int:
        """By how many nanoseconds since the last look; 0 for less than a minute."""
        jump_ns = self._clocks.offset_ns() - self._offset_ns
        if abs(jump_ns) < JUMP_NS:
            return 0
        self._offset_ns += jump_ns
        return jump_ns
