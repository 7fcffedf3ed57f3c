"""The daemon's memory of events: the last ten thousand at hand, more on disk.

A follower is one number, the last sequence number it has seen: the ring is its queue, so a follower who reads slowly
costs nothing and can hold up nobody, and one who falls behind the whole ring is told how much it has missed.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import msgspec

from meshwatchd.adapters.storage.policy_file import read_boot
from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.errors import DecodeError, MeshwatchError

EventLine = dict[str, object]
"""One event, flat; `seq`, `at_ns` and `event` are always there."""

CAPACITY = 10_000
MAX_FILE_BYTES = 8 * 1024 * 1024
"""Some 20 000 events: days of an unruly mesh."""
GENERATIONS = 3
"""Files kept: events.jsonl, events.jsonl.1, events.jsonl.2."""

MAX_LINE_BYTES = 64 * 1024
"""A longer line is no event of ours."""

FILE_NAME = "events.jsonl"

_DOOR = Door(FILE_NAME, "such lines are passed over; a crash cuts off one at most")


_Word = str | int | float | None


class _Least(msgspec.Struct, frozen=True):
    """What every reader of events relies on: a name, an instant, and that words tell it apart, no lists.

    Attributes:
        fault, device, subject, pair: of which incident it is a part (`operators.incidents`).
        session: which session has changed.
    """

    event: str
    at_ns: int
    fault: _Word = None
    device: _Word = None
    subject: _Word = None
    pair: _Word = None
    session: _Word = None


class FollowerTooSlowError(MeshwatchError):
    """A follower has fallen behind the whole ring."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        super().__init__(f"{lost} events were lost: the reader was too slow")


class EventStore:
    """Events numbered from 1 on, in memory and on disk.

    Attributes:
        boot: of this machine, as in each event.
        unwritten: events that could not be written to disk (full, read-only); they are still in memory.
    """

    def __init__(
        self, file: Path | None = None, *, capacity: int = CAPACITY, max_file_bytes: int = MAX_FILE_BYTES
    ) -> None:
        self.unwritten = 0
        self._ring: deque[EventLine] = deque(maxlen=capacity)
        self._next_seq = 1
        self._changed = asyncio.Event()
        # Enough of it to tell two boots of one machine apart.
        self.boot = read_boot()[:8]
        self._journal = None if file is None else _Journal(file, max_file_bytes)

    @classmethod
    def open(cls, folder: Path) -> EventStore:
        """A store that writes to events.jsonl in a folder and begins with what this boot has already written there."""
        store = cls(folder / FILE_NAME)
        store._restore()
        return store

    def append(self, line: Mapping[str, object]) -> EventLine:
        """Number and keep an event; wakes the followers."""
        kept: EventLine = {"seq": 0, **line} | {"seq": self._next_seq, "boot": self.boot}
        self._next_seq += 1
        self._ring.append(kept)
        if self._journal is not None and not self._journal.write(msgspec.json.encode(kept) + b"\n"):
            self.unwritten += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return kept

    def read(self, since_ns: int = 0, *, after: int = 0, limit: int | None = None) -> list[EventLine]:
        """Kept events, the oldest first: from `since_ns` (CLOCK_MONOTONIC) on, behind the sequence number `after`, at
        most `limit`.
        """
        skipped = max(0, after + 1 - self._first_seq)
        wanted = (line for line in islice(self._ring, skipped, None) if _at_ns(line) >= since_ns)
        return list(islice(wanted, limit))

    async def read_next(self, after: int, *, limit: int) -> list[EventLine]:
        """Wait for events later than a sequence number.

        Raises:
            FollowerTooSlowError: some of them have left the ring.
        """
        while self._next_seq - 1 <= after:
            await self._changed.wait()
        if after + 1 < self._first_seq:
            raise FollowerTooSlowError(self._first_seq - after - 1)
        return self.read(after=after, limit=limit)

    def history(self) -> list[EventLine]:
        """The events that incidents are made of, of every boot that the files on disk still know, the oldest first.

        Reads up to MAX_FILE_BYTES * GENERATIONS; where nothing is on disk, what is in memory has to do.
        """
        kept = [] if self._journal is None else read_history(self._journal.path.parent)
        return kept or [line for line in list(self._ring) if _is_historic(msgspec.json.encode(line))]

    @property
    def last_seq(self) -> int:
        """Sequence number of the latest event; 0 before the first."""
        return self._next_seq - 1

    @property
    def _first_seq(self) -> int:
        return self._next_seq - len(self._ring)

    def close(self) -> None:
        """Close the file."""
        if self._journal is not None:
            self._journal.close()

    def _restore(self) -> None:
        """Take over this boot's events: instants of another boot's monotonic clock mean nothing here."""
        assert self._journal is not None
        kept = [line for line in self._journal.read() if line.get("boot") == self.boot]
        for seq, line in enumerate(kept[-(self._ring.maxlen or CAPACITY) :], 1):
            self._ring.append({**line, "seq": seq})
            self._next_seq = seq + 1


_SIGNS = (b'"incident":', b'"event":"session.changed"', b'"event":"failover.', b'"event":"daemon.started"')
"""What a line contains that incidents are made of; the start of an engine ends them."""


def read_history(folder: Path) -> list[EventLine]:
    """The events that incidents are made of, from the files in a folder; what cannot be read is passed over."""
    lines: list[EventLine] = []
    for number in range(GENERATIONS - 1, -1, -1):
        path = folder / (f"{FILE_NAME}.{number}" if number else FILE_NAME)
        try:
            with path.open("rb") as file:
                while raw := file.readline(MAX_LINE_BYTES):
                    if _is_historic(raw) and (line := _decode(raw)) is not None:
                        lines.append(line)
        except OSError:
            continue
    return lines


def _is_historic(raw: bytes) -> bool:
    """Looked at before it is decoded: most events of a calm mesh belong to no incident."""
    return any(sign in raw for sign in _SIGNS)


class _Journal:
    """A file of lines that is replaced when it has grown; never an obstacle."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._descriptor: int | None = None
        self._size = 0
        self._is_torn = False

    def write(self, line: bytes) -> bool:
        """Append a line; False when the disk would not take it."""
        try:
            descriptor = self._ready(len(line))
            data = b"\n" + line if self._is_torn else line
            written = os.write(descriptor, data)
        except OSError:
            self.close()
            return False
        self._size += written
        self._is_torn = written != len(data)
        return not self._is_torn

    def read(self) -> list[EventLine]:
        """The lines of the older file and this one; what is no event is passed over."""
        lines: list[EventLine] = []
        for path in (self._generation(1), self.path):
            try:
                content = path.read_bytes()
            except OSError:
                continue
            lines += [line for raw in content.splitlines() if (line := _decode(raw)) is not None]
        return lines

    def close(self) -> None:
        """Close the file; the next write opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _ready(self, length: int) -> int:
        if self._descriptor is None:
            self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._descriptor = self._open()
        if self._size and self._size + length > self._max_bytes:
            self.close()
            for generation in range(GENERATIONS - 1, 0, -1):
                older = self._generation(generation - 1)
                if older.exists():
                    older.replace(self._generation(generation))
            self._descriptor = self._open()
        return self._descriptor

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path, flags, 0o640)
        self._size = os.fstat(descriptor).st_size
        # By this process, or by a power cut under an earlier one.
        self._is_torn = self._size > 0 and os.pread(descriptor, 1, self._size - 1) != b"\n"
        return descriptor

    def _generation(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


def _decode(raw: bytes) -> EventLine | None:
    try:
        decode_json(raw, _Least, _DOOR)
        return decode_json(raw, EventLine, _DOOR)
    except DecodeError:
        return None


def _at_ns(line: EventLine) -> int:
    at_ns = line["at_ns"]
    assert isinstance(at_ns, int)
    return at_ns
