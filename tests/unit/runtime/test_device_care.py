"""The parts that care for devices know of each other."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from meshwatchd.adapters.netlink.tables import Table, apply_to_routes
from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import DaemonSettings, Settings
from meshwatchd.runtime.device_care import DeviceCare
from meshwatchd.runtime.liqo_watch import LiqoMemory
from meshwatchd.runtime.logging import make_log
from tests.support.example_status import HEALTHY
from tests.support.fake_kernel import FakeKernel
from tests.support.flannel_node import entries, mesh, snapshot


async def is_fresh():
    """The status is the engine's of this moment."""


class Kernel:
    """A mirror that is asked for figures."""

    def __init__(self):
        self.asked = []
        self.routes, self.rules = Table(apply_to_routes), tuple[bytes, ...]()

    def devices(self):
        """None."""
        return {}

    async def read_back(self):
        """What flannel leaves."""
        return snapshot(entries(3))

    def lan_neighbours(self):
        """Nobody."""
        return ()

    def overlay_figures(self, device):
        """Two of each."""
        self.asked.append(device)
        return OverlayFigures(fdb_entries=2, stale_neighbours=2)


def test_figures_are_of_the_device_of_the_mesh_that_was_found_out(tmp_path):
    """Before anything was seen, of the one that is declared."""
    settings = Settings(daemon=DaemonSettings(node="n0", state_dir=str(tmp_path)))
    kernel, sent = Kernel(), list[object]()
    log = make_log("json", level="error")
    care = DeviceCare(
        settings, kernel, sent.append, status=lambda: HEALTHY, refresh=is_fresh, duplicates=tuple, log=log
    )
    found = msgspec.structs.replace(mesh(3), overlay_device="flannel.7")

    assert b"vxlan_fdb_entries_total 2.0" in care.metrics.text()
    care.auditor.see(msgspec.structs.replace(snapshot(entries(3)), mesh=found))
    care.auditor.look()
    care.metrics.text()
    duties = care.duties(FakeKernel())
    for duty in duties:
        duty.close()
    care.close()

    assert ["flannel.1", "flannel.7"] == kernel.asked
    assert 1 == len(sent)
    assert 10 == len(duties)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_routes_of_outer_packets_go_with_an_order_to_stop_alone(tmp_path, is_ordered):
    """A crash of the engine is no order: the next process goes on from them."""
    settings = Settings(daemon=DaemonSettings(node="n0", state_dir=str(tmp_path)))
    log = make_log("json", level="error")
    care = DeviceCare(
        settings, Kernel(), lambda _: None, status=lambda: HEALTHY, refresh=is_fresh, duplicates=tuple, log=log
    )
    kernel, led = FakeKernel(), Rule(priority=5410, table=7797, iif="lo", dport=(8472, 8472))

    async def scenario():
        await kernel.add_rule(led)
        if is_ordered:
            care.stop()
        await care.finish(kernel)
        return [each.rule for each in kernel.held_rules]

    assert ([] if is_ordered else [led]) == asyncio.run(scenario())
    care.close()


def test_what_is_good_is_on_the_disk_when_the_agent_ends(tmp_path):
    """By a thread each; the sockets are closed after that."""
    settings = Settings(daemon=DaemonSettings(node="n0", state_dir=str(tmp_path)))
    log = make_log("json", level="error")
    care = DeviceCare(
        settings, Kernel(), lambda _: None, status=lambda: HEALTHY, refresh=is_fresh, duplicates=tuple, log=log
    )

    async def scenario():
        care.auditor._writer.keep(GoodState())
        care._liqo._writer.keep(LiqoMemory())
        await care.finish(FakeKernel())
        return sorted(each.name for each in tmp_path.iterdir())

    assert ["liqo-good.json", "overlay-good.json"] == asyncio.run(scenario())
    care.close()
