"""Keeps what waits for a disk out of the event loop: fsync may take as long as the disk likes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Content = TypeVar("Content")


class BackgroundWriter(Generic[Content]):
    """Writes the latest content in a thread, one after the other; one that is out of date is not written.

    Args:
        save: writes, and returns why it could not be done, or nothing.
        report: is called in the loop with what `save` returned, if anything.
    """

    def __init__(self, save: Callable[[Content], str], report: Callable[[str], object]) -> None:
        self._save, self._report = save, report
        self._next: Content | None = None
        self._writing: asyncio.Future[str] | None = None

    def keep(self, content: Content) -> None:
        """Write this, as soon as what is being written is done."""
        self._next = content
        if self._writing is None:
            self._begin()

    async def close(self) -> None:
        """Wait until everything is written."""
        while self._writing is not None:
            await asyncio.wait((self._writing,))

    def _begin(self) -> None:
        content, self._next = self._next, None
        if content is not None:
            self._writing = asyncio.get_running_loop().run_in_executor(None, self._save, content)
            self._writing.add_done_callback(self._ended)

    def _ended(self, writing: asyncio.Future[str]) -> None:
        self._writing = None
        if problem := writing.result():
            self._report(problem)
        self._begin()
