import asyncio

from meshwatchd.adapters.netlink.provision import apply, compare, is_override, windows_of
from meshwatchd.model.plan import Provision, Route, Rule
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import KernelSettings
from tests.support.fake_kernel import STATIC, FakeKernel, route_record, rule_record

SETTINGS = KernelSettings()
DEVICES = {2: "eth0", 3: "mw0"}
DELIVERY = Rule(priority=5400, table=7799, iif="mw0")
OVERRIDE = Rule(priority=5460, table=7701)
OUT = Route(dst="10.244.1.0/24", table=7701, dev="mw0", src="10.2.0.12")
IN = Route(dst="10.2.0.13/32", table=7799, dev="eth0", via="10.244.6.0")
WANTED = Provision(routes=(OUT, IN), rules=(DELIVERY,))


def provision(kernel, wanted=WANTED):
    """Provision a fake kernel; returns the errors."""
    return asyncio.run(apply(wanted, kernel, SETTINGS, DEVICES, removing=lambda _delta: None))


def test_an_empty_kernel_gets_everything_routes_first():
    """A rule must never lead to a table that is not filled."""
    kernel = FakeKernel("eth0", "mw0")

    assert [] == provision(kernel)
    assert [
        f"add route {OUT.render()}",
        f"add route {IN.render()}",
        f"add rule {DELIVERY.render()}",
    ] == kernel.operations


def test_what_is_in_place_is_not_touched():
    """A restarted daemon finds its objects and changes nothing."""
    kernel = FakeKernel("eth0", "mw0")
    provision(kernel)
    kernel.operations.clear()

    assert [] == provision(kernel)
    assert [] == kernel.operations


def test_leftovers_go_after_their_successors_are_there():
    """Make before break, and only what carries our protocol inside our ranges."""
    kernel = FakeKernel("eth0", "mw0")
    old_rule, old_route = Rule(priority=5401, table=7799, iif="mw7"), Route(dst="9.0.0.0/8", table=7702, dev="eth0")
    kernel.held_rules = [rule_record(old_rule)]
    kernel.held_routes = [route_record(old_route)]

    assert [] == provision(kernel)
    assert [f"delete rule {old_rule.render()}", f"delete route {old_route.render()}"] == kernel.operations[-2:]


def test_a_changed_route_is_replaced_in_one_step():
    """Deleting the old and adding the new would leave a gap."""
    kernel = FakeKernel("eth0", "mw0")
    kernel.held_routes = [route_record(Route(dst=OUT.dst, table=7701, dev="eth0", via="10.244.5.0"))]

    assert [] == provision(kernel)
    assert f"replace route {OUT.render()}" in kernel.operations
    assert not [line for line in kernel.operations if line.startswith("delete")]


def test_an_override_is_neither_expected_nor_removed():
    """Overrides belong to the engine: provisioning during a failover must not end it."""
    kernel = FakeKernel("eth0", "mw0")
    kernel.held_rules = [rule_record(OVERRIDE)]

    assert [] == provision(kernel)
    assert OVERRIDE in [record.rule for record in kernel.held_rules]
    assert is_override(OVERRIDE.priority, windows_of(SETTINGS))
    assert not is_override(DELIVERY.priority, windows_of(SETTINGS))


def test_rules_that_have_moved_leave_nothing_where_they_stood():
    """Make before break; an override there is the engine's to move."""
    kernel = FakeKernel("eth0", "mw0")
    narrow = RuleWindow(first=96, is_narrow=True)
    strange = rule_record(Rule(priority=95, table=7701))
    moved = Rule(priority=96, table=7799, iif="mw0")
    kernel.held_rules = [rule_record(DELIVERY), rule_record(OVERRIDE), strange]
    wanted = Provision(routes=(OUT, IN), rules=(moved,), windows=(narrow, RuleWindow(first=5400)))

    assert [] == provision(kernel, wanted)
    assert [f"add rule {moved.render()}", f"delete rule {DELIVERY.render()}"] == kernel.operations[-2:]
    assert {OVERRIDE, moved, strange.rule} == {record.rule for record in kernel.held_rules}


def test_unmarked_objects_are_invisible():
    """The same rule and route with somebody else's protocol are neither ours nor in our way to delete."""
    rules = [rule_record(Rule(priority=5401, table=7799), STATIC)]
    routes = [route_record(Route(dst="9.0.0.0/8", table=7702, dev="eth0"), STATIC)]

    delta = compare(Provision(), rules, routes, SETTINGS)

    assert delta.is_empty()


def test_marked_objects_outside_our_ranges_are_left_alone():
    """Somebody else may use 117 for tables of his own."""
    rules = [rule_record(Rule(priority=100, table=100))]
    routes = [route_record(Route(dst="9.0.0.0/8", table=100, dev="eth0"))]

    assert compare(Provision(), rules, routes, SETTINGS).is_empty()


def test_a_refusal_is_reported_and_nothing_is_deleted():
    """Half a success must not cost what stood before."""
    kernel = FakeKernel("eth0", "mw0")
    kernel.refused = {OUT.render()}
    kernel.held_rules = [rule_record(Rule(priority=5401, table=7799, iif="mw7"))]

    errors = provision(kernel)

    assert 1 == len(errors)
    assert "not permitted" in errors[0]
    assert not [line for line in kernel.operations if line.startswith("delete")]


def test_a_route_into_a_missing_device_names_the_device():
    """The kernel would only say that something is invalid."""
    kernel = FakeKernel("eth0")

    errors = asyncio.run(apply(WANTED, kernel, SETTINGS, {2: "eth0"}, removing=lambda _delta: None))

    assert [f"add route {OUT.render()}: there is no device mw0"] == errors


def test_a_route_that_vanishes_at_once_is_reported():
    """Acknowledged is not in place: somebody may delete as fast as we add."""

    class Forgetful(FakeKernel):
        async def add_rule(self, rule):
            self.operations.append("add rule")

    errors = provision(Forgetful("eth0", "mw0"))

    assert [f"not in place after it was acknowledged: rule {DELIVERY.render()}"] == errors


def test_prefixes_are_compared_as_the_kernel_writes_them():
    """Host bits in a configured prefix are no difference."""
    sloppy = Provision(routes=(Route(dst="10.244.1.7/24", table=7701, dev="mw0", src="10.2.0.12"),))

    assert compare(sloppy, [], [route_record(OUT)], SETTINGS).is_empty()
