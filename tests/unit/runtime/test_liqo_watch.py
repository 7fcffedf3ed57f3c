"""Where there is a device of Liqo's, gateways are asked, and what was good is kept."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from meshwatchd.core.audit.liqo_legs import SETTLED, SILENT
from meshwatchd.core.audit.view import View
from meshwatchd.model.errors import KernelError
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.settings import DaemonSettings, LiqoSettings, MeshSettings, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.runtime.liqo_watch import STATE_FILE, LiqoWatch
from tests.support.liqo_node import BEYOND, GATEWAY, POD, snapshot, with_link
from tests.support.slow_disk import SlowDisk

OWN = "10.244.2.1"


class World:
    """Node a2 of a daemon that is started and asked."""

    def __init__(self, folder):
        self.settings = Settings(
            daemon=DaemonSettings(node="a2", state_dir=str(folder)), liqo=LiqoSettings(beyond=BEYOND)
        )
        self.answering: set[str] = {GATEWAY, POD}
        self.asked: list[tuple[tuple[str, str], ...]] = []
        self.warned: list[str] = []
        self.refusal: KernelError | None = None
        self.told = 0
        self.waked = lambda: None

    async def ask(self, asked):
        """As the network answers."""
        self.asked.append(tuple(asked))
        if self.refusal is not None:
            raise self.refusal
        return frozenset(address for address, _ in asked if address in self.answering)

    def warning(self, event, **fields):
        """As a logger."""
        self.warned.append(event)

    def start(self):
        """Another daemon on the same node."""
        return LiqoWatch(self.settings, self, asker=self.ask, rest=self._rest)

    def watch(self, seen=None, rounds=0, watch=None):
        """A daemon that sees a kernel and goes some rounds."""
        watch = watch or self.start()
        list(watch.findings(view(seen or snapshot()), 0))

        async def go():
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await watch.watch(self._tell)
            await watch.close()

        self.left = rounds
        asyncio.run(go())
        return watch

    async def _rest(self, _period_s):
        """Rounds follow each other at once, until there have been enough."""
        self.left -= 1
        await asyncio.sleep(0 if self.left > 0 else 60)

    def _tell(self):
        self.told += 1
        self.waked()


def view(seen):
    """What an audit is given."""
    return View(snapshot=seen, mesh=MeshSettings(), node="a2", hellos={}, good=None)


@pytest.fixture
def world(tmp_path):
    """One node."""
    return World(tmp_path)


def codes(watch, seen=None):
    """What is wrong."""
    return [each.code for each in watch.findings(view(seen or snapshot()), 0)]


def test_a_node_without_liqo_asks_nobody(world):
    """Most have none."""
    world.watch(Snapshot(), rounds=3)

    assert [] == world.asked
    assert not world.told


def test_gateway_pod_and_what_is_behind_are_asked_and_their_silence_is_told(world):
    """The audit is woken when it may have something new, and not in each round."""
    watch = world.watch(rounds=SETTLED)
    assert ((GATEWAY, ""), (POD, ""), *((each, OWN) for each in BEYOND)) == world.asked[-1]
    assert 1 == world.told
    assert [] == codes(watch)

    world.answering = {POD}
    world.watch(rounds=SILENT, watch=watch)
    assert [FaultCode.LIQO_GATEWAY_LEG] == codes(watch)
    assert 2 == world.told


def test_what_was_good_is_known_to_the_next_daemon(world, tmp_path):
    """It starts after the address was lost."""
    world.watch(rounds=SETTLED)
    lost = with_link(snapshot(device_routes=()), addresses=(), prefix_lengths=())
    assert [FaultCode.LIQO_FABRIC_ADDRESS_MISSING] == codes(world.start(), lost)

    other = (tmp_path / STATE_FILE).read_text().replace('"boot":"', '"boot":"another')
    (tmp_path / STATE_FILE).write_text(other)
    assert [] == codes(world.start(), lost)
    assert [] == world.warned


def test_a_slow_disk_keeps_nobody_waiting(world, tmp_path, monkeypatch):
    """An agent that answers no heartbeat is killed."""
    disk = SlowDisk(monkeypatch)
    world.waked = disk.go_on
    world.watch(rounds=SETTLED)

    assert [True] == disk.waits
    assert (tmp_path / STATE_FILE).exists()


def test_a_full_disk_costs_the_memory_and_nothing_else(world, tmp_path):
    """It is told."""
    (tmp_path / f"{STATE_FILE.removesuffix('.json')}.new").mkdir()
    watch = world.watch(rounds=SETTLED)

    assert ["liqo.unsaved"] == world.warned
    assert [] == codes(watch)


def test_a_file_that_makes_no_sense_is_told_and_written_anew(world, tmp_path):
    """A convenience, and no reason to fail."""
    (tmp_path / STATE_FILE).write_text("{")
    watch = world.watch(rounds=SETTLED)

    assert ["liqo.unread"] == world.warned
    assert [] == codes(watch)
    assert (tmp_path / STATE_FILE).exists()


def test_where_pings_are_forbidden_devices_are_looked_at_alone(world):
    """That is told once."""
    world.refusal = KernelError("send an ICMP echo", 1, "not allowed")
    world.watch(rounds=3)

    assert ["liqo.unasked"] == world.warned
    assert 3 == len(world.asked)
