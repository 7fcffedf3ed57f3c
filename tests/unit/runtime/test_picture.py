"""A status of this moment for who looks, however many look, and the last one where the engine is silent."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from meshwatchd.model.settings import MS, SECOND
from meshwatchd.runtime import picture as module
from meshwatchd.runtime.loop import STATUS_TAIL_NS
from meshwatchd.runtime.node_reports import HURRY_GAP_NS
from meshwatchd.runtime.picture import FRESH_NS, PATIENCE_S, Picture
from tests.support.example_status import HEALTHY

NOON = 1_000 * SECOND


class Engine:
    """Answers each question with a status of that instant, a moment later, unless it hangs."""

    def __init__(self, *, hangs=False):
        self.now, self.asked, self.hangs = NOON, 0, hangs
        self.picture = Picture(self._ask, lambda: self.now)

    def _ask(self):
        self.asked += 1
        if not self.hangs:
            asyncio.get_running_loop().call_later(0.01, self.tell)

    @property
    def told_ns(self):
        """The instant of the last status."""
        assert self.picture.status is not None
        return self.picture.status.at_ns

    def tell(self):
        """Send a status."""
        self.picture.take(replace(HEALTHY, at_ns=self.now))


def test_a_status_that_is_older_than_half_a_second_is_asked_for_anew():
    """A mesh that is well tells nothing for hours; a younger one is shown as it is."""

    async def scenario():
        engine, shown = Engine(), []
        for later_ns in (0, FRESH_NS - MS, 2 * MS, 3_600 * SECOND):
            engine.now += later_ns
            await engine.picture.refresh()
            shown.append((engine.asked, engine.now - engine.told_ns))
        return shown

    assert [(1, 0), (1, FRESH_NS - MS), (2, 0), (3, 0)] == asyncio.run(scenario())


def test_many_who_look_at_once_have_one_status_made():
    """Each costs the engine as much as some probes, and anybody may ask."""

    async def scenario():
        engine = Engine()
        await asyncio.gather(*(engine.picture.refresh() for _ in range(64)))
        return engine.asked, engine.told_ns

    assert (1, NOON) == asyncio.run(scenario())


def test_news_that_waited_is_no_answer():
    """The agent was busy: what the engine pushed meanwhile is older than what is shown may be."""

    async def scenario():
        engine, late = Engine(), replace(HEALTHY, at_ns=NOON - FRESH_NS)
        asyncio.get_running_loop().call_later(0.001, engine.picture.take, late)
        await asyncio.gather(*(engine.picture.refresh() for _ in range(3)))
        return engine.told_ns, engine.asked

    assert (NOON, 1) == asyncio.run(scenario())


def test_news_that_are_young_enough_are_an_answer():
    """Whoever has them needs not wait for another status of the same moment."""

    async def scenario():
        engine, young = Engine(hangs=True), replace(HEALTHY, at_ns=NOON - FRESH_NS + MS)
        asyncio.get_running_loop().call_later(0.001, engine.picture.take, young)
        async with asyncio.timeout(PATIENCE_S / 2):
            await engine.picture.refresh()
        return engine.told_ns

    assert NOON - FRESH_NS + MS == asyncio.run(scenario())


def test_of_an_engine_that_hangs_the_last_status_is_shown(monkeypatch):
    """It tells its age. The next who looks asks again."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.02)

    async def scenario():
        engine = Engine(hangs=True)
        engine.tell()
        engine.now += 10 * SECOND
        await engine.picture.refresh()
        shown_ns, engine.hangs = engine.told_ns, False
        await engine.picture.refresh()
        return shown_ns, engine.told_ns, engine.asked

    assert (NOON, NOON + 10 * SECOND, 2) == asyncio.run(scenario())


def test_the_engine_goes_on_for_longer_than_the_agent_waits_with_news():
    """A fault that is over is told to other nodes no sooner than that after it was told, at the next status."""
    assert STATUS_TAIL_NS >= HURRY_GAP_NS + SECOND
