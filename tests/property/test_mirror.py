"""However dumps and changes are interleaved, a mirror that has heard everything shows what the kernel has."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from meshwatchd.adapters.netlink import compact, message, objects
from meshwatchd.adapters.netlink.message import Message
from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.adapters.netlink.monitor import OVERRUN, Overrun
from meshwatchd.model.settings import SECOND, KernelSettings, MeshSettings
from tests.support.fake_rtnl import FakeRoute, FakeRtnl, fdb_body, neighbour_body

INDICES = st.integers(2, 4)
PREFIXES = st.sampled_from([f"9.0.{number}.0/24" for number in range(5)])
ROUTES = st.builds(FakeRoute, dst=PREFIXES, index=INDICES, via=st.sampled_from(["", "9.9.9.9"]))
ENTRIES = st.tuples(INDICES, st.integers(1, 6))
MODES = st.sampled_from(["add", "replace", "append", "prepend"])


def mac(number: int) -> bytes:
    """A unicast MAC address."""
    return bytes((2, 0, 0, 0, 0, number))


def change(kernel: FakeRtnl, dice: random.Random) -> None:
    """One change of a random kind, for what happens while nobody looks."""
    index, number = dice.randint(2, 4), dice.randint(1, 6)
    route = FakeRoute(dst=f"9.0.{number % 5}.0/24", index=index)
    choice = dice.randrange(6)
    if choice == 0:
        set_device(kernel, index, is_up=bool(dice.randrange(2)))
    elif choice == 1 and index in kernel.links:
        kernel.delete_link(index)
    elif choice == 2 and route in kernel.routes:
        kernel.delete_route(route)
    elif choice in {3, 4}:
        toggle_neighbour(kernel, index, number)
    elif is_usable(kernel, index):
        kernel.put_route(route, dice.choice(["add", "replace", "append", "prepend"]))


def is_usable(kernel: FakeRtnl, index: int) -> bool:
    """Whether routes into a device are accepted."""
    return index in kernel.links and bool(kernel.links[index][8] & 1)


def set_device(kernel: FakeRtnl, index: int, *, is_up: bool) -> None:
    """Make a device, or change it."""
    kernel.put_link(index, f"eth{index}", is_up=is_up)


def toggle_neighbour(kernel: FakeRtnl, index: int, number: int) -> None:
    """Add a neighbour and an FDB entry, or delete both."""
    if index not in kernel.links:
        return
    neighbour, entry = neighbour_body(index, f"9.0.0.{number}", mac(number)), fdb_body(index, mac(number), "8.8.8.8")
    do, kind = (kernel.put, message.RTM_NEWNEIGH), message.RTM_DELNEIGH
    if neighbour in kernel.neighbours:
        kernel.delete(kind, kernel.neighbours, neighbour)
        kernel.delete(kind, kernel.fdb, entry)
    else:
        do[0](do[1], kernel.neighbours, neighbour)
        do[0](do[1], kernel.fdb, entry)


def shown_by(kernel: FakeRtnl) -> dict[str, dict[bytes, tuple[bytes, ...]]]:
    """The kernel's tables in compact form."""
    routes: dict[bytes, tuple[bytes, ...]] = {}
    for route in kernel.routes:
        key, values = compact.pack_route(route.body()) or (b"", ())
        routes[key] = (*routes.get(key, ()), *values)
    return {
        "links": dict(filter(None, map(objects.pack_link, kernel.links.values()))),
        "routes": routes,
        "neighbours": dict(filter(None, map(compact.pack_neighbour, kernel.neighbours))),
        "fdb": dict(filter(None, map(compact.pack_fdb, kernel.fdb))),
    }


class Told:
    """The notifications that wait, as a Monitor hands them over."""

    def __init__(self, kernel: FakeRtnl) -> None:
        self.kernel = kernel

    def read(self, take: Callable[[Message | Overrun], None]) -> bool:
        """All of them."""
        while self.kernel.told:
            take(self.kernel.told.popleft())
        return False

    def fileno(self) -> int:
        """None: nobody waits for it."""
        return -1

    def close(self) -> None:
        """Nothing to end."""


class Interleavings(RuleBasedStateMachine):
    """Changes, late notifications, overruns and dumps with changes in their middle, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = FakeRtnl()
        self.now = 0

        async def judge(_link: object) -> bool:
            return True

        self.mirror = Mirror(self.kernel, KernelSettings(), MeshSettings(), judge, clock=lambda: self.now)
        self.mirror._monitor = Told(self.kernel)

    @initialize(count=st.integers(0, 3))
    def begin(self, count: int) -> None:
        """Some devices."""
        for index in range(2, 2 + count):
            set_device(self.kernel, index, is_up=True)
        self.snapshot(random.Random(count), 0, 0)

    @rule(index=INDICES, is_up=st.booleans())
    def device(self, index: int, is_up: bool) -> None:
        """Make a device, or bring it up or down."""
        set_device(self.kernel, index, is_up=is_up)

    @rule(index=INDICES)
    def delete_device(self, index: int) -> None:
        """Delete a device; its index will be used again."""
        if index in self.kernel.links:
            self.kernel.delete_link(index)

    @rule(route=ROUTES, mode=MODES)
    def put_route(self, route: FakeRoute, mode: str) -> None:
        """Add a route in one of the four ways."""
        if is_usable(self.kernel, route.index):
            self.kernel.put_route(route, mode)

    @rule(choice=st.integers(0, 99))
    def delete_route(self, choice: int) -> None:
        """Delete one of the routes."""
        if self.kernel.routes:
            self.kernel.delete_route(self.kernel.routes[choice % len(self.kernel.routes)])

    @rule(entry=ENTRIES)
    def neighbour(self, entry: tuple[int, int]) -> None:
        """Add or delete a neighbour and an FDB entry."""
        toggle_neighbour(self.kernel, *entry)

    @rule(count=st.integers(1, 9))
    def hear(self, count: int) -> None:
        """Take in some notifications."""
        for _ in range(min(count, len(self.kernel.told))):
            self.mirror.take(self.kernel.told.popleft())

    @rule()
    def overrun(self) -> None:
        """Lose all notifications that wait."""
        if self.kernel.told:
            self.kernel.told.clear()
            self.mirror.take(OVERRUN)

    @rule(seed=st.integers(0, 2**32), changes=st.integers(0, 6), heard=st.integers(0, 6))
    def look(self, seed: int, changes: int, heard: int) -> None:
        """Ask for a snapshot, everything anew or not."""
        self.snapshot(random.Random(seed), changes, heard)

    def snapshot(self, dice: random.Random, changes: int, heard: int) -> None:
        """Ask for a snapshot while changes happen, of which some are heard during the dumps."""
        for _ in range(changes):
            self.kernel.meanwhile.append(lambda: change(self.kernel, dice))
        for _ in range(heard):
            self.kernel.meanwhile.append(lambda: self.hear(3))
        dice.shuffle(self.kernel.meanwhile)
        asyncio.run(self.mirror.snapshot())
        self.kernel.meanwhile.clear()

    @invariant()
    def shows_the_kernel_when_all_is_heard(self) -> None:
        """After the last notification, and one more look where there is doubt."""
        if self.kernel.told or not self.mirror.is_in_sync:
            return
        while self.mirror._is_unsure:
            self.now += SECOND
            asyncio.run(self.mirror.snapshot())
        expected = shown_by(self.kernel)
        assert expected == {name: dict(getattr(self.mirror, name).entries) for name in expected}


Interleavings.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestInterleavings = Interleavings.TestCase


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_a_storm_during_the_first_dump_is_survived(seed: int) -> None:
    """Between any two parts of any dump something happens."""
    machine, dice = Interleavings(), random.Random(seed)
    for index in (2, 3, 4):
        set_device(machine.kernel, index, is_up=True)
    for _ in range(60):
        change(machine.kernel, dice)
    machine.snapshot(dice, 40, 0)
    machine.hear(10_000)
    machine.shows_the_kernel_when_all_is_heard()
