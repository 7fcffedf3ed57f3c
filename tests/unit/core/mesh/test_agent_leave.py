"""The end of Kilo's agent on a node that leads, as snapshots of that node show it."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.failover.operator_holds import AGENT
from meshwatchd.core.failover.topology_change_hold import CHANGE_NS, KILO_PROTOCOL, MAX_NS, is_agent_away
from meshwatchd.core.mesh.agent_leave import LIMIT_NS
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.ids import Layer
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import SECOND, Mode
from meshwatchd.model.snapshot import DeviceRoute, Snapshot
from tests.support.bench import Bench, ready
from tests.support.lab_mesh import declared_mesh, settings_for, snapshot_of

ROUTE = DeviceRoute(dst="10.244.1.0/24", dev="kilo0", table=254, protocol=KILO_PROTOCOL, via="10.4.0.2")


def _with(*routes: DeviceRoute, **changes: object) -> ev.SnapshotReceived:
    snapshot: Snapshot = msgspec.structs.replace(snapshot_of("b1"), device_routes=routes, **changes)
    return ev.SnapshotReceived(snapshot=snapshot)


def _leader(mode: Mode = Mode.ENFORCE) -> Bench:
    bench = ready("b1", settings=settings_for("b1", mode=mode))
    bench.feed(_with(ROUTE))
    return bench


def _says_it_is_out(bench: Bench) -> bool:
    return bench.said(out.SetBanner)[-1].banner.is_admin_down


def test_a_leader_whose_agent_has_taken_its_routes_away_is_out_of_service_until_they_are_back():
    """All nodes are told at once, and nobody is accused meanwhile."""
    bench = _leader()
    began = bench.now
    bench.feed(_with())
    bench.run(SECOND // 10)

    (given,) = bench.said(out.OrderGiven, since=began)
    assert (OrderKind.DRAIN, AGENT, began + LIMIT_NS) == (given.order.kind, given.order.name, given.order.until_ns)
    assert _says_it_is_out(bench)
    assert bench.controller.context.is_unsettled(bench.now)
    near = [bench.plans[probe.session] for probe in bench.said(out.SendProbe, since=began)]
    assert {"b2", "b3"} <= {plan.peer for plan in near if plan.layer is Layer.UNDERLAY}

    bench.feed(_with(ROUTE))
    bench.run(SECOND // 10)
    (ended,) = bench.said(out.OrderEnded, since=began)
    assert (given.order, False) == (ended.order, ended.is_expired)
    assert not _says_it_is_out(bench)


def test_a_leader_that_leads_no_more_is_back_in_service():
    """kilo0 goes down when the agents agree on another leader."""
    bench = _leader()
    bench.feed(_with())
    links = tuple(msgspec.structs.replace(each, is_up=each.name != "kilo0") for each in snapshot_of("b1").links)
    began = bench.now
    bench.feed(_with(links=links))

    assert 1 == len(bench.said(out.OrderEnded, since=began))


@pytest.mark.parametrize(
    "changes",
    [
        {"device_routes": (ROUTE, msgspec.structs.replace(ROUTE, dst="10.244.2.0/24"))},
        {"device_routes": (msgspec.structs.replace(ROUTE, dst="10.244.9.0/24"),)},
        {"device_routes": (), "is_bounded": True},
        {
            "device_routes": (),
            "links": tuple(each for each in snapshot_of("b1").links if each.name != "kilo0"),
        },
    ],
    ids=["more routes", "other routes", "routes that are not shown", "no device"],
)
def test_what_an_agent_does_that_goes_on_takes_nothing_out_of_service(changes):
    """It replaces routes, and makes its device anew."""
    bench = _leader()
    began = bench.now
    bench.feed(ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("b1"), **changes)))

    assert [] == bench.said(out.OrderGiven, since=began)


def test_routes_that_others_take_away_are_not_kilos():
    """An administrator's are of another protocol."""
    bench = ready("b1")
    bench.feed(_with(msgspec.structs.replace(ROUTE, protocol=3)))
    began = bench.now
    bench.feed(_with())

    assert [] == bench.said(out.OrderGiven, since=began)


def test_what_lasts_longer_than_the_work_is_told_for_what_it_is():
    """An agent that is at work and one that is away are one bit, in two ways."""
    bench = _leader()
    bench.feed(_with())
    assert not is_agent_away(bench.said(out.SetBanner)[-1].banner)
    bench.run(CHANGE_NS + SECOND)
    assert is_agent_away(bench.said(out.SetBanner)[-1].banner)
    assert _says_it_is_out(bench)


def _standing(mode: Mode) -> Bench:
    """A daemon that starts anew with the order of its predecessor."""
    bench = Bench("b1", settings=settings_for("b1", mode=mode))
    order = Order(kind=OrderKind.DRAIN, name=AGENT, until_ns=bench.now + LIMIT_NS)
    bench.engine.state.memory.orders.give(order)
    return bench


def test_a_daemon_that_starts_anew_ends_an_order_that_has_lost_its_reason():
    """The agent came back meanwhile: the first look at the kernel shows it."""
    bench = _standing(Mode.ENFORCE)
    bench.feed(_with())
    assert [] == bench.said(out.OrderEnded), "it is away still"
    bench.feed(_with(ROUTE))
    assert 1 == len(bench.said(out.OrderEnded))


def test_a_node_that_only_observes_ends_an_order_of_before():
    """Nobody is to keep off it for that."""
    bench = _standing(Mode.OBSERVE)
    bench.feed(_with())
    assert 1 == len(bench.said(out.OrderEnded))


def test_routes_of_another_kind_of_mesh_are_nobodys_sign():
    """Networkd's own have Kilo's protocol number."""
    bench = _leader()
    mesh = msgspec.structs.replace(declared_mesh(), profile="wireguard")
    bench.feed(_with(ROUTE, mesh=mesh))
    began = bench.now
    bench.feed(_with(mesh=mesh))

    assert [] == bench.said(out.OrderGiven, since=began)


def test_a_node_that_only_observes_gives_itself_no_order():
    """Nobody would act on it."""
    bench = _leader(Mode.OBSERVE)
    began = bench.now
    bench.feed(_with())

    assert [] == bench.said(out.OrderGiven, since=began)


def test_an_operator_ends_the_order_and_it_is_not_given_again():
    """It is given when routes go, and not because there are none."""
    bench = _leader()
    bench.feed(_with())
    bench.engine.state.memory.orders.take_back(OrderKind.DRAIN)
    bench.run(MAX_NS)
    began = bench.now
    bench.feed(_with(is_bounded=False))

    assert [] == bench.said(out.OrderGiven, since=began)
