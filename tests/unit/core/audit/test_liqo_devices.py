"""What a kernel has lost of Liqo is named, and put back with the very same attributes in the order that it needs."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.liqo_devices import audit_devices
from meshwatchd.core.audit.repair import plan_repair
from meshwatchd.model.audit import RepairRung
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.snapshot import Geneve
from tests.support.liqo_node import (
    BY_GATEWAY,
    CARD,
    DEVICE,
    GATEWAY,
    NODE,
    POD,
    REMOTE,
    RULES,
    TABLE,
    TO_GATEWAY,
    good,
    snapshot,
    with_link,
)

BARE = {"addresses": (), "prefix_lengths": ()}
ANEW = {"index": 9, "geneve": Geneve(vni=3, port=6091, remote="10.244.3.9")}


def found(seen, known=None):
    """What is wrong on a2."""
    known = good() if known is None else known
    return list(audit_devices(seen, {known.link.device: known}, "a2"))


def test_while_all_is_there_nothing_is_wrong():
    """Nor where nothing was ever good."""
    assert [] == found(snapshot())
    assert [] == list(audit_devices(with_link(snapshot(device_routes=()), **BARE), {}, "a2"))


def test_a_gateway_that_moved_is_no_loss():
    """Liqo makes the device anew with another far end, and all of it again."""
    assert [] == found(with_link(snapshot(), **ANEW))


@pytest.mark.parametrize("changes", [{}, ANEW], ids=["the same device", "made anew"])
def test_an_address_that_is_lost_is_put_back_before_the_routes_that_went_with_it(changes):
    """liqo#3300: the device is made anew, and its address is not."""
    (finding,) = found(with_link(snapshot(device_routes=()), **BARE, **changes))
    plan = plan_repair(finding)

    assert (FaultCode.LIQO_FABRIC_ADDRESS_MISSING, DEVICE, NODE, "a2") == (
        finding.code,
        finding.device,
        finding.subject,
        finding.culprit,
    )
    because = " ".join(finding.because)
    assert f"{GATEWAY}/32, {REMOTE}" in because
    assert "delete pod -l app.kubernetes.io/name=fabric --field-selector spec.nodeName=a2" in because
    assert plan is not None
    assert RepairRung.RESEED is plan.rung
    assert (
        f"ip address add {NODE}/32 dev {DEVICE}",
        f"arping -U -c 2 -I {DEVICE} {NODE}",
        f"ip route add {GATEWAY}/32 dev {DEVICE} table {TABLE} proto boot scope 253",
        f"ip route add {REMOTE} via {GATEWAY} dev {DEVICE} table {TABLE} proto boot",
    ) == plan.commands()
    assert () == plan.inverse().drop.addresses, "by now it may be Liqo's own doing that it is there"


def test_an_address_that_was_deleted_beside_routes_that_came_back_is_put_alone():
    """Liqo has put back the routes, of which it has heard."""
    (finding,) = found(with_link(snapshot(), **BARE))
    plan = plan_repair(finding)

    assert plan is not None
    assert (f"ip address add {NODE}/32 dev {DEVICE}", f"arping -U -c 2 -I {DEVICE} {NODE}") == plan.commands()


@pytest.mark.parametrize("left", [(), (TO_GATEWAY,)])
def test_routes_that_are_lost_are_put_back_that_to_the_gateway_first(left):
    """What is still there is not put once more."""
    (finding,) = found(snapshot(device_routes=left))
    plan = plan_repair(finding)

    assert (FaultCode.LIQO_ROUTE_MISSING, DEVICE, f"table {TABLE}") == (finding.code, finding.device, finding.subject)
    assert plan is not None
    assert RepairRung.ROUTE is plan.rung
    assert tuple(route for route in (TO_GATEWAY, BY_GATEWAY) if route not in left) == plan.put.routes


def test_a_device_that_has_another_number_is_left_to_liqo():
    """Another tunnel of another peering, to which the old address need not belong."""
    other = {"geneve": Geneve(vni=8, port=6091, remote=POD)}
    for seen in (
        with_link(snapshot(device_routes=()), **BARE, **other),
        with_link(snapshot(device_routes=()), **other),
    ):
        (finding,) = found(seen)
        assert None is plan_repair(finding)
        assert "its Geneve number was 3 and is 8" in " ".join(finding.because)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (snapshot(links=(CARD,), device_routes=()), f"there is no device {DEVICE}"),
        (with_link(snapshot(device_routes=()), is_up=False), "administratively down"),
    ],
)
def test_where_the_device_is_gone_or_down_nothing_can_be_put_back(seen, why):
    """Its routes went along without a word."""
    (finding,) = found(seen)

    assert FaultCode.LIQO_ROUTE_MISSING is finding.code
    assert why in " ".join(finding.because)
    assert None is plan_repair(finding)


def test_a_rule_that_is_gone_beside_its_route_is_told_with_the_command():
    """Liqo does not hear of it; rules are nobody's but Liqo's to put back."""
    (finding,) = found(snapshot(destination_rules=RULES[:1]))

    assert FaultCode.LIQO_ROUTE_MISSING is finding.code
    assert f"ip rule add to {REMOTE} lookup {TABLE} puts it back" in finding.because
    assert None is plan_repair(finding)


def test_a_cluster_that_was_left_is_no_loss():
    """Rules, routes and device are gone: whoever unpeers takes all of them."""
    assert [] == found(snapshot(links=(CARD,), device_routes=(), destination_rules=()))
    assert [] == found(snapshot(device_routes=(), destination_rules=()))
    assert [] == found(snapshot(destination_rules=())), "routes that are about to go"


def test_routes_into_another_device_are_no_loss():
    """Peered anew: the same table leads to another device."""
    other = tuple(msgspec.structs.replace(route, dev="liqo.ffffffffff") for route in (TO_GATEWAY, BY_GATEWAY))

    assert [] == found(snapshot(links=(CARD,), device_routes=other))


def test_no_finding_is_about_the_whole_device():
    """Those explain verdicts about the mesh of the nodes, which Liqo's device has nothing to do with."""
    for seen in (
        with_link(snapshot(device_routes=()), **BARE),
        snapshot(device_routes=()),
        snapshot(destination_rules=RULES[:1]),
    ):
        assert all(each.subject not in (each.device, "") and not each.peer for each in found(seen))
