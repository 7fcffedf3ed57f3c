import asyncio

import pytest

from meshwatchd.adapters.netlink import message
from meshwatchd.adapters.netlink.mirror import AUDIT_NS, Mirror
from meshwatchd.adapters.netlink.monitor import OVERRUN, hand_over
from meshwatchd.adapters.netlink.news import Lost
from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.settings import KernelSettings, MeshSettings
from tests.support.fake_rtnl import (
    FakeRoute,
    FakeRtnl,
    address_body,
    fdb_body,
    neighbour_body,
    route_of,
    rule_body,
)

OVERRIDE = Rule(priority=5460, table=7701)
OUT = Route(dst="10.244.1.0/24", table=7701, dev="eth0")
MAC = bytes((2, 0, 0, 0, 0, 1))
ETH0, FLANNEL = 2, 6


def kernel(*devices):
    """A kernel with devices of those names, from index 2 on."""
    made = FakeRtnl()
    for index, name in enumerate(devices, ETH0):
        made.put_link(index, name)
    made.told.clear()
    return made


class Seen:
    """A mirror of a fake kernel under a clock that stands still."""

    def __init__(self, source):
        async def judge(link):
            return True

        self.now = 0
        self.source = source
        self.overruns: list[str] = []
        self.mirror = Mirror(
            source, KernelSettings(), MeshSettings(), judge, clock=lambda: self.now, overrun=self.overruns.append
        )

    def hear(self):
        """Let the mirror take in all notifications; says whether a new snapshot is due."""
        self.mirror.is_dirty.clear()
        while self.source.told:
            self.mirror.take(self.source.told.popleft())
        return self.mirror.is_dirty.is_set()

    def stirs(self):
        """What the mesh's own agent did since the last call."""
        return [self.mirror.stirs.get_nowait() for _ in range(self.mirror.stirs.qsize())]

    def losses(self):
        """What was lost since the last call."""
        return [self.mirror.losses.get_nowait() for _ in range(self.mirror.losses.qsize())]


def run(source, scenario):
    """Run a scenario with a mirror that has seen everything once."""

    async def begin():
        seen = Seen(source)
        await seen.mirror.snapshot()
        return await scenario(seen)

    return asyncio.run(begin())


def test_nothing_is_told_before_everything_has_been_read():
    """A dump that is refused leaves no half picture behind; the next one is a whole one."""

    async def scenario():
        source = kernel("eth0")
        source.rules.append(rule_body(OVERRIDE))
        source.failures.append(KernelError("list devices", 1, "no"))
        seen = Seen(source)
        with pytest.raises(KernelError):
            await seen.mirror.snapshot()
        assert not seen.mirror.is_in_sync
        assert {} == seen.mirror.devices()
        found = await seen.mirror.snapshot()
        return found, seen.mirror.devices()

    found, names = asyncio.run(scenario())

    assert (OVERRIDE,) == found.rules
    assert {ETH0: "eth0"} == names


def test_notifications_keep_devices_and_addresses_up_to_date():
    """After the first dump devices are not listed again."""

    async def scenario(seen):
        seen.source.put_link(9, "kilo0", kind="wireguard")
        seen.source.put(message.RTM_NEWADDR, seen.source.addresses, address_body(9, "10.4.0.1"))
        assert seen.hear()
        up = (await seen.mirror.snapshot()).link("kilo0")
        seen.source.put_link(9, "kilo0", kind="wireguard", is_up=False)
        seen.source.delete(message.RTM_DELADDR, seen.source.addresses, address_body(9, "10.4.0.1"))
        assert seen.hear()
        return up, (await seen.mirror.snapshot()).link("kilo0")

    up, down = run(kernel("eth0"), scenario)

    assert (True, ("10.4.0.1",)) == (up.is_up, up.addresses)
    assert (False, ()) == (down.is_up, down.addresses)


def test_what_happens_during_a_dump_is_applied_after_it():
    """A route that was deleted behind the dump's back, and one added in front of it."""
    source = kernel("eth0")
    routes = [FakeRoute(dst=f"9.0.{number}.0/24", index=ETH0) for number in range(6)]
    for route in routes:
        source.put_route(route)
    source.told.clear()

    async def scenario():
        seen = Seen(source)

        def disturb():
            source.delete_route(routes[0])
            source.put_route(FakeRoute(dst="9.0.0.128/25", index=ETH0))
            seen.hear()

        source.meanwhile.append(disturb)
        await seen.mirror.snapshot()
        return seen.mirror.routes.entries

    entries = asyncio.run(scenario())
    again = run(source, _entries)
    assert again == entries
    assert 6 == len(entries)


async def _entries(seen):
    return dict(seen.mirror.routes.entries)


def test_routes_vanish_with_their_device_though_nobody_says_so():
    """IPv4 sends no RTM_DELROUTE when a device goes down; ours are told as lost at that moment."""
    source = kernel("eth0", "eth1")
    source.put_route(route_of(OUT, ETH0))
    source.put_route(FakeRoute(dst="9.0.0.0/8", index=ETH0 + 1))
    source.put_route(FakeRoute(dst="10.2.0.1/32", index=ETH0, table=255, kind=2))

    async def scenario(seen):
        source.put_link(ETH0, "eth0", is_up=False)
        assert seen.hear()
        return seen.losses(), dict(seen.mirror.routes.entries)

    lost, left = run(source, scenario)

    assert [Lost(text=f"route {OUT.render()}", route=OUT)] == lost
    assert run(source, _entries) == left
    assert 2 == len(left)


def test_an_index_that_is_used_again_brings_nothing_along():
    """A device is deleted and another one gets its index: addresses, routes and neighbours were the old one's."""
    source = kernel("eth0")
    source.put_link(FLANNEL, "flannel.1", kind="vxlan")
    source.addresses.append(address_body(FLANNEL, "10.42.0.0"))
    source.put_route(FakeRoute(dst="10.42.1.0/24", index=FLANNEL, via="10.42.1.0"))
    source.put_route(FakeRoute(dst="fd42::/64", index=FLANNEL))
    source.neighbours.append(neighbour_body(FLANNEL, "10.42.1.0", MAC))
    source.fdb.append(fdb_body(FLANNEL, MAC, "192.168.50.11"))
    source.told.clear()

    async def scenario(seen):
        before = await seen.mirror.snapshot()
        source.delete_link(FLANNEL)
        source.put_link(FLANNEL, "flannel.1", kind="vxlan")
        source.routes = []
        seen.hear()
        return before, await seen.mirror.snapshot()

    before, after = run(source, scenario)

    counts = [(len(each.device_routes), len(each.neighbours), len(each.forwarding)) for each in (before, after)]
    assert [(2, 1, 1), (0, 0, 0)] == counts
    assert (("10.42.0.0",), ()) == (before.link("flannel.1").addresses, after.link("flannel.1").addresses)


def test_an_overrun_keeps_what_is_ours_and_tells_what_is_gone():
    """What was missed is not known; the next snapshot is a complete one, and removals are found by comparison."""
    source = kernel("eth0", "eth1", "mw0")
    source.put_route(route_of(OUT, ETH0))
    source.rules.append(rule_body(OVERRIDE))
    other = Rule(priority=5400, table=7799, iif="mw0")
    source.rules.append(rule_body(other))

    async def scenario(seen):
        source.told.clear()
        source.delete_link(4)
        source.delete_route(route_of(OUT, ETH0))
        source.rules.remove(rule_body(OVERRIDE))
        source.told.clear()
        seen.mirror.take(OVERRUN)
        assert seen.mirror.is_dirty.is_set()
        kept = seen.mirror.devices()
        found = await seen.mirror.snapshot()
        return kept, found, {each.text for each in seen.losses()}

    kept, found, lost = run(source, scenario)

    assert "mw0" in kept.values()
    assert (other,) == found.rules
    assert {"device mw0", f"route {OUT.render()}", f"rule {OVERRIDE.render()}"} == lost


def test_what_is_malformed_is_told_once_and_what_was_known_stays():
    """A notification first, then the dump that was to make up for it; the next dump is a good one."""
    source = kernel("eth0")
    source.rules.append(rule_body(OVERRIDE))

    async def scenario(seen):
        for _ in range(3):
            hand_over(message.encode(message.RTM_NEWROUTE, 0, 0, b"short"), seen.mirror.take)
        source.failures.append(DecodeError("netlink", "cut short"))
        with pytest.raises(DecodeError, match="netlink: cut short"):
            await seen.mirror.snapshot()
        kept = seen.mirror.devices()
        return kept, await seen.mirror.snapshot(), seen.overruns

    kept, found, overruns = run(source, scenario)

    assert {ETH0: "eth0"} == kept
    assert (OVERRIDE,) == found.rules
    assert ["netlink route"] == [each.partition(":")[0] for each in overruns]


def test_overruns_without_end_are_an_error():
    """Then nothing is known, and the caller waits before it asks again."""

    async def scenario(seen):
        async def overrun(kind, header, what, pack):
            seen.mirror.take(OVERRUN)
            return []

        seen.mirror._source = type("Source", (), {"dump": staticmethod(overrun)})()
        seen.mirror.take(OVERRUN)
        with pytest.raises(KernelError):
            await seen.mirror.snapshot()
        return seen.mirror.is_in_sync

    assert not run(kernel("eth0"), scenario)


def test_after_a_removed_address_routes_are_read_again_once():
    """The kernel drops routes with that source without a word; to look a second time has to wait."""
    source = kernel("eth0")
    source.addresses.append(address_body(ETH0, "10.2.0.1"))
    source.put_route(FakeRoute(dst="9.0.0.0/8", index=ETH0, src="10.2.0.1"))

    async def scenario(seen):
        seen.now = 1
        source.routes.clear()
        source.delete(message.RTM_DELADDR, source.addresses, address_body(ETH0, "10.2.0.1"))
        source.told.appendleft(source.told.pop())
        assert seen.hear()
        kept = len(seen.mirror.routes.entries)
        assert 0 == seen.mirror.next_reading_in_ns()
        await seen.mirror.snapshot()
        again = len(seen.mirror.routes.entries)
        seen.mirror._is_unsure = True
        return kept, again, seen.mirror.next_reading_in_ns()

    kept, again, wait_ns = run(source, scenario)

    assert (1, 0) == (kept, again)
    assert 0 < wait_ns < AUDIT_NS


def test_a_nexthop_object_takes_its_routes_along():
    """`ip nexthop del`: the kernel tells of the object alone."""
    source = kernel("eth0")
    source.put_route(FakeRoute(dst="9.0.0.0/8", index=ETH0))

    async def scenario(seen):
        seen.now = 1
        source.routes.clear()
        source.put(message.RTM_DELNEXTHOP, [], bytes(8))
        assert seen.hear(), "whoever waits for changes has to be woken"
        assert 0 == seen.mirror.next_reading_in_ns()
        await seen.mirror.snapshot()
        return len(seen.mirror.routes.entries)

    assert 0 == run(source, scenario)


def test_a_doubt_outlives_a_dump_that_fails():
    """Else what the kernel did without a word would be seen minutes later."""
    source = kernel("eth0")

    async def scenario(seen):
        seen.mirror._is_unsure = True
        source.failures.append(KernelError("list routes", 1, "no"))
        with pytest.raises(KernelError):
            await seen.mirror.snapshot()
        return seen.mirror.next_reading_in_ns()

    assert 0 == run(source, scenario)


def test_everything_is_read_again_now_and_then():
    """For what the kernel may do without a word and nobody has thought of."""
    source = kernel("eth0")

    async def scenario(seen):
        source.put_link(9, "kilo0", kind="wireguard")
        source.told.clear()
        early = await seen.mirror.snapshot()
        seen.now = AUDIT_NS
        assert 0 == seen.mirror.next_reading_in_ns()
        return early.link("kilo0"), (await seen.mirror.snapshot()).link("kilo0")

    before, after = run(source, scenario)

    assert before is None
    assert after is not None
