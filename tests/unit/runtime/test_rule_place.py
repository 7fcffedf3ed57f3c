"""Where rules of ours go beside those of other programs: one story for each that is known to have rules of its own."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.storage.window_file import WindowFile
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import NodeName
from meshwatchd.model.plan import Rule
from meshwatchd.model.route_lookup import RouteQuestion
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import DaemonSettings, KernelSettings, Mode, Settings
from meshwatchd.model.snapshot import ForeignObject, Link, Snapshot
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import OVERLAY_MESH
from meshwatchd.runtime.rule_place import RulePlace
from tests.support.lab_mesh import declared_mesh, snapshot_of
from tests.support.rules import routes_table, rule_body

THERE = ("10.244.4.0/24", "10.244.5.0/24", "10.244.6.0/24", "10.2.0.11/32", "10.2.0.12/32", "10.2.0.13/32")
"""What node a3's failovers move."""

INVERT = 2
LOCAL, MAIN = rule_body(0, 255), rule_body(32766, 254)
CILIUM = (rule_body(9, 2004, mark=0x200, mask=0xF00), rule_body(10, 2005, mark=0xA00, mask=0xF00), rule_body(100, 255))
CALICO = rule_body(99, 1, mark=0x100000, mask=0x100000, flags=INVERT)
NETBIRD = (rule_body(105, 254, suppress=0), rule_body(110, 7120, mark=0x1BD00, flags=INVERT))
TAILSCALE = (rule_body(5210, 254, mark=0x80000, mask=0xFF0000), rule_body(5270, 52))


class World:
    """One node: rules, tables, and a kernel that is asked."""

    def __init__(self, folder, *rules, tables=None, mode=Mode.OBSERVE, base=5400):
        self.settings = Settings(
            daemon=DaemonSettings(node="a3", state_dir=str(folder), mode=mode),
            kernel=KernelSettings(priority_base=base),
        )
        self.told, self.again, self.questions = [], 0, []
        self.answer, self.tables = None, {}
        self.hold(*rules, tables=tables or {})
        self.place = RulePlace(self, self, self.settings, self, again=self._look_again)

    def hold(self, *rules, tables):
        """Another kernel."""
        self.rules = (LOCAL, *rules, MAIN)
        self.routes = routes_table({254: ("0.0.0.0/0", *THERE), **tables})

    def devices(self):
        """None is asked for."""
        return {}

    def table(self, question: RouteQuestion):
        """What the kernel would say."""
        self.questions.append(question)
        return self.tables.get((question.sport, question.dport), self.answer)

    def close(self):
        """Nothing is open."""

    def warning(self, event, **fields):
        """As a logger."""
        self.told.append((event, fields))

    def _look_again(self):
        self.again += 1

    def settle(self, snapshot=None, **changes):
        """The next snapshot."""
        found = snapshot or msgspec.structs.replace(snapshot_of("a3"), mesh=declared_mesh())
        return self.place.settle(msgspec.structs.replace(found, **changes))


@pytest.mark.parametrize(
    ("beside", "tables", "first"),
    [
        (("nobody",), {}, 5400),
        (
            ("Kilo, started anew", rule_body(5399, 1107, iif="kilo0", to="192.168.100.12/32")),
            {1107: ("192.168.100.12/32",)},
            5400,
        ),
        (("Cilium", *CILIUM), {2004: ("0.0.0.0/0",), 2005: ("0.0.0.0/0",)}, 5400),
        (("Submariner's gateway", rule_body(150, 150)), {150: ("10.244.0.0/16",)}, 146),
        (
            ("Submariner's gateway, VXLAN cable", rule_body(100, 100), rule_body(150, 150)),
            {100: ("10.244.4.0/22",), 150: ("10.244.4.0/22",)},
            96,
        ),
        (
            (
                "Submariner's gateway under OVN",
                rule_body(149, 149, to="10.244.1.0/24"),
                rule_body(150, 150, to="10.244.4.0/22"),
            ),
            {149: ("0.0.0.0/0",), 150: ("0.0.0.0/0",)},
            145,
        ),
        (("Calico's WireGuard", CALICO), {1: THERE}, 95),
        (
            ("Calico's WireGuard, these not encrypted", CALICO),
            {1: ("10.99.0.0/24", *(f"throw {each}" for each in THERE))},
            5400,
        ),
        (("Liqo, pods remapped", rule_body(99, 700, to="10.71.0.0/16")), {700: ("10.71.0.0/16",)}, 5400),
        (("Liqo", rule_body(32765, 700, to="10.244.4.0/22")), {700: ("10.244.4.0/22",)}, 5400),
        (
            (
                "Liqo beside Cilium",
                *CILIUM[:2],
                rule_body(98, 700, to="10.80.0.2/32"),
                rule_body(99, 700, to="10.244.4.0/22"),
                CILIUM[2],
            ),
            {700: ("10.80.0.2/32", "10.244.4.0/22")},
            94,
        ),
        (("Liqo, after us", rule_body(5399, 700, to="10.244.4.0/22")), {700: ("10.244.4.0/22",)}, 5395),
        (("NetBird", *NETBIRD), {7120: ("0.0.0.0/0",)}, 101),
        (("NetBird beside Cilium", *CILIUM, *NETBIRD), {7120: ("0.0.0.0/0",)}, 101),
        (("Tailscale", *TAILSCALE), {52: ("100.100.100.100/32",)}, 5400),
        (("Tailscale with a subnet route", *TAILSCALE), {52: ("10.244.4.0/22",)}, 5266),
        (
            ("wg-quick", rule_body(32764, 254, suppress=0), rule_body(32765, 51820, mark=51820, flags=INVERT)),
            {51820: ("0.0.0.0/0",)},
            5400,
        ),
    ],
)
def test_rules_of_ours_stand_before_the_first_that_would_answer_for_them(tmp_path, beside, tables, first):
    """And no rule of anybody else is among them."""
    name, *rules = beside
    world = World(tmp_path, *rules, tables=tables)
    snapshot = world.settle()
    topology = OVERLAY_MESH.recognise(snapshot, declared_mesh(), NodeName("a3"))
    assert isinstance(topology, Topology)
    planner = Planner(msgspec.structs.replace(topology, windows=snapshot.windows), world.settings)

    assert first == planner.windows[0].first, name
    assert first == min(each.priority for each in planner.provision(("mw0",)).rules)
    assert () == snapshot.collisions
    assert [] == world.questions, "nothing stands yet"


def test_a_window_that_was_chosen_is_recorded_and_kept(tmp_path):
    """A restart must not take rules of an earlier process for a stranger's; nor does a rule that goes move ours."""
    world = World(tmp_path, rule_body(105, 254, suppress=0))
    world.settle()
    low, usual = RuleWindow(first=101, is_narrow=True), RuleWindow(first=5400)

    assert (low, usual) == WindowFile(tmp_path).load().windows
    assert (low, usual) == World(tmp_path).settle().windows
    assert [("rules.moved", 101)] == [(event, fields["first"]) for event, fields in world.told]
    assert "105" in world.told[0][1]["reason"]


def enforcing(folder, base, *rules, tables=None):
    """A daemon that may change things, with that kernel.priority_base."""
    return World(folder, *rules, tables=tables, mode=Mode.ENFORCE, base=base)


@pytest.mark.parametrize(("mode", "recorded"), [(Mode.ENFORCE, (RuleWindow(first=5400),)), (Mode.OBSERVE, ())])
def test_the_configured_window_is_recorded_before_anything_stands_there(tmp_path, mode, recorded):
    """Once; a daemon that only watches leaves no rules behind."""
    world = World(tmp_path, mode=mode)
    assert () == world.settle().windows
    assert recorded == WindowFile(tmp_path).load().windows

    world.hold(rule_body(32000, 900), tables={})
    before = (tmp_path / "rules.json").stat().st_ino if recorded else 0
    world.settle()
    assert before == ((tmp_path / "rules.json").stat().st_ino if recorded else 0)


def test_after_another_base_rules_stand_there_and_the_former_place_stays_known(tmp_path):
    """An override at 5460 is adopted, moved and removed, and `sweep` finds it; back at 5400 it is the same."""
    usual, other = RuleWindow(first=5400), RuleWindow(first=6000)
    enforcing(tmp_path, 5400).settle()

    assert (other, usual) == enforcing(tmp_path, 6000).settle().windows
    assert (other, usual) == WindowFile(tmp_path).load().windows
    assert (usual, other) == enforcing(tmp_path, 5400).settle().windows


def test_a_window_that_was_configured_before_is_not_gone_back_to(tmp_path):
    """Whoever sets another base has a reason: a rule of somebody else at 5410, say."""
    enforcing(tmp_path, 5400).settle()
    world = enforcing(tmp_path, 6000, rule_body(5950, 254, suppress=0))

    assert (RuleWindow(first=5946, is_narrow=True), 6000, 5400) == (
        world.settle().windows[0],
        *(each.first for each in world.settle().windows[1:]),
    )
    assert 5946 == enforcing(tmp_path, 6000).settle().windows[0].first, "it is kept, as ever"
    assert 7000 == enforcing(tmp_path, 7000).settle().windows[0].first, "until there is another base"


LEFT = Rule(priority=5460, table=7701)


@pytest.mark.parametrize("base", [5390, 5450])
def test_rules_that_would_mean_something_else_under_the_new_base_arm_nothing(tmp_path, base):
    """An override is a selector there: it would be deleted with traffic on it. When they are gone all is well."""
    usual, other = RuleWindow(first=5400), RuleWindow(first=base)
    enforcing(tmp_path, 5400).settle()
    world = enforcing(tmp_path, base)
    (refused,) = world.settle(rules=(LEFT,)).collisions

    assert refused.is_ahead
    assert f"rule {LEFT.render()} stands where kernel.priority_base = 5400 had it" in refused.what
    assert "`meshwatchctl sweep`" in refused.what
    assert () == world.settle(rules=(LEFT,)).windows
    assert (usual,) == WindowFile(tmp_path).load().windows, "sweep has to know it"

    assert () == world.settle().collisions
    assert (other,) == WindowFile(tmp_path).load().windows


def test_windows_that_have_no_priority_in_common_may_be_close(tmp_path):
    """Of a hundred numbers the last twenty are free."""
    enforcing(tmp_path, 5400).settle()
    shown = enforcing(tmp_path, 5481).settle(rules=(LEFT,))

    assert () == shown.collisions
    assert (RuleWindow(first=5481), RuleWindow(first=5400)) == shown.windows


def test_a_record_that_cannot_be_written_is_told_once_and_tried_again(tmp_path):
    """As on a full disk."""
    folder = tmp_path / "file"
    folder.write_text("")
    world = enforcing(folder, 5400)
    for number in (31000, 31001):
        world.hold(rule_body(number, 900), tables={})
        world.settle()
    assert ["rules.unrecorded"] == [event for event, _ in world.told if event != "rules.record_refused"]

    folder.unlink()
    world.hold(rule_body(31002, 900), tables={})
    world.settle()
    assert (RuleWindow(first=5400),) == WindowFile(folder).load().windows


def test_a_rule_that_comes_later_moves_them(tmp_path):
    """A node becomes Submariner's gateway."""
    world = World(tmp_path)
    assert () == world.settle().windows

    world.hold(rule_body(150, 150), tables={150: ("10.244.0.0/16",)})

    assert 146 == world.settle().windows[0].first


def test_where_they_can_stand_nowhere_nothing_is_armed(tmp_path):
    """It is said until there is room."""
    world = World(tmp_path, rule_body(3, 150), tables={150: THERE})
    (refused,) = world.settle().collisions

    assert refused.is_ahead
    assert "is asked before any rule of ours could be" in refused.what
    world.hold(rule_body(150, 150), tables={150: THERE})
    assert () == world.settle().collisions


def test_a_stranger_in_the_configured_window_is_nothing_to_one_elsewhere(tmp_path):
    """What else collides still does."""
    world = World(tmp_path, rule_body(105, 254, suppress=0))
    rule = ForeignObject(what="rule", owner_protocol=4, priority=5410)
    device = ForeignObject(what="device", owner_protocol=0)

    assert (device,) == world.settle(collisions=(rule, device)).collisions
    assert (rule, device) == World(tmp_path / "other").settle(collisions=(rule, device)).collisions


def _standing(settings):
    """A snapshot with everything of ours in place on a member."""
    topology = OVERLAY_MESH.recognise(snapshot_of("a3"), declared_mesh(), NodeName("a3"))
    assert isinstance(topology, Topology)
    wanted = Planner(topology, settings).provision()
    found = msgspec.structs.replace(snapshot_of("a3"), mesh=declared_mesh())
    return msgspec.structs.replace(found, rules=wanted.rules, routes=wanted.routes), wanted


def test_the_kernel_is_asked_with_our_selectors(tmp_path):
    """With the ports and addresses of a probe; while it takes our table, all is well."""
    world = World(tmp_path)
    snapshot, wanted = _standing(world.settings)

    world.tables = {(each.sport[0], each.dport[0]): each.table for each in wanted.rules if each.dport and not each.goto}

    assert () == world.settle(snapshot).collisions
    assert {"192.168.100.13"} == {each.source for each in world.questions}
    assert all(
        each.sport and each.dport and each.destination.startswith(("10.2.0.", "10.244.")) for each in world.questions
    )
    assert 0 == world.again


def test_what_the_kernel_does_not_take_is_told_at_a_second_look(tmp_path):
    """The mirror may be a moment behind; a rule that no analysis foresaw stays."""
    world = World(tmp_path)
    snapshot, _ = _standing(world.settings)
    world.answer = 900

    assert () == world.settle(snapshot).collisions
    assert 1 == world.again
    (refused,) = world.settle(snapshot).collisions
    assert refused.is_ahead
    assert "but table 900;" in refused.what
    assert (refused,) == world.settle(snapshot).collisions, "it holds as long as the kernel says so"
    world.answer = None
    assert () == world.settle(snapshot).collisions


def test_routes_into_a_device_that_is_down_are_no_question(tmp_path):
    """The kernel has taken them away, or is about to."""
    world = World(tmp_path)
    snapshot, _ = _standing(world.settings)
    links = tuple(msgspec.structs.replace(each, is_up=False) for each in snapshot.links)

    world.settle(snapshot, links=links)

    assert [] == world.questions


def test_without_a_mesh_nothing_is_chosen(tmp_path):
    """Nothing is known that a failover could move."""
    world = World(tmp_path, rule_body(3, 150), tables={150: ("0.0.0.0/0",)})

    assert Snapshot(links=(Link(name="lo", index=1, kind="", is_up=True, mtu_bytes=65536),)) == world.settle(
        Snapshot(links=(Link(name="lo", index=1, kind="", is_up=True, mtu_bytes=65536),))
    )
