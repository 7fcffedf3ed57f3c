"""Keeps a ring of segments: a checkpoint by a child, events by this process."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from pathlib import Path
from typing import Final

from meshwatchd.adapters.storage.journal.records import RecordEncoder
from meshwatchd.model.events import Event
from meshwatchd.model.outputs import Output

SEGMENTS: Final = 4
"""Of the ring: what is lost when the oldest goes is a quarter."""

BUFFER_BYTES: Final = 64 * 1024

PAUSE: Final = 30
"""Calls of `keep` that pass before another segment is tried: each costs a fork, and a disk that is full stays so."""

MODE: Final = 0o600
"""A checkpoint is unpickled to be read: whoever could write to it could run code."""


class Journal:
    """Writes what one engine is given.

    Args:
        max_bytes: of all events on file together.
        counters: `journal-unwritten` counts what the file system would not take.
    """

    def __init__(self, folder: Path, max_bytes: int, counters: Counter[str]) -> None:
        self._folder = folder
        self._segment_bytes = max(BUFFER_BYTES, max_bytes // SEGMENTS)
        self._counters = counters
        self._buffer = bytearray()
        self._encoder: RecordEncoder | None = None
        self._descriptor: int | None = None
        self._written = 0
        self._children: dict[int, int] = {}
        self._pause = 0
        self._number = self._last_number()

    def begin(self, engine: object, now_ns: int) -> None:
        """Start a segment: the engine is as it was after the last event that was noted."""
        self.flush()
        self._number += 1
        self._written = 0
        self._close()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path("events"), flags, MODE)
        except OSError:
            self._give_up()
            return
        try:
            self._checkpoint(engine, now_ns)
        except OSError:
            # No memory, or no more processes: events without the engine they were given to are of no use.
            self._give_up()
            return
        self._encoder = RecordEncoder(now_ns)
        self._forget_old()

    def note(self, event: Event, now_ns: int, outputs: list[Output], *, is_asked: bool) -> None:
        """One event that the engine has handled, what it said, and whether it was asked for its deadline before."""
        if self._encoder is not None:
            self._encoder.encode(event, now_ns, outputs, self._buffer, is_asked=is_asked)
            if len(self._buffer) >= BUFFER_BYTES:
                self.flush()

    def keep(self, engine: object, now_ns: int) -> None:
        """Every second or so, between events: write what is buffered, and start a segment when the last one is full."""
        self.flush()
        self._reap()
        if self._encoder is None and self._pause:
            self._pause -= 1
        elif self._encoder is None or self._written >= self._segment_bytes:
            self.begin(engine, now_ns)

    def flush(self) -> None:
        """Write what is buffered."""
        if self._descriptor is not None and self._buffer:
            try:
                written = os.write(self._descriptor, self._buffer)
            except OSError:
                written = 0
            self._written += written
            if written < len(self._buffer):
                # A hole in the middle would make everything after it wrong.
                self._give_up()
        self._buffer.clear()

    def close(self) -> None:
        """Write what is left, and wait for the last checkpoint."""
        self.flush()
        self._close()
        self._reap(options=0)

    def _give_up(self) -> None:
        """Write no more to this segment; one that holds nothing is none, and must not push out one that does."""
        self._counters["journal-unwritten"] += 1
        self._encoder, self._pause = None, PAUSE
        self._close()
        if not self._written:
            self._remove(self._number)

    def _checkpoint(self, engine: object, now_ns: int) -> None:
        """By a child: it has the engine as it is at this instant, and all the time it needs."""
        wall_ns = time.time_ns()
        child = os.fork()
        if child:
            self._children[child] = self._number
            return
        status = 1
        try:
            from meshwatchd.adapters.storage.journal.checkpoint import dump  # noqa: PLC0415 - for the child alone

            unfinished = self._path("unfinished")
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, MODE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(dump(engine, at_ns=now_ns, wall_ns=wall_ns))
            unfinished.replace(self._path("state"))
            status = 0
        finally:
            # Nothing of the parent's may be run or written on the way out.
            os._exit(status)

    def _reap(self, *, options: int = os.WNOHANG) -> None:
        for child, number in tuple(self._children.items()):
            status = 0
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(child, options)
                if not pid:
                    continue
            del self._children[child]
            if not status:
                continue
            if number == self._number and self._encoder is not None:
                self._give_up()
            else:
                self._counters["journal-unwritten"] += 1
            # Events without the engine that they were given to are of no use.
            self._remove(number)

    def _forget_old(self) -> None:
        """Keep the latest segments; what is left of one whose events are gone goes as well."""
        numbers = sorted({_number_of(path) for path in self._folder.glob("journal-*.events")})
        for path in self._folder.glob("journal-*.*"):
            if _number_of(path) not in (0, *numbers[-SEGMENTS:]):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _remove(self, number: int) -> None:
        for kind in ("events", "state", "unfinished"):
            with contextlib.suppress(OSError):
                self._path(kind, number).unlink()

    def _last_number(self) -> int:
        return max((_number_of(path) for path in self._folder.glob("journal-*.*")), default=0)

    def _path(self, kind: str, number: int = 0) -> Path:
        return self._folder / f"journal-{number or self._number:06}.{kind}"

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _number_of(path: Path) -> int:
    """A segment's number, counting from 1; 0 for a file that is none of ours."""
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdigit() else 0
