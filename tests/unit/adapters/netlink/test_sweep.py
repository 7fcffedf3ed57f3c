"""What `meshwatchctl sweep` removes, and what it leaves to those who have made it; real kernels are in tests/lab."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import msgspec
import pytest

from meshwatchd.adapters.netlink import kernel as netlink
from meshwatchd.adapters.netlink.sweep import sweep, sweep_by
from meshwatchd.adapters.storage.window_file import WindowFile
from meshwatchd.adapters.wireguard.registry import Registry
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import KernelSettings
from tests.support.fake_kernel import STATIC, FakeKernel, route_record, rule_record

SETTINGS = KernelSettings()
BASE, TABLE = SETTINGS.priority_base, SETTINGS.table_base
OVERRIDE, SELECTOR = RuleWindow(first=BASE).override(0), RuleWindow(first=BASE).selector(0)


class Kernel(FakeKernel):
    """One that also removes what a dump has shown."""

    async def delete_marked_rule(self, record):
        """Remove a rule."""
        self.held_rules.remove(record)
        self.operations.append(record.text)


def swept(kernel: FakeKernel, state_dir: Path, *, dry_run: bool = False) -> list[str]:
    """What was removed."""
    return asyncio.run(sweep_by(cast("netlink.Kernel", kernel), SETTINGS, state_dir, dry_run=dry_run))


def device(kernel: FakeKernel, name: str, kind: str = "tun") -> int:
    """Give a device of a fake kernel a kind; returns its index."""
    index = next(index for index, link in kernel.present.items() if link.name == name)
    kernel.present[index] = msgspec.structs.replace(kernel.present[index], kind=kind)
    return index


def test_a_dry_run_reads_and_reports_and_needs_no_privilege(tmp_path):
    """Nothing of ours is here, nothing is written, not even a key."""
    unused = KernelSettings(protocol=201, table_base=990_000, priority_base=31_000, device_prefix="mwx")

    assert [] == sweep(unused, dry_run=True, state_dir=tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_traffic_goes_home_before_anything_else_is_taken_away(tmp_path):
    """The rule that moved it is the first to go, whatever its place in the dump; rules of others stay."""
    kernel = Kernel()
    theirs = rule_record(Rule(priority=SELECTOR, table=254), protocol=STATIC)
    elsewhere = rule_record(Rule(priority=BASE + 100, table=TABLE))
    ours = [rule_record(Rule(priority=priority, table=TABLE)) for priority in (SELECTOR, OVERRIDE)]
    kernel.held_rules = [theirs, *ours, elsewhere]

    assert [ours[1].text, ours[0].text] == swept(kernel, tmp_path, dry_run=True)
    assert [] == kernel.operations
    assert [ours[1].text, ours[0].text] == swept(kernel, tmp_path)
    assert [theirs, elsewhere] == kernel.held_rules


def test_rules_in_a_window_that_was_moved_to_are_found(tmp_path):
    """Before the rule of somebody else that would have answered first; rules.json has the place."""
    assert "" == WindowFile(tmp_path).save((RuleWindow(first=90, is_narrow=True),))
    kernel = Kernel()
    kernel.held_rules = [rule_record(Rule(priority=91, table=TABLE))]

    swept(kernel, tmp_path)
    assert [] == kernel.held_rules


def test_rules_of_an_earlier_base_are_found(tmp_path):
    """kernel.priority_base was set to another number after the override was put."""
    former = RuleWindow(first=BASE - 1000)
    assert "" == WindowFile(tmp_path).save((RuleWindow(first=BASE), former))
    kernel = Kernel()
    selector, override = (
        rule_record(Rule(priority=each, table=TABLE)) for each in (former.selector(0), former.override(0))
    )
    kernel.held_rules = [selector, override]

    assert [override.text, selector.text] == swept(kernel, tmp_path)


def test_routes_with_our_protocol_in_tables_of_others_stay(tmp_path):
    """Both together are the mark."""
    kernel = Kernel()
    ours, theirs = (route_record(Route(dst="10.244.4.0/24", dev="mw0", table=table)) for table in (TABLE, 254))
    kernel.held_routes = [ours, theirs]

    assert [ours.text] == swept(kernel, tmp_path)
    assert [theirs] == kernel.held_routes


@pytest.mark.parametrize(("offset", "is_removed"), [(0, True), (75, False), (-2, False)])
def test_a_device_is_removed_by_its_index_and_never_by_its_name(tmp_path, offset, is_removed):
    """Ours, a namesake of one on record, and a namesake of one whose making was broken off, which has index 0."""
    kernel = Kernel("mw0")
    made = device(kernel, "mw0")
    Registry(tmp_path).put("mw0", index=made + offset)

    swept(kernel, tmp_path)
    assert is_removed is (made not in kernel.present)


def test_a_device_of_an_earlier_prefix_is_told_of_as_well(tmp_path):
    """kernel.device_prefix was changed after it was made; somebody else's device beside it is not looked at."""
    kernel = Kernel("old0", "wg0")
    Registry(tmp_path).put("old0", index=device(kernel, "old0"))

    assert ["device old0"] == swept(kernel, tmp_path, dry_run=True)
    assert ["device old0"] == swept(kernel, tmp_path)
    assert ["wg0"] == [link.name for link in kernel.present.values()]
