"""How long a process of the lab was ready to run and had no processor: six nodes share this machine's cores.

    with run_queue(mesh.daemons.agent_pid("b2")) as queue:
        ...
    assert ended_ns - began_ns - queue.waited_ns(began_ns, ended_ns) < SECOND

On a machine of its own the process would not have waited: what is left is its own doing, sleeping included.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SAMPLE_S = 0.02


class RunQueue:
    """Samples of one process: CLOCK_MONOTONIC, and what it has waited until then; both in nanoseconds."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, int]] = []

    def waited_ns(self, began_ns: int, ended_ns: int) -> int:
        """What it has waited between two instants, to the samples inside: no more than there was."""
        first, last = (bisect_left(self.samples, (at, 0)) for at in (began_ns, ended_ns))
        inside = self.samples[first:last]
        return inside[-1][1] - inside[0][1] if inside else 0


@contextmanager
def run_queue(pid: int) -> Iterator[RunQueue]:
    """Sample a process until the end of the block, or its own."""
    queue, is_over = RunQueue(), threading.Event()
    # The second number of three (Documentation/scheduler/sched-stats.rst).
    file = Path(f"/proc/{pid}/schedstat")

    def sample() -> None:
        while not is_over.wait(SAMPLE_S):
            try:
                queue.samples.append((time.monotonic_ns(), int(file.read_text(encoding="ascii").split()[1])))
            except OSError:
                return

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield queue
    finally:
        is_over.set()
        thread.join()
