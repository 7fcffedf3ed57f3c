"""Turns a poller until something has happened, with a limit."""

from __future__ import annotations

from collections.abc import Callable

from meshwatchd.adapters.clock import Timer, monotonic_ns
from meshwatchd.adapters.poller import Poller

STEP_NS = 5_000_000
LIMIT_NS = 30_000_000_000


def pump(poller: Poller, is_done: Callable[[], bool]) -> None:
    """Dispatch what becomes ready until the predicate holds; fails after half a minute."""
    timer = Timer()
    poller.add(timer.fileno(), lambda _fd: None)
    limit_ns = monotonic_ns() + LIMIT_NS
    try:
        while not is_done():
            now_ns = monotonic_ns()
            assert now_ns < limit_ns, "what the test waits for did not happen"
            timer.arm(now_ns + STEP_NS)
            poller.dispatch(poller.wait())
    finally:
        poller.forget(timer.fileno())
        timer.close()
