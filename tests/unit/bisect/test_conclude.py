"""What devices count meanwhile, and a result from everything gathered."""

from __future__ import annotations

from contextlib import closing
from random import Random

import msgspec

from meshwatchd.adapters.tap.filter import Wanted
from meshwatchd.adapters.tap.taps import Taps
from meshwatchd.bisect.conclude import Gathered, Ledger, conclude
from meshwatchd.bisect.probes import Probes
from meshwatchd.bisect.stack import read_stack
from meshwatchd.model.bisection import DeviceCounters, Place
from meshwatchd.wire.auth import MeshKeys
from tests.support.bisection import FLANNEL, FakeKernel, leg
from tests.support.wire_pair import SECRET


def test_counters_are_told_as_differences():
    """What was counted before the run is nobody's evidence; a device that was not there has none."""
    kernel = FakeKernel()
    kernel.drops = {6: 100}
    ledger = Ledger(kernel)
    kernel.drops = {6: 107}
    kernel.all_devices = {**kernel.all_devices, 6: msgspec.structs.replace(FLANNEL, tx_packets=5, tx_dropped=12)}

    assert DeviceCounters(
        device="flannel.1", tx_packets=5, tx_dropped=12, tx_errors=0, tx_carrier_errors=0, qdisc_dropped=7
    ) == ledger.counted("flannel.1")
    assert ledger.counted("mw0") is None
    assert {6: "flannel.1", 2: "eth0"} == ledger.names()


def test_a_device_that_went_away_has_no_difference():
    """It was there before and is not after."""
    kernel = FakeKernel()
    ledger = Ledger(kernel)
    kernel.all_devices = {}

    assert ledger.counted("eth0") is None


def test_the_result_tells_tables_in_words():
    """Nothing was sent here: a route that is missing explains nothing that was not seen to die."""
    kernel, way = FakeKernel(), leg()
    kernel.hops = {}
    wanted = Wanted(addresses=(), port=way.port, vxlan_port=8472)
    with (
        closing(Taps(None, None, wanted, ssid=1)) as taps,
        closing(Probes(way, MeshKeys("b3", [SECRET]), epoch=1, random=Random(1))) as probes,
    ):
        gathered = Gathered(read_stack(kernel, way), taps, probes, Ledger(kernel), (), 0)
        result = conclude(way, gathered)

    assert Place.UNKNOWN is result.place
    assert "10.244.4.0: ENETUNREACH" == result.tables.route
    assert ("b3", "b1", False) == (result.node, result.peer, result.is_two_sided)
