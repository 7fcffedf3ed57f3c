"""Waiting for something to become true, with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
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


def wait_for_player(
    is_there: Callable[[], bool],
    process: subprocess.Popen[bytes],
    log: Path,
    *,
    what: str,
    who: str,
    timeout_s: float,
) -> None:
    """Wait until a process that plays a device has made what others use it by.

    Args:
        is_there: whether it has.
        process: the player.
        log: where its output goes.
        what: what it makes.
        who: the player, as it should stand before "ended at once".
        timeout_s: seconds after which waiting ends with an error.

    Raises:
        LabError: it took longer, or the player ended; then the message quotes its log.
    """
    wait_until(lambda: is_there() or process.poll() is not None, timeout_s=timeout_s, what=what, poll_s=0.005)
    if process.poll() is not None:
        said = log.read_text(encoding="utf-8", errors="replace").strip() or "nothing"
        raise LabError(f"{who} ended at once; it said: {said}")


def pause_until(instant_ns: int) -> None:
    """Let time pass up to an instant of CLOCK_MONOTONIC: for spans that are themselves the experiment."""
    while (left_ns := instant_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)
