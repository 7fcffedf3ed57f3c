"""Whether the agent's loop goes round: the engine asks once a second, and judges by the answers alone.

    engine --PingFrame--> agent's loop --AliveFrame--> engine

Two kinds of silence are not the agent's fault. An engine that was stopped itself could not hear: it counts looks, not
the clock, and reads what has arrived before it looks. An agent that waits for a CPU cannot answer: while it is
runnable, only the CPU time that it uses counts. An agent that is stopped, that sleeps in a system call, or that
spins has no excuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from meshwatchd.model.settings import SECOND

LOOKS: Final = 5
"""Looks in vain that make a silence, at least."""


class Patience(NamedTuple):
    """How long an agent may leave a ping unanswered, in nanoseconds.

    Attributes:
        first_ns: the first one: a new agent reads its program from a slow disk.
        later_ns: every other.
    """

    first_ns: int = 30 * SECOND
    later_ns: int = 5 * SECOND


PATIENCE: Final = Patience()


class Heartbeat:
    """One agent's answers.

    Attributes:
        due_ns: the next look.
        silent_ns: how long the agent has been silent by its own fault.
    """

    def __init__(self, patience: Patience, now_ns: int) -> None:
        self._later_ns, self._limit_ns = patience.later_ns, patience.first_ns
        self._period_ns = patience.later_ns // LOOKS
        self._used_ns = 0
        self._is_asked = False
        self._looked_ns = now_ns - self._period_ns
        self.due_ns = now_ns
        self.silent_ns = 0

    def answered(self) -> None:
        """The agent's loop has gone round."""
        self._is_asked, self._limit_ns, self.silent_ns = False, self._later_ns, 0

    def look(self, now_ns: int, total_ns: int, is_runnable: Callable[[], bool]) -> bool:
        """Count what has passed since the last look, a period at most; True when the agent is to be asked.

        Args:
            now_ns: CLOCK_MONOTONIC.
            total_ns: CPU time of the agent since its start.
            is_runnable: whether it runs or waits for a CPU; asked of an agent alone that owes an answer.
        """
        self.due_ns = now_ns + self._period_ns
        passed_ns, self._looked_ns = min(now_ns - self._looked_ns, self._period_ns), now_ns
        used_ns, self._used_ns = total_ns - self._used_ns, total_ns
        if not self._is_asked:
            self._is_asked = True
            return True
        self.silent_ns += min(used_ns, passed_ns) if is_runnable() else passed_ns
        return False

    @property
    def is_hung(self) -> bool:
        """Whether patience is over."""
        return self.silent_ns >= self._limit_ns
