"""A disk that takes as long for fsync as somebody else of the same loop needs."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

LIMIT_S = 2.0
"""Where fsync is called in the loop, nobody else gets to end it."""


class SlowDisk:
    """In place of the machine's.

    Attributes:
        waits: of each fsync, whether the loop has gone on meanwhile.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.waits: list[bool] = []
        self._is_done = threading.Event()
        patch.setattr(os, "fsync", self._fsync)

    def go_on(self) -> None:
        """Be done as soon as the loop comes round."""
        asyncio.get_running_loop().call_soon(self._is_done.set)

    def _fsync(self, _descriptor: int) -> None:
        self.waits.append(self._is_done.wait(LIMIT_S))
