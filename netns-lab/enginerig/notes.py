"""What the rig tells the benchmark: events as they happen, and a sample of its counters when asked."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

BUCKET_NS: Final = 10_000
"""Resolution of the lateness histogram."""
BUCKETS: Final = 5_000
"""Up to 50 ms; later ones are counted in the last."""


class Notes:
    """Appends events to a file, unbuffered: there are few, and each is an instant somebody waits for."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def tell(self, event: str, at_ns: int, **fields: object) -> None:
        """Write one line: `event`, `at_ns` (CLOCK_MONOTONIC) and whatever else."""
        os.write(self._fd, json.dumps({"event": event, "at_ns": at_ns, **fields}).encode() + b"\n")


class Lateness:
    """A histogram of how late probes left, in buckets of BUCKET_NS."""

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self.max_ns = 0

    def note(self, late_ns: int) -> None:
        """Count one."""
        late_ns = max(0, late_ns)
        self._counts[min(BUCKETS - 1, late_ns // BUCKET_NS)] += 1
        self.max_ns = max(self.max_ns, late_ns)

    def counts(self) -> dict[int, int]:
        """How many, by the upper end of their bucket in nanoseconds."""
        return {(index + 1) * BUCKET_NS: count for index, count in enumerate(self._counts) if count}

    def take_max(self) -> int:
        """The greatest since the last call."""
        taken, self.max_ns = self.max_ns, 0
        return taken


def write_sample(
    path: Path, *, counters: Mapping[str, int], states: Mapping[str, int], departures: Lateness, wakeups: Lateness
) -> None:
    """Replace the sample file, so that a reader sees the old or the new one.

    Args:
        path: the file.
        counters: of the adapters and the loop.
        states: sessions by state.
        departures: how late the last probe of each turn left, against the instant at which the first was due.
        wakeups: how late the core was asked for each turn's probes.
    """
    draft = path.with_name(f"{path.name}.draft")
    document = {
        "at_ns": time.monotonic_ns(),
        "cpu_ns": time.process_time_ns(),
        "counters": dict(counters),
        "states": dict(states),
        "departures": departures.counts(),
        "departures_max_ns": departures.take_max(),
        "wakeups": wakeups.counts(),
        "wakeups_max_ns": wakeups.take_max(),
    }
    draft.write_text(json.dumps(document))
    draft.replace(path)
