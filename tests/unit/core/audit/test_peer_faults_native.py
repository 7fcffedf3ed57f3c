"""What nodes tell each other where pods are routed straight into WireGuard, and each leads itself."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confession import confess
from meshwatchd.core.audit.peer_faults import believe, explain
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from tests.support import hellos
from tests.support.bench import ready

BLOCKED = CATALOGUE[FaultCode.WIREGUARD_BLOCKED]


@pytest.mark.parametrize(
    ("code", "native", "others"),
    [
        (FaultCode.CLUSTER_ROUTE_MISSING, True, True),
        (FaultCode.ALLOWED_IPS_MISSING, True, False),
        (FaultCode.POD_ROUTE_DIVERTED, True, False),
        (FaultCode.OVERLAY_DEVICE_DOWN, True, False),
        (FaultCode.UNDERLAY_DEVICE_DOWN, True, True),
        (FaultCode.FORWARDING_OFF, False, False),
    ],
)
def test_what_loses_pods_loses_the_tunnel_where_pods_are_routed_into_it(code, native, others):
    """The node's address in the tunnel is one of its pods': known by the devices in its hello."""
    blocked = Verdict(fault=BLOCKED.code, layer=BLOCKED.layer, severity=BLOCKED.severity, pair=0, culprit="a1")
    for device, is_explained in (("flannel-wg", native), ("flannel.1", others)):
        hello = hellos.hello("a1", faults=(ToldFault(code, NodeName("a1")),))
        view = msgspec.structs.replace(hello.view, wireguard_device="flannel-wg", overlay_device=device)
        told = believe({"a1": msgspec.structs.replace(hello, view=view)}, "b1")

        assert (code if is_explained else FaultCode.WIREGUARD_BLOCKED) == explain(blocked, told).fault


@pytest.mark.parametrize(("device", "is_passed_on"), [("flannel-wg", True), ("flannel.1", False)])
def test_who_has_lost_its_way_to_all_others_is_heard_by_way_of_one_on_its_lan(device, is_passed_on):
    """Where each node leads itself there are no neighbours: whoever hears it passes its word on."""
    lost = ToldFault(FaultCode.CLUSTER_ROUTE_MISSING, NodeName("b1"))
    seen = {"wireguard_device": "flannel-wg", "overlay_device": device}
    own, other = hellos.hello("a1"), hellos.hello("b1", seen=seen, faults=(lost,))

    bench = ready("a1")
    told = confess(bench.engine.status(bench.now, {}), {"a1": own, "b1": other})
    assert is_passed_on is (lost in told)
