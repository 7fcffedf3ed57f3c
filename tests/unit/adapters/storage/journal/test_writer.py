"""The ring of segments: bounded, contiguous, and never an obstacle."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from meshwatchd.adapters.storage.journal.replay import replay, segments
from meshwatchd.adapters.storage.journal.writer import BUFFER_BYTES, PAUSE, SEGMENTS, Journal
from meshwatchd.model.events import Tick
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import Bench, primary_is_silent, ready


class Journalled(Bench):
    """A bench whose engine keeps a journal."""

    journal: Journal | None = None

    def feed(self, event):
        """Note what is fed."""
        outputs = super().feed(event)
        if self.journal is not None:
            self.journal.note(event, self.now, outputs, is_asked=True)
        return outputs


def _bench(folder, *, max_bytes=1 << 20, counters=None):
    bench = Journalled("a1")
    bench.run(2 * SECOND)
    bench.journal = Journal(folder, max_bytes, Counter() if counters is None else counters)
    bench.journal.keep(bench.engine, bench.now)
    return bench, bench.journal


def test_decisions_are_had_once_more(tmp_path):
    """Suspicion, verdict, proposal: the same outputs to the same events."""
    bench, journal = _bench(tmp_path)
    bench.run(300 * MS)
    bench.silent = primary_is_silent
    bench.run(SECOND)
    journal.close()

    (segment,) = segments(tmp_path)
    steps = list(replay(segment))
    assert [] == [step for step in steps if not step.is_same]
    kinds = {type(output).__name__ for step in steps for output in step.says}
    assert {"SessionSuspected", "FailoverProposed", "VerdictChanged"} <= kinds


def test_a_new_segment_begins_where_the_last_one_ends(tmp_path):
    """A checkpoint in the middle of a fault: each segment replays by itself."""
    bench, journal = _bench(tmp_path)
    bench.silent = primary_is_silent
    bench.run(60 * MS)
    journal.begin(bench.engine, bench.now)
    bench.run(SECOND)
    journal.close()

    first, second = segments(tmp_path)
    assert all(step.is_same for segment in (first, second) for step in replay(segment))
    assert max(step.at_ns for step in replay(first)) <= min(step.at_ns for step in replay(second))
    assert any(type(o).__name__ == "VerdictChanged" for step in replay(second) for o in step.says)


def test_the_ring_is_bounded(tmp_path):
    """Four segments, the oldest go; numbers go on after a restart."""
    bench, journal = _bench(tmp_path, max_bytes=1)
    for _ in range(2 * SEGMENTS):
        for _ in range(BUFFER_BYTES // 4):
            journal.note(Tick(), bench.now, [], is_asked=True)
        journal.keep(bench.engine, bench.now)
    journal.close()

    events = sorted(path.name for path in tmp_path.glob("*.events"))
    assert SEGMENTS == len(events)
    assert SEGMENTS * 3 * BUFFER_BYTES > sum(path.stat().st_size for path in tmp_path.glob("*.events"))
    again = Journal(tmp_path, 1, Counter())
    again.begin(bench.engine, bench.now)
    again.close()
    assert max(path.name for path in tmp_path.glob("*.events")) > events[-1]


def test_nobody_else_can_read_or_write_it(tmp_path):
    """Whoever could write to a checkpoint could run code."""
    _, journal = _bench(tmp_path / "journal")
    journal.close()
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "journal").iterdir()}
    assert 0o700 == stat.S_IMODE((tmp_path / "journal").stat().st_mode)


def test_a_file_system_that_takes_nothing_stops_the_journal_and_nothing_else(tmp_path):
    """Counted, and tried again later."""
    (tmp_path / "file").write_text("")
    counters: Counter[str] = Counter()
    bench, journal = _bench(tmp_path / "file" / "journal", counters=counters)
    bench.run(SECOND)
    for _ in range(PAUSE):
        journal.keep(bench.engine, bench.now)
    assert 1 == counters["journal-unwritten"]
    journal.keep(bench.engine, bench.now)
    journal.close()
    assert 2 == counters["journal-unwritten"]


def test_an_engine_that_cannot_be_kept_is_counted(tmp_path):
    """The child fails; the parent goes on."""
    counters: Counter[str] = Counter()
    journal = Journal(tmp_path, 1, counters)
    journal.begin(ready, 0)
    journal.close()
    assert 1 == counters["journal-unwritten"]
    assert [] == list(tmp_path.glob("*.state"))


@pytest.mark.parametrize("reason", [errno.EAGAIN, errno.ENOMEM])
def test_a_child_that_cannot_be_had_stops_the_journal_and_nothing_else(tmp_path, monkeypatch, reason):
    """No memory, or no more processes: no segment remains, and another is tried later."""
    counters: Counter[str] = Counter()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", lambda: _raise(OSError(reason, "no")))
        bench, journal = _bench(tmp_path, counters=counters)
    bench.run(SECOND)

    assert {"journal-unwritten": 1} == counters
    assert [] == list(tmp_path.iterdir())
    for _ in range(PAUSE + 1):
        journal.keep(bench.engine, bench.now)
    journal.close()
    assert 1 == len(segments(tmp_path))


def _raise(error):
    raise error


@contextmanager
def _room_for(size: int) -> Iterator[None]:
    """Files may have so many bytes: what is written beyond is cut off, and then refused, as on a disk that is full."""
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
        signal.signal(signal.SIGXFSZ, former)


def test_a_segment_ends_where_the_disk_was_full_for_a_moment(tmp_path):
    """Half of a write, and room again by the next: what would come after the hole has another beginning."""
    counters: Counter[str] = Counter()
    bench, journal = _bench(tmp_path, counters=counters)
    bench.run(SECOND)
    journal.flush()
    size = sum(path.stat().st_size for path in tmp_path.glob("*.events"))
    bench.run(SECOND)
    with _room_for(size + 50):
        journal.flush()
    bench.run(SECOND)
    journal.keep(bench.engine, bench.now)
    journal.close()

    assert 1 == counters["journal-unwritten"]
    assert size + 50 == sum(path.stat().st_size for path in tmp_path.glob("*.events"))
    (segment,) = segments(tmp_path)
    assert all(step.is_same for step in replay(segment))


def test_a_disk_that_stays_full_does_not_cost_what_is_there(tmp_path):
    """Segments that hold nothing push nobody out, and hardly any is tried; once there is room the journal goes on."""
    counters: Counter[str] = Counter()
    bench, journal = _bench(tmp_path, counters=counters)
    bench.silent = primary_is_silent
    bench.run(SECOND)
    journal.keep(bench.engine, bench.now)
    journal._reap(options=0)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with _room_for(0):
        for _ in range(10 * PAUSE):
            bench.run(100 * MS)
            journal.keep(bench.engine, bench.now)
            journal._reap(options=0)

    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert 10 >= counters["journal-unwritten"]
    for _ in range(PAUSE + 1):
        bench.run(100 * MS)
        journal.keep(bench.engine, bench.now)
    journal.close()
    assert 2 == len(segments(tmp_path))
    assert all(step.is_same for segment in segments(tmp_path) for step in replay(segment))
