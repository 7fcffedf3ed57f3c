"""Runs the core over a journal and holds what it says against what was said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from meshwatchd.adapters.journal.checkpoint import Header, load
from meshwatchd.adapters.journal.records import Input, decode
from meshwatchd.model.errors import JournalError
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

    Raises:
        JournalError: it cannot be read.
    """
    header, engine = load(checkpoint)
    for given in _inputs(checkpoint.with_suffix(".events"), header):
        if given.is_asked:
            engine.deadline()
        outputs = engine.handle(given.event, given.at_ns)
        says = tuple(output for output in outputs if not isinstance(output, SendProbe))
        if says or given.said:
            yield Replayed(given.at_ns, header.wall_ns + given.at_ns - header.at_ns, given.said, says)


def _inputs(path: Path, header: Header) -> Iterator[Input]:
    try:
        yield from decode(path.read_bytes(), header.at_ns)
    except OSError as error:
        raise JournalError(path, error.strerror or str(error), "keep both files of a segment together") from error
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise JournalError(path, f"it is damaged ({error})", "begin with another segment") from error
