import asyncio

import msgspec
import pytest

from meshwatchd.adapters.netlink.news import Lost
from meshwatchd.model.errors import KernelError
from meshwatchd.model.plan import Provision, Route, Rule, StandbyLink
from meshwatchd.model.settings import MINUTE, KernelSettings
from meshwatchd.runtime.provisioning import MAX_RESTORES, RestoreBudget, Standing
from tests.support.fake_kernel import FakeKernel

LINK = StandbyLink(
    device="mw0",
    peer="a1",
    listen_port=51830,
    mtu_bytes=1420,
    peer_public_key="",
    endpoint=None,
    allowed_ips=(),
    keepalive_s=10,
)
OUT = Route(dst="10.244.1.0/24", table=7701, dev="mw0")
DELIVERY = Rule(priority=5400, table=7799, iif="mw0")
OVERRIDE = Rule(priority=5460, table=7701)
WANTED = Provision(links=(LINK,), routes=(OUT,), rules=(DELIVERY,))


class FakeDevices:
    """Devices that are made in a fake kernel."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.made = []
        self.configured = []
        self.refusal = None

    async def ensure(self, wanted):
        """Make a device, or refuse."""
        if self.refusal is not None:
            raise self.refusal
        if await self.kernel.find_link(wanted.device) is None:
            await self.kernel.add_wireguard(wanted.device)
            self.made.append(wanted.device)
        link = await self.kernel.find_link(wanted.device)
        await self.kernel.bring_up(link, wanted.mtu_bytes)
        self.configured.append(wanted)

    async def remove(self, device):
        """Remove a device."""
        self.made.remove(device)
        await self.kernel.delete_link(await self.kernel.find_link(device))

    def recorded(self):
        """What was made."""
        return tuple(self.made)


class World:
    """A node with everything in place, and a clock that stands still."""

    def __init__(self):
        self.kernel = FakeKernel("eth0")
        self.devices = FakeDevices(self.kernel)
        self.now_ns = 0
        self.removed: list[tuple[int, tuple[str, ...]]] = []
        self.standing = Standing(self.kernel, self.devices, KernelSettings(), lambda: self.now_ns, log=self)

    def warning(self, event, **fields):
        """As a logger: what is told to go, and how many rules there are at that moment."""
        assert "provision.removes" == event
        assert "kernel.protocol" in fields["reason"]
        self.removed.append((len(self.kernel.held_rules), fields["what"]))

    def ensure(self, wanted=WANTED):
        """Ask for a Provision."""
        return asyncio.run(self.standing.ensure(wanted))

    def restore(self):
        """Put back what is missing."""
        return asyncio.run(self.standing.restore())

    def lose_rule(self):
        """Somebody removes the rule."""
        asyncio.run(self.kernel.delete_rule(DELIVERY))


def test_links_come_before_the_routes_into_them():
    """The order in which the kernel can accept them."""
    world = World()

    assert world.ensure().is_complete
    assert ["add device mw0", f"add route {OUT.render()}", f"add rule {DELIVERY.render()}"] == world.kernel.operations


def test_a_device_that_is_not_wanted_any_more_goes_last():
    """Its routes have gone before."""
    world = World()
    world.ensure()

    assert world.ensure(Provision()).is_complete
    assert "delete device mw0" == world.kernel.operations[-1]


def test_what_nobody_here_asked_for_is_told_before_it_goes():
    """An earlier process may have left it, or another program uses our number: what was there can be read again."""
    world = World()
    stranger, strange_route = Rule(priority=5401, table=7798), Route(dst="10.99.0.0/16", table=7702, dev="eth0")
    asyncio.run(world.kernel.add_rule(stranger))
    asyncio.run(world.kernel.add_route(strange_route, 2))

    assert world.ensure().is_complete
    assert [(1, (f"rule {stranger.render()}", f"route {strange_route.render()}"))] == world.removed
    assert stranger not in [record.rule for record in world.kernel.held_rules]


def test_what_this_process_has_asked_for_goes_without_a_word():
    """The mesh has changed."""
    world = World()
    world.ensure()
    world.ensure(Provision())

    assert [] == world.removed


def test_a_link_that_cannot_be_made_is_reported_with_what_hangs_on_it():
    """The rest is put in place all the same."""
    world = World()
    world.devices.refusal = KernelError("start wireguard-go mw0", 2, "install it")

    outcome = world.ensure()

    assert not outcome.is_complete
    assert "start wireguard-go mw0: install it (errno 2)" == outcome.errors[0]
    assert f"add rule {DELIVERY.render()}" in world.kernel.operations


def test_what_somebody_removed_is_put_back():
    """And nothing is said as long as it works."""
    world = World()
    world.ensure()
    world.lose_rule()

    assert ([f"rule {DELIVERY.render()}"], None) == world.restore()
    assert ([], None) == world.restore()


def test_a_device_that_vanished_is_made_again_with_its_routes():
    """Its process was killed; the kernel dropped the routes without a word."""
    world = World()
    world.ensure()
    world.kernel.present.pop(3)
    world.kernel.held_routes.clear()

    restored, news = world.restore()

    assert ["device mw0", f"route {OUT.render()}"] == restored
    assert news is None


def test_what_could_not_be_finished_is_finished_later():
    """A link failed once: of two rules at one priority the older wins, so one that is not wanted any more has to go."""
    world = World()
    old, new = Rule(priority=5411, goto=5480), Rule(priority=5411, table=7741)
    world.ensure(Provision(rules=(old,)))
    world.devices.refusal = KernelError("make device mw0", 98, "in use")
    wanted = Provision(links=(LINK,), routes=(OUT,), rules=(new,))
    assert not world.ensure(wanted).is_complete
    assert [old, new] == [record.rule for record in world.kernel.held_rules]

    assert ([], None) == world.restore(), "nothing has changed"
    world.devices.refusal = None
    restored, news = world.restore()

    assert [new] == [record.rule for record in world.kernel.held_rules]
    assert news is not None
    assert ([], True) == (restored, news.is_complete)
    assert [] == world.removed, "this process had asked for it"
    assert ([], None) == world.restore()


def test_what_was_never_tried_is_told_as_if_nothing_had_been_told():
    """The kernel did not answer when the engine asked: the complaints of the former mesh are not those of this one."""
    world = World()
    world.devices.refusal = KernelError("start wireguard-go mw0", 2, "install it")
    complaints = world.ensure().errors

    async def unanswered():
        raise KernelError("dump links", 105, "no buffer space")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.kernel, "links", unanswered)
        with pytest.raises(KernelError):
            world.ensure()
    _, news = world.restore()

    assert news is not None
    assert complaints == news.errors


def test_a_link_that_is_up_is_configured_once_more_if_that_failed():
    """Nothing in its flags or its MTU shows that its peer is the former one."""
    world = World()
    world.ensure()
    changed = msgspec.structs.replace(LINK, allowed_ips=("10.9.0.0/16",))
    world.devices.refusal = KernelError("resolve b2.example", 113, "no answer in time")
    world.ensure(msgspec.structs.replace(WANTED, links=(changed,)))
    world.devices.refusal = None

    _, news = world.restore()

    assert changed == world.devices.configured[-1]
    assert news is not None
    assert news.is_complete


def test_what_cannot_be_finished_is_tried_in_turn_and_stays_incomplete():
    """As often as an object may be put back; what is lost meanwhile is put back all the same, and it is logged once."""
    world = World()
    stranger = Rule(priority=5401, table=7798)
    asyncio.run(world.kernel.add_rule(stranger))
    world.devices.refusal = KernelError("start wireguard-go mw0", 2, "install it")
    world.ensure()
    for _ in range(MAX_RESTORES):
        assert ([], None) == world.restore()
    world.lose_rule()

    assert ([f"rule {DELIVERY.render()}"], None) == world.restore()
    assert 1 == len(world.removed)
    world.devices.refusal, world.now_ns = None, MINUTE
    _, news = world.restore()
    assert news is not None
    assert news.is_complete
    assert [DELIVERY] == [record.rule for record in world.kernel.held_rules]


def test_a_fight_is_given_up_and_taken_up_again_later():
    """Whoever removes an object again and again does it on purpose."""
    world = World()
    world.ensure()
    for _ in range(MAX_RESTORES):
        world.lose_rule()
        world.restore()
    world.lose_rule()

    restored, news = world.restore()

    assert [] == restored
    assert news is not None
    assert not news.is_complete
    assert "is left alone" in news.errors[0]
    assert ([], None) == world.restore()
    world.now_ns += MINUTE
    restored, news = world.restore()
    assert [f"rule {DELIVERY.render()}"] == restored
    assert news is not None
    assert news.is_complete


def test_waiting_for_a_device_is_no_fight():
    """flannel.1 is gone for a while, and every change of the kernel is a reason to look; then its routes are put."""
    world = World()
    over = Route(dst="10.244.2.0/24", table=7701, dev="eth0")
    world.ensure(Provision(routes=(over,)))
    index = next(number for number, link in world.kernel.present.items() if link.name == "eth0")
    overlay = world.kernel.present.pop(index)
    world.kernel.held_routes.clear()

    restored, news = world.restore()
    assert ([], ("routes into eth0 wait until it is up",)) == (restored, news.errors if news is not None else ())
    for _ in range(2 * MAX_RESTORES):
        assert ([], None) == world.restore()
    world.kernel.present[index] = overlay
    restored, news = world.restore()
    assert [f"route {over.render()}"] == restored
    assert news is not None
    assert news.is_complete


def test_overrides_and_wanted_objects_concern_us_and_nothing_else_does():
    """Whether a lost override was meant to go, only the engine knows."""
    world = World()

    def concerns(**lost):
        return world.standing.concerns(Lost(text="", **lost))

    assert concerns(rule=OVERRIDE)
    assert not concerns(rule=DELIVERY)
    world.ensure()
    assert concerns(rule=DELIVERY)
    assert concerns(route=OUT)
    assert concerns(device="mw0")
    assert not concerns(device="mw1")
    assert not concerns(rule=Rule(priority=5401, table=7799))


def test_nothing_is_restored_before_anything_was_asked_for():
    """Observers change nothing."""
    assert ([], None) == World().restore()


def test_the_budget_counts_each_object_alone_and_forgets_with_time():
    """Five a minute."""
    now = [0]
    budget = RestoreBudget(lambda: now[0])

    assert [True] * MAX_RESTORES + [False] == [budget.spend("a") for _ in range(MAX_RESTORES + 1)]
    assert budget.spend("b")
    now[0] = MINUTE
    assert budget.spend("a")
    budget.clear()
    assert budget.spend("a")
