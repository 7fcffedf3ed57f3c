"""Waiting until a swarm of changes is over, and between looks that cost something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def settle(
    changed: asyncio.Event, *, quiet_s: float, limit_s: float, is_urgent: Callable[[], bool] = lambda: False
) -> None:
    """Return when `changed` has not been set for a while, or after the limit; clears it each time it is set. A change
    that is urgent, which is asked after each, is none of a swarm.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + limit_s
    while (left := end - loop.time()) > 0:
        changed.clear()
        if is_urgent():
            return
        try:
            async with asyncio.timeout(min(quiet_s, left)):
                await changed.wait()
        except TimeoutError:
            return


def pause_s(took_s: float, *, factor: int, longest_s: float) -> float:
    """How long to rest after work that took so long: in proportion, and never for longer than the limit.

    On a busy machine any work takes long, and what is wrong has to be told all the same.
    """
    return min(factor * took_s, longest_s)
