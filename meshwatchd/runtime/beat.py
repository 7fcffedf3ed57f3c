"""What the agent does every few seconds is done together: a wake-up costs more than a look at some files.

Each of its duties rests until the next multiple of its own period, by one clock that begins anywhere: the agents of two
nodes that were started together do not wake together.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

_LONGEST_S: Final = 60.0
_BEGAN_S: Final = random.uniform(0, _LONGEST_S)


def left_s(period_s: float, now_s: float) -> float:
    """Seconds until the next multiple of a period; never less than half of it, or a slow look would follow itself."""
    left = period_s - now_s % period_s
    return left if left >= period_s / 2 else left + period_s


def until_next_s(period_s: float) -> float:
    """The same from now on, in seconds of the running loop's clock."""
    return left_s(period_s, asyncio.get_running_loop().time() + _BEGAN_S)


async def rest(period_s: float) -> None:
    """Rest for about a period, until other duties are due as well."""
    await asyncio.sleep(until_next_s(period_s))
