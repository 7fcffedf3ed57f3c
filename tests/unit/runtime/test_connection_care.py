"""Once for each pair and each time its traffic goes by other relays, and never where nothing may be changed."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.settings import DaemonSettings, Mode, Settings
from meshwatchd.runtime.connection_care import ConnectionCare
from tests.support.example_status import HEALTHY
from tests.support.lab_mesh import declared_mesh


class Lines:
    """A log."""

    def __init__(self):
        self.said = []

    def info(self, event, **fields):
        """Keep a line."""
        self.said.append((event, fields))

    debug = warning = error = info


class Kernel:
    """Tracks some connections."""

    def __init__(self, count=0):
        self.count, self.asked = count, []

    def relax(self, near, far):
        """Keep the question."""
        self.asked.append((near, far))
        return self.count


def _status(*, active):
    (pair,) = HEALTHY.pairs
    paths = tuple(replace(each, is_local_relay=each.rank == 0, is_active=each.rank == active) for each in pair.paths)
    return replace(HEALTHY, pairs=(replace(pair, paths=paths),))


def _care(relax, *, mode=Mode.ENFORCE, is_tracking=True):
    log = Lines()
    settings = Settings(daemon=DaemonSettings(node="b1", mode=mode))
    return ConnectionCare(settings, declared_mesh, log, relax=relax, is_tracking=lambda: is_tracking, settled_s=0), log


def _play(care, *actives):
    """Statuses one after the other, each with time to act."""

    async def story():
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(care.watch())
            for active in actives:
                care.note(_status(active=active))
                await asyncio.sleep(0.04)
            watching.cancel()

    asyncio.run(story())


def test_connections_are_relaxed_when_traffic_leaves_and_not_again_while_it_is_away():
    """Five statuses, two moves away."""
    kernel = Kernel(3)
    care, log = _care(kernel.relax)

    _play(care, 0, 1, 1, 0, 1)

    assert 2 == len(kernel.asked)
    assert "10.244.6.0/24" in kernel.asked[0][0]
    assert "10.244.3.0/24" in kernel.asked[0][1]
    assert [("connections.relaxed", {"location": "onprem", "connections": 3})] * 2 == log.said


def test_a_daemon_that_starts_while_traffic_is_away_looks_once():
    """It does not know what its kernel has seen."""
    kernel = Kernel()
    care, _ = _care(kernel.relax)

    _play(care, 1, 1)

    assert 1 == len(kernel.asked)


def test_the_kernel_lists_its_connections_once_for_all_locations():
    """A relay of many pairs that starts has all of them to look after, and a table of a hundred thousand entries."""
    kernel = Kernel(1)
    care, log = _care(kernel.relax)
    status = _status(active=1)
    (pair,) = status.pairs

    async def story():
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(care.watch())
            care.note(replace(status, pairs=(pair, replace(pair, pair=1, remote_location="edge"))))
            await asyncio.sleep(0.04)
            watching.cancel()

    asyncio.run(story())

    assert 1 == len(kernel.asked)
    assert [("connections.relaxed", {"location": "edge, onprem", "connections": 1})] == log.said


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_nothing_is_changed_where_nothing_may_be(mode):
    """The mode says so."""
    kernel = Kernel()
    care, _ = _care(kernel.relax, mode=mode)

    _play(care, 0, 1)

    assert [] == kernel.asked


def test_nothing_is_asked_where_nothing_is_tracked():
    """So that no kernel module is loaded for it."""
    kernel = Kernel()
    care, _ = _care(kernel.relax, is_tracking=False)

    _play(care, 0, 1)

    assert [] == kernel.asked


@pytest.mark.parametrize(
    "error", [KernelError("conntrack", 22, "Invalid argument"), DecodeError("netlink message", "length 3 at byte 0")]
)
def test_a_kernel_that_refuses_is_reported_with_the_remedy(error):
    """And watching goes on."""

    def refuse(_near, _far):
        raise error

    care, log = _care(refuse)

    _play(care, 1)

    ((event, fields),) = log.said
    assert "connections.unrelaxed" == event
    assert "nf_conntrack_tcp_be_liberal" in fields["remedy"]
