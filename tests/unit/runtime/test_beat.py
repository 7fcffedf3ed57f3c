"""Duties of the agent wake it together."""

from __future__ import annotations

import asyncio

import pytest

from meshwatchd.runtime import beat
from meshwatchd.runtime.beat import left_s, rest
from tests.unit.runtime.test_debounce import VirtualLoop


@pytest.mark.parametrize(
    ("now_s", "expected"),
    [(0.0, 2.0), (0.9, 1.1), (1.0, 1.0), (1.5, 2.5), (1.99, 2.01), (7.0, 1.0)],
)
def test_a_rest_ends_on_a_multiple_of_its_period(now_s, expected):
    """And is never so short that one look follows the other."""
    assert pytest.approx(expected) == left_s(2.0, now_s)


def test_duties_that_began_at_any_time_wake_the_loop_together():
    """Those of a longer period with those of a shorter one."""

    async def scenario():
        woken: list[float] = []

        async def duty(begin_s, period_s):
            await asyncio.sleep(begin_s)
            for _ in range(4):
                await rest(period_s)
                woken.append(round(asyncio.get_running_loop().time(), 3))

        await asyncio.gather(duty(0.1, 2.0), duty(0.7, 2.0), duty(1.3, 4.0))
        return woken

    loop = VirtualLoop()
    try:
        woken = loop.run_until_complete(scenario())
    finally:
        loop.close()
    assert 12 == len(woken)
    assert all((instant + beat._BEGAN_S + 0.01) % 2 < 0.02 for instant in woken)
