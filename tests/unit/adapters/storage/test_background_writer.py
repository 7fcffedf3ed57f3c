"""Files are written beside the loop, one after the other, the latest content last."""

from __future__ import annotations

import asyncio
import threading

import pytest

from meshwatchd.adapters.storage.background_writer import BackgroundWriter

pytestmark = pytest.mark.timeout(20)


def test_the_loop_goes_on_while_the_disk_hangs_and_the_latest_content_is_written():
    """What was overtaken meanwhile is not worth the disk's time; the end waits for all of it."""
    disk = threading.Event()
    written: list[str] = []
    problems: list[str] = []

    def save(content: str) -> str:
        assert disk.wait(10)
        written.append(content)
        return f"no room for {content}"

    async def scenario() -> None:
        writer = BackgroundWriter(save, problems.append)
        for content in ("first", "second", "third"):
            writer.keep(content)
            await asyncio.sleep(0)
        assert [] == written
        asyncio.get_running_loop().call_soon(disk.set)
        await writer.close()

    asyncio.run(scenario())

    assert ["first", "third"] == written
    assert ["no room for first", "no room for third"] == problems


def test_nothing_to_write_is_closed_at_once():
    """Most agents never save a state."""
    asyncio.run(BackgroundWriter(lambda _: "", lambda _: None).close())
