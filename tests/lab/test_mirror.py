"""The mirror against the real kernel: whatever happens, it ends up equal to a dump made by another one."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.adapters.netlink.monitor import Monitor
from meshwatchd.model.plan import Route
from meshwatchd.model.settings import KernelSettings, MeshSettings
from tests.support.throwaway import nodes

pytestmark = pytest.mark.lab

DEADLINE_S = 30
OUT = Route(dst="10.244.1.0/24", table=7701, dev="eth0")
ROUTES, NEIGHBOURS = 11_000, 10_000
SMALL_BUFFER_BYTES = 16 * 1024
TABLES = ("links", "addresses", "routes", "neighbours", "fdb")
QUIET_IPV6 = "net.ipv6.conf.all.disable_ipv6"
"""Without IPv6 the kernel adds nothing of its own accord while a test compares."""


@pytest.fixture
def node(tmp_path):
    """One node with a VXLAN device like flannel's."""
    with nodes(tmp_path, "b2") as (only,):
        only.run("sysctl", "-qw", f"{QUIET_IPV6}=1")
        only.ip("link add flannel.1 type vxlan id 1 dstport 8472 nolearning")
        only.ip("addr add 10.42.0.0/32 dev flannel.1")
        only.ip("link set flannel.1 up")
        yield only


async def _judge(_link):
    return True


@asynccontextmanager
async def watching(monitor=None):
    """A mirror that takes in what happens."""
    dumper = Dumper()
    mirror = Mirror(dumper, KernelSettings(), MeshSettings(), _judge)
    mirror.open(monitor)
    try:
        await mirror.snapshot()
        yield mirror
    finally:
        mirror.close()
        dumper.close()


async def dumped():
    """The kernel's tables as somebody else reads them at this moment."""
    dumper = Dumper()
    try:
        mirror = Mirror(dumper, KernelSettings(), MeshSettings(), _judge)
        await mirror.snapshot()
        return contents(mirror)
    finally:
        dumper.close()


def contents(mirror):
    """All that a mirror knows."""
    return {name: dict(getattr(mirror, name).entries) for name in TABLES} | {"rules": set(mirror.rules)}


async def expect_equal(mirror):
    """Wait until the mirror has heard everything, and is the kernel."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            await mirror.snapshot()
            if contents(mirror) == await dumped():
                return
            await asyncio.sleep(0.02)


async def batch(node, lines, tool="ip"):
    """Many commands at once, without stopping the mirror."""
    path = node.state_dir / f"{tool}.batch"
    path.write_text("\n".join(lines) + "\n")
    await asyncio.to_thread(node.from_within, tool, "-batch", str(path))


def overlay_routes(count):
    """Routes to that many pod networks behind the overlay."""
    return [f"10.{100 + i // 256}.{i % 256}.0/24 via 10.{100 + i // 256}.{i % 256}.0" for i in range(count)]


def overlay_entries(count):
    """Neighbours and FDB entries of that many nodes."""
    macs = [f"02:00:00:00:{i // 256:02x}:{i % 256:02x}" for i in range(count)]
    places = [f"{i // 256}.{i % 256}" for i in range(count)]
    neighbours = [
        f"neigh add 10.{100 + i // 256}.{i % 256}.0 lladdr {mac} dev flannel.1 nud permanent"
        for i, mac in enumerate(macs)
    ]
    entries = [f"fdb add {mac} dst 192.168.{place} dev flannel.1" for mac, place in zip(macs, places, strict=True)]
    return neighbours, entries


def test_a_large_mesh_and_a_burst_of_changes_end_in_an_equal_mirror(node):
    """20 000 changes are heard while 31 000 objects are known; the engine is told of a bounded number."""

    async def scenario():
        neighbours, entries = overlay_entries(NEIGHBOURS)
        await batch(node, [f"route add {route} dev flannel.1 onlink" for route in overlay_routes(ROUTES)])
        await batch(node, neighbours)
        await batch(node, entries, "bridge")
        async with watching() as mirror:
            first = await mirror.snapshot()
            sizes = {name: len(getattr(mirror, name).entries) for name in TABLES}
            changes = [f"route replace {route} dev flannel.1 onlink src 10.9.0.1" for route in overlay_routes(10_000)]
            changes += [f"route del {route} dev flannel.1" for route in overlay_routes(10_000)]
            await batch(node, changes)
            await expect_equal(mirror)
            return first, sizes, len(mirror.routes.entries)

    first, sizes, left = node.do(scenario)

    assert first.is_bounded
    assert (NEIGHBOURS, NEIGHBOURS) == (sizes["neighbours"], sizes["fdb"])
    assert sizes["routes"] >= ROUTES
    assert sizes["routes"] - 10_000 == left


def test_an_overrun_ends_in_an_equal_mirror_and_our_losses_are_told(node):
    """A buffer that is much too small: the kernel says ENOBUFS, and what is gone of ours is found by comparison."""

    async def scenario():
        node.from_within("ip", "route", "add", OUT.dst, "dev", "eth0", "table", "7701", "proto", "117")
        async with watching(Monitor(SMALL_BUFFER_BYTES)) as mirror:
            kept = await mirror.snapshot()
            # In this thread, so that nobody reads meanwhile.
            (node.state_dir / "flood").write_text("".join(f"route add 9.0.{i}.0/24 dev eth0\n" for i in range(250)))
            node.from_within("ip", "-batch", str(node.state_dir / "flood"))
            node.from_within("ip", "route", "del", OUT.dst, "table", "7701")
            async with asyncio.timeout(DEADLINE_S):
                while mirror.is_in_sync:
                    await mirror.is_dirty.wait()
                    await asyncio.sleep(0)
            await expect_equal(mirror)
            lost = [mirror.losses.get_nowait().text for _ in range(mirror.losses.qsize())]
            return kept.routes, lost

    assert ((OUT,), [f"route {OUT.render()}"]) == node.do(scenario)


def test_routes_of_a_device_that_goes_down_are_gone_at_once(node):
    """The kernel says nothing of them; ours are told as lost, the local address stays."""

    async def scenario():
        node.from_within("ip", "route", "add", OUT.dst, "dev", "eth0", "table", "7701", "proto", "117")
        node.from_within("ip", "route", "add", "9.0.0.0/8", "via", "10.9.0.7", "dev", "eth0")
        async with watching() as mirror:
            node.from_within("ip", "link", "set", "eth0", "down")
            lost = await asyncio.wait_for(mirror.losses.get(), DEADLINE_S)
            at_once = dict(mirror.routes.entries)
            await expect_equal(mirror)
            return lost.text, at_once, dict(mirror.routes.entries)

    text, at_once, finally_ = node.do(scenario)

    assert f"route {OUT.render()}" == text
    assert finally_ == at_once


def test_a_device_that_is_made_anew_brings_nothing_along(node):
    """Deleted, made again under its index and another name, renamed: names, neighbours and FDB follow."""

    async def scenario():
        neighbours, entries = overlay_entries(50)
        await batch(node, neighbours)
        await batch(node, entries, "bridge")
        async with watching() as mirror:
            index = socket.if_nametoindex("flannel.1")
            before = await mirror.snapshot()
            commands = (
                "link del flannel.1",
                f"link add other index {index} type vxlan id 1 dstport 8472 nolearning",
                "link set other up",
                "link set other down",
                "link set other name flannel.1",
                "link set flannel.1 up",
            )
            for command in commands:
                node.from_within("ip", *command.split())
            await expect_equal(mirror)
            return before, await mirror.snapshot(), mirror.devices()[index]

    before, after, name = node.do(scenario)

    assert (50, 50, 0, 0) == tuple(
        len(each) for each in (before.neighbours, before.forwarding, after.neighbours, after.forwarding)
    )
    assert ("flannel.1", ()) == (name, after.link("flannel.1").addresses)


def test_alternatives_and_several_next_hops_are_kept_in_the_kernels_order(node):
    """Appended, prepended, replaced; a route of several hops stays until the last one is gone."""

    async def scenario():
        async with watching() as mirror:
            for command in (
                "add 51.0.0.0/8 dev eth0",
                "append 51.0.0.0/8 dev lo",
                "prepend 51.0.0.0/8 via 10.9.0.9",
                "replace 51.0.0.0/8 via 10.9.0.8",
                "add 50.0.0.0/8 nexthop via 10.9.0.2 dev eth0 nexthop dev flannel.1",
            ):
                node.from_within("ip", "route", *command.split())
            await expect_equal(mirror)
            node.from_within("ip", "link", "set", "flannel.1", "down")
            await expect_equal(mirror)
            node.from_within("ip", "link", "set", "eth0", "down")
            await expect_equal(mirror)
            return len(mirror.routes.entries)

    assert node.do(scenario) > 0
