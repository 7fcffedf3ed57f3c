"""What a real-time process leaves of a single CPU to its agent and to others, however late it is.

At real-time priority nobody else runs before it sleeps, and a process that is always late never does. Rests are short
enough to be no stall, and a burst of work goes on without any.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

WORK_PARTS: Final = 4
"""Of CPU time for one part of rest: a fifth is left."""
FREE_NS: Final = 25_000_000
"""Rest that may be owed: 100 ms of work, in which a confirm burst is over."""
LONGEST_NS: Final = 5_000_000
"""One rest; probes leave later by so much, and waits are as long as ever (lateness.STALL_NS is 20 ms)."""


def share_of(cpus: int) -> Share | None:
    """What is left to others where this process may run on so many CPUs; None where they have another one."""
    return Share() if cpus == 1 else None


class Share:
    """Follows one thread's own CPU time."""

    def __init__(self, cpu_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self._cpu_ns = cpu_ns
        self._at_ns = self._used_ns = 0
        self._owed_ns = -FREE_NS

    def rest_ns(self, now_ns: int) -> int:
        """How long to sleep before there is more work; 0 where others had their share."""
        used_ns = self._cpu_ns()
        worked_ns, passed_ns = used_ns - self._used_ns, now_ns - self._at_ns
        self._at_ns, self._used_ns = now_ns, used_ns
        # What was not this thread's was everybody's: asleep, or while another process ran.
        self._owed_ns = max(-FREE_NS, self._owed_ns + worked_ns // WORK_PARTS - (passed_ns - worked_ns))
        return max(0, min(self._owed_ns, LONGEST_NS))
