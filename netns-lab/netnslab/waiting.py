"""Waiting for something to become true, with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from netnslab.errors import LabError

T = TypeVar("T")

# Short against everything that is waited for here, long enough to leave the processors alone.
POLL_S = 0.03


def wait_until(predicate: Callable[[], T | None], *, timeout_s: float, what: str, poll_s: float = POLL_S) -> T:
    """Ask until the answer is true, and return it.

    Args:
        predicate: asked again and again; None, False and anything empty mean "not yet".
        timeout_s: seconds after which waiting ends with an error.
        what: what is waited for, as it should stand after "timed out waiting for".
        poll_s: seconds between two questions.

    Raises:
        LabError: it did not become true in `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while not (answer := predicate()):
        if time.monotonic() >= deadline:
            raise LabError(f"timed out after {timeout_s:g} s waiting for {what}")
        time.sleep(poll_s)
    return answer


def pause_until(instant_ns: int) -> None:
    """Let time pass up to an instant of CLOCK_MONOTONIC: for spans that are themselves the experiment."""
    while (left_ns := instant_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)
