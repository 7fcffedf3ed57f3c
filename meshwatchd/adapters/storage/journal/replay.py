"""Runs the core over a journal and holds what it says against what was said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from meshwatchd.adapters.storage.journal.checkpoint import Header, load
from meshwatchd.adapters.storage.journal.records import Input, decode
from meshwatchd.core.engine import Engine
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError, JournalError
from meshwatchd.model.outputs import Output, SendProbe


class Replayed(NamedTuple):
    """What one event led to, wherever it led to more than probes, then or at the replay.

    Attributes:
        wall_ns: CLOCK_REALTIME, for people.
        said: then.
        says: at the replay.
    """

    at_ns: int
    wall_ns: int
    said: tuple[Output, ...]
    says: tuple[Output, ...]

    @property
    def is_same(self) -> bool:
        """Whether the core has decided as it did."""
        return self.said == self.says


def segments(place: Path) -> list[Path]:
    """The checkpoints to replay from: that of a file, or the oldest of a folder first.

    Raises:
        JournalError: there is none.
    """
    if place.is_dir():
        found = sorted(place.glob("journal-*.state"))
        if not found:
            raise JournalError(place, "no journal is here", "is daemon.journal_mib more than 0? name its folder")
        return found
    return [place.with_suffix(".state")]


def replay(checkpoint: Path) -> Iterator[Replayed]:
    """Replay one segment.

    What was said to the last event of a file may have been cut off with the end of it, and is compared with nothing.

    Raises:
        JournalError: it cannot be read, or the engine cannot be given what is in it.
    """
    header, engine = load(checkpoint)
    events = checkpoint.with_suffix(".events")
    held: Replayed | None = None
    for place, given in enumerate(_inputs(events, header), 1):
        if held is not None:
            yield held
        says = _handle(engine, given, events, place)
        step = Replayed(given.at_ns, header.wall_ns + given.at_ns - header.at_ns, given.said, says)
        held = step if says or given.said else None
    if held is not None and held.said:
        yield held


def _handle(engine: Engine, given: Input, path: Path, place: int) -> tuple[Output, ...]:
    """What the engine says to one event, but for probes."""
    try:
        if given.is_asked:
            engine.deadline()
        outputs = engine.handle(given.event, given.at_ns)
    except Exception as error:
        kind = type(given.event).__name__
        reason = f"the engine cannot be given event {place}, {kind} at {given.at_ns} ns: {error!r}"
        raise JournalError(
            path, reason, "its bytes may not be those that were written; else report it as a bug"
        ) from error
    return tuple(output for output in outputs if not isinstance(output, SendProbe))


def _inputs(path: Path, header: Header) -> Iterator[Input]:
    try:
        with Door("journal"):
            yield from decode(path.read_bytes(), header.at_ns)
    except OSError as error:
        raise JournalError(path, error.strerror or str(error), "keep both files of a segment together") from error
    except DecodeError as error:
        raise JournalError(path, f"it is damaged ({error.reason})", "begin with another segment") from error
