import asyncio

import msgspec
import pytest

from meshwatchd.adapters.netlink.decode import RouteRecord
from meshwatchd.adapters.netlink.mirror import Lost, Mirror
from meshwatchd.adapters.netlink.monitor import AddressEvent, LinkEvent, Overrun, RouteEvent, RuleEvent
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.settings import KernelSettings
from meshwatchd.model.snapshot import Link
from tests.support.fake_kernel import OURS, STATIC, FakeKernel, route_record, rule_record

OVERRIDE = Rule(priority=5460, table=7701)
OUT = Route(dst="10.244.1.0/24", table=7701, dev="eth0")


def mirror(kernel, *, is_ours=True):
    """A mirror of a fake kernel; all devices with our prefix are ours, or none."""

    async def judge(link):
        return is_ours

    return Mirror(kernel, KernelSettings(), judge)


def snapshot(kernel, **options):
    """The first snapshot."""
    return asyncio.run(mirror(kernel, **options).snapshot())


def test_a_snapshot_has_links_with_addresses_and_our_own_objects():
    """What is not marked and not in our way is not shown."""
    kernel = FakeKernel("eth0")
    kernel.held_addresses = [(2, "10.2.0.12")]
    kernel.held_rules = [rule_record(OVERRIDE), rule_record(Rule(priority=100, table=100), STATIC)]
    kernel.held_routes = [route_record(OUT), route_record(Route(dst="9.0.0.0/8", table=254, dev="eth0"), STATIC)]

    seen = snapshot(kernel)

    assert [("eth0", ("10.2.0.12",))] == [(link.name, link.addresses) for link in seen.links]
    assert (OVERRIDE,) == seen.rules
    assert (OUT,) == seen.routes
    assert () == seen.collisions


def test_host_ends_of_pods_are_left_out():
    """A node has hundreds; they come and go and decide nothing."""
    kernel = FakeKernel("veth1234", "eth0")
    kernel.held_addresses = [(3, "10.2.0.12")]

    assert ["eth0"] == [link.name for link in snapshot(kernel).links]


@pytest.mark.parametrize(
    ("rule", "protocol"), [(Rule(priority=5410, table=100), STATIC), (Rule(priority=5499, table=100), 0)]
)
def test_a_strange_rule_at_our_priority_is_a_collision(rule, protocol):
    """The text names the object and the setting."""
    kernel = FakeKernel("eth0")
    kernel.held_rules = [rule_record(rule, protocol)]

    (collision,) = snapshot(kernel).collisions

    assert protocol == collision.owner_protocol
    assert rule.render() in collision.what
    assert "kernel.priority_base" in collision.what


def test_a_strange_route_in_our_table_is_a_collision():
    """A table is ours as a whole."""
    kernel = FakeKernel("eth0")
    kernel.held_routes = [route_record(Route(dst="9.0.0.0/8", table=7799, dev="eth0"), STATIC)]

    (collision,) = snapshot(kernel).collisions

    assert "9.0.0.0/8" in collision.what
    assert "kernel.table_base" in collision.what


def test_a_route_with_our_protocol_elsewhere_is_a_collision():
    """Somebody else uses the number; sweeping by it would hit him."""
    kernel = FakeKernel("eth0")
    kernel.held_routes = [route_record(Route(dst="9.0.0.0/8", table=100, dev="eth0"))]

    (collision,) = snapshot(kernel).collisions

    assert "kernel.protocol" in collision.what


def test_a_strange_device_with_our_prefix_is_a_collision():
    """Names alone prove nothing, so the one who knows is asked."""
    kernel = FakeKernel("mw0", "mwan0")

    assert () == snapshot(kernel).collisions
    (collision,) = snapshot(kernel, is_ours=False).collisions
    assert "device mw0" in collision.what
    assert "kernel.device_prefix" in collision.what


def test_notifications_keep_links_and_addresses_up_to_date():
    """After the first dump devices are not listed again."""

    async def scenario():
        kernel = FakeKernel("eth0")
        seen = mirror(kernel)
        await seen.snapshot()
        tunnel = Link(name="kilo0", index=9, kind="wireguard", is_up=True, mtu_bytes=1420)
        seen._apply(LinkEvent(link=tunnel, is_gone=False))
        seen._apply(AddressEvent(index=9, address="10.4.0.1", is_gone=False))
        kernel.present.clear()
        first = await seen.snapshot()
        seen._apply(LinkEvent(link=msgspec.structs.replace(tunnel, is_up=False), is_gone=False))
        seen._apply(AddressEvent(index=9, address="10.4.0.1", is_gone=True))
        return first.link("kilo0"), (await seen.snapshot()).link("kilo0")

    up, down = asyncio.run(scenario())

    assert up is not None
    assert down is not None
    assert (True, ("10.4.0.1",)) == (up.is_up, up.addresses)
    assert (False, ()) == (down.is_up, down.addresses)


def test_an_overrun_makes_the_next_snapshot_a_complete_one():
    """What was missed is not known, so nothing may be kept."""

    async def scenario():
        kernel = FakeKernel("eth0", "eth1")
        seen = mirror(kernel)
        await seen.snapshot()
        del kernel.present[3]
        seen._apply(Overrun())
        assert seen.is_dirty.is_set()
        await seen.snapshot()
        return seen.devices()

    assert {2: "eth0"} == asyncio.run(scenario())


def test_removed_objects_of_ours_are_told_at_once():
    """In the operator's words; what is not ours is nobody's business."""

    async def scenario():
        seen = mirror(FakeKernel("eth0"))
        await seen.snapshot()
        seen._apply(RuleEvent(record=rule_record(OVERRIDE), is_gone=True))
        seen._apply(RuleEvent(record=rule_record(OVERRIDE), is_gone=False))
        seen._apply(RuleEvent(record=rule_record(OVERRIDE, STATIC), is_gone=True))
        by_index = msgspec.structs.replace(OUT, dev="#2")
        seen._apply(RouteEvent(record=route_record(by_index), is_gone=True))
        return [seen.losses.get_nowait() for _ in range(seen.losses.qsize())]

    lost = asyncio.run(scenario())

    assert [
        Lost(text="rule pref 5460 from all lookup 7701", rule=OVERRIDE),
        Lost(text="route 10.244.1.0/24 dev eth0 table 7701", route=OUT),
    ] == lost


def test_pods_coming_and_going_wake_nobody():
    """Otherwise a busy node would dump ten times a second."""

    async def scenario():
        seen = mirror(FakeKernel("eth0"))
        await seen.snapshot()
        pod = Link(name="vethab12", index=77, kind="veth", is_up=True, mtu_bytes=1450)
        seen._apply(LinkEvent(link=pod, is_gone=False))
        seen._apply(LinkEvent(link=pod, is_gone=True))
        return seen.is_dirty.is_set()

    assert not asyncio.run(scenario())


def test_a_stranger_in_our_table_is_looked_for_again_after_word_of_one():
    """The first look is a hundred requests; later ones need a reason."""

    async def scenario():
        kernel = FakeKernel("eth0")
        seen = mirror(kernel)
        await seen.snapshot()
        stranger = RouteRecord(
            dst="9.0.0.0/8",
            table=7701,
            protocol=STATIC,
            metric=0,
            kind=1,
            route=None,
            text="route 9.0.0.0/8 table 7701",
        )
        kernel.held_routes.append(stranger)
        quiet = await seen.snapshot()
        seen._apply(RouteEvent(record=stranger, is_gone=False))
        return quiet.collisions, (await seen.snapshot()).collisions

    before, after = asyncio.run(scenario())

    assert () == before
    assert 1 == len(after)
    assert OURS != after[0].owner_protocol
