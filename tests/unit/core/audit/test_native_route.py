"""The one route of flannel's wireguard backend: lost, ended, led elsewhere, and put back where that is allowed."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confirmation import without_consequences
from meshwatchd.core.audit.native_route import audit_native, is_native
from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.pod_routes import PodRouteAudit
from meshwatchd.core.audit.repair import needed_rungs, plan_repair
from meshwatchd.model.audit import RepairRung
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.route_lookup import RouteAnswer
from meshwatchd.model.snapshot import DeviceRoute
from tests.support.lab_mesh import declared_mesh
from tests.support.native_node import DEVICE, GOOD, MESH, ROUTE, elsewhere, snapshot, view

BLACKHOLE = DeviceRoute(dst="10.42.0.0/16", dev="", table=254, protocol=3, kind="blackhole")
LATER = msgspec.structs.replace(BLACKHOLE, metric=100)
OWN = DeviceRoute(dst="192.0.2.0/24", dev=DEVICE, table=254, protocol=4)


def found(seen, **changes):
    """The one finding."""
    (only,) = audit(view(seen, **changes))
    return only


def test_flannels_own_route_is_fine():
    """Also beside somebody else's, and beside a dead end that is never reached."""
    assert () == audit(view(snapshot()))
    assert () == audit(view(snapshot((ROUTE, OWN), ends=(LATER,))))
    assert () == audit(view(snapshot(), good=None))


def test_a_route_that_is_gone_is_the_fault_of_the_node_as_a_whole():
    """One finding, with whom it cuts off, and the very route that would be put back."""
    lost = found(snapshot(()))
    plan = plan_repair(lost)

    assert (FaultCode.CLUSTER_ROUTE_MISSING, DEVICE, DEVICE, "c1") == (
        *(lost.code, lost.device, lost.subject),
        lost.culprit,
    )
    assert "no route to 10.42.0.0/16 into flannel-wg" in lost.because[0]
    assert "c2, d1" in lost.because[1]
    assert "systemctl restart k3s" in lost.because[-1]
    assert plan is not None
    assert (RepairRung.ROUTE,) == needed_rungs(plan)
    assert ("ip route add 10.42.0.0/16 dev flannel-wg proto boot scope 253",) == plan.commands()


@pytest.mark.parametrize("routes", [(), (ROUTE,)], ids=["in its place", "before it"])
def test_a_dead_end_is_taken_out_of_the_way(routes):
    """`ip route replace blackhole` and `ip route prepend blackhole`: nobody's traffic follows it."""
    lost = found(snapshot(routes, ends=(BLACKHOLE,)))
    plan = plan_repair(lost)

    assert "end at a blackhole route" in lost.because[0]
    assert plan is not None
    assert "ip route del blackhole 10.42.0.0/16 proto boot" == plan.commands()[0]
    assert bool(routes) is (1 == len(plan.commands())), "what is there is not added once more"


def test_on_a_device_that_was_made_anew_nothing_is_put():
    """What starts there adds the route itself, and fails where it is there already."""
    lost = found(snapshot((), index=8))

    assert plan_repair(lost) is None
    assert "made anew" in lost.because[2]


def test_without_a_memory_the_loss_is_named_and_nothing_is_put():
    """A daemon that starts into the wedge knows no prefix."""
    lost = found(snapshot((OWN,)), good=None)

    assert FaultCode.CLUSTER_ROUTE_MISSING == lost.code
    assert plan_repair(lost) is None


def test_a_device_that_is_down_is_told_and_comes_up_with_its_route():
    """Its route went with it; of the route nothing is said."""
    down = found(snapshot((), is_up=False))
    plan = plan_repair(down)

    assert FaultCode.OVERLAY_DEVICE_DOWN == down.code
    assert plan is not None
    assert (RepairRung.BOUNCE,) == needed_rungs(plan)
    assert "ip route add 10.42.0.0/16" in plan.commands()[-1]


def test_a_device_that_is_gone_is_told_by_its_loss_alone():
    """`wireguard-device-missing`, not a second name for the same device as an overlay."""
    seen = snapshot(())
    gone = msgspec.structs.replace(seen, links=tuple(each for each in seen.links if each.name != DEVICE))

    assert () == audit(view(gone))


def test_other_meshes_have_other_routes():
    """Kilo's, and those of a third party's device."""
    assert is_native(MESH)
    assert is_native(elsewhere())
    assert not is_native(declared_mesh())
    assert [] == [*audit_native(view(snapshot(()), mesh=elsewhere()))]
    assert [] == [*audit_native(view(snapshot(()), mesh=declared_mesh()))]


@pytest.mark.parametrize(
    ("prefix", "told"),
    [
        ("", "a peer of flannel-wg may carry 10.42.2.0/24 of d1"),
        ("0.0.0.0/0", "a peer of flannel-wg may carry 10.42.2.0/24 of d1"),
        ("10.42.2.0/24", "the main table has a route of 10.42.2.0/24 into eth0, and none of the mesh's"),
    ],
    ids=["no word of a route", "rule", "narrower route"],
)
def test_packets_that_a_narrower_route_or_a_rule_diverts_are_asked_for(prefix, told):
    """No route names a node here: whose pods a peer may carry is asked for. A lost route explains all of them.

    One for these very pods is in nobody's place: the mesh's own is for all.
    """

    def ask(question):
        if question.destination == "10.42.2.0":
            return RouteAnswer(device="eth0", prefix=prefix)
        return RouteAnswer(device=DEVICE, prefix="10.42.0.0/16")

    diverted = tuple(PodRouteAudit("mw", ask).look(view(snapshot()), 1, 1, is_forwarding=True))

    assert [(FaultCode.POD_ROUTE_DIVERTED, DEVICE, "d1")] == [(each.code, each.device, each.peer) for each in diverted]
    assert told in diverted[0].because[-1]
    lost = audit(view(snapshot(())))
    assert lost == without_consequences((*lost, *diverted))
    assert GOOD.entries.routes == (ROUTE,)
