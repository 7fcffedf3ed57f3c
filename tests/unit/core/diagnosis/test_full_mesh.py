"""What three nodes with an overlay on their tunnels know beside the pair that is in doubt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.full_mesh import MOST_ASKED, _by_peer
from meshwatchd.core.session.session import Session
from meshwatchd.model.canary import Canary, CanaryKind
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.outputs import VerdictChanged
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import Bench
from tests.support.lab_mesh import direct_settings, direct_snapshot, with_canaries

CANARIES = tuple(
    Canary(name=f"{kind}-n{number}", address=address, port=9, node=NodeName(f"n{number}"), kind=CanaryKind.TCP)
    for number in (2, 3)
    for kind, address in (
        ("pod", f"10.42.{number}.7"),
        ("host", f"198.51.100.{number}"),
        ("tunnel", f"10.8.0.{number}"),
    )
)


def _bench(*canaries: Canary) -> Bench:
    settings = with_canaries(direct_settings("n1"), *canaries)
    bench = Bench("n1", settings=settings, snapshot=direct_snapshot())
    bench.run(12 * SECOND)
    assert {FaultCode.NONE} == set(_faults(bench).values())
    return bench


def _faults(bench):
    return {each.watch.remote: each.verdicts.current.fault for each in bench.engine.state.controllers.values()}


def _culprits(bench):
    return {each.watch.remote: each.verdicts.current.culprit for each in bench.engine.state.controllers.values()}


def _is_mesh(plan):
    return plan.layer not in (Layer.POD, Layer.SELF)


def test_a_canary_outside_of_the_mesh_is_known_by_its_address():
    """Neither an address of a node nor one of its pods; nobody knows where an IPv6 address is."""
    bench = _bench(*CANARIES)
    surroundings = bench.engine.state.controllers[0].watch._surroundings
    plans = {plan.canary.name: plan for plan in bench.plans.values() if plan.canary in CANARIES}

    assert {"host-n2", "host-n3"} == {name for name, plan in plans.items() if surroundings.is_outside(plan)}
    assert {"pod-n2", "pod-n3"} == {name for name, plan in plans.items() if surroundings.crosses_overlay(plan)}
    assert not surroundings.is_outside(msgspec.structs.replace(plans["pod-n2"], destination="2001:db8::7"))


BULK = tuple(
    Canary(name=f"disc-n{n}", address=f"10.42.{n}.8", port=10, node=NodeName(f"n{n}"), kind=CanaryKind.BULK)
    for n in (2, 3)
)


@pytest.mark.parametrize("lost", [("n2",), ("n2", "n3")])
def test_full_segments_that_get_nowhere_are_lost_at_this_node(lost):
    """To one node only, and there; to all, and here."""
    bench = _bench(*BULK)
    bench.silent = _in_bulk(*lost)
    bench.run(30 * SECOND)

    faults = {name: FaultCode.OFFLOAD_FAULT if name in lost else FaultCode.NONE for name in ("n2", "n3")}
    assert faults == _faults(bench)
    assert {"n1" if len(lost) > 1 else "n2"} == {culprit for culprit in _culprits(bench).values() if culprit}


def _paced(*intervals: int) -> tuple[Canary, ...]:
    return tuple(msgspec.structs.replace(each, interval=text) for each, text in zip(BULK, intervals, strict=True))


def _in_bulk(*nodes):
    return lambda plan: plan.canary is not None and plan.canary.kind is CanaryKind.BULK and plan.canary.node in nodes


def _told(bench):
    return [(change.verdict.fault, change.verdict.culprit) for change in bench.said(VerdictChanged)]


@pytest.mark.parametrize(("lost", "culprit"), [(("n2",), "n2"), (("n2", "n3"), "n1")])
def test_nobody_is_named_before_all_have_been_asked_since_full_segments_are_lost(lost, culprit):
    """The one that is asked more often is found first, and was named alone while the others had yet to be asked."""
    bench = _bench(*_paced(500 * MS, 2 * SECOND))
    bench.silent = _in_bulk(*lost)
    bench.run(40 * SECOND)

    assert [(FaultCode.OFFLOAD_FAULT, culprit)] * len(lost) == _told(bench)


def test_what_was_carried_before_the_loss_began_is_no_witness():
    """One canary is all but condemned, and goes down two questions after; another had answered often since its last."""
    bench = _bench(*_paced(2 * SECOND, 500 * MS))
    (session,) = (s for s in bench.engine.state.schedule.sessions if _in_bulk("n2")(s.plan))
    bench.silent = _in_bulk("n2")
    while session.lost < 14:
        bench.run(SECOND // 10)
    bench.silent = lambda _plan: False
    heard = session.last_heard
    while session.last_heard == heard:
        bench.run(SECOND // 10)
    bench.run(17 * SECOND // 10)
    bench.silent = _in_bulk("n2", "n3")
    bench.run(20 * SECOND)

    assert [(FaultCode.OFFLOAD_FAULT, "n1")] * 2 == _told(bench)


def test_whoever_is_asked_seldom_is_not_blamed_when_all_is_well_again():
    """The others get full segments already: it looks like the last one that does not."""
    bench = _bench(*_paced(500 * MS, 4 * SECOND))
    bench.silent = _in_bulk("n2", "n3")
    while len(bench.said(VerdictChanged)) < 2:
        bench.run(SECOND)
    (session,) = (s for s in bench.engine.state.schedule.sessions if _in_bulk("n3")(s.plan))
    lost = session.lost
    while session.lost == lost:
        bench.run(SECOND // 10)
    bench.outputs.clear()
    bench.silent = lambda _plan: False
    bench.run(20 * SECOND)

    assert [(FaultCode.NONE, "")] * 2 == _told(bench)


def test_a_service_that_is_gone_is_not_waited_for():
    """Its pod died before: of full segments it tells nothing, and the others do."""
    bench = _bench(*BULK)
    gone = bench.silent = lambda plan: plan.layer is Layer.POD and plan.peer == "n3"
    bench.run(20 * SECOND)
    bench.silent = lambda plan: gone(plan) or _in_bulk("n2")(plan)
    bench.run(30 * SECOND)

    assert {"n2": FaultCode.OFFLOAD_FAULT, "n3": FaultCode.POD_UNREACHABLE} == _faults(bench)


def test_a_silent_canary_outside_is_a_witness_and_no_fault():
    """Its host may filter what it likes; the mesh is well."""
    bench = _bench(*CANARIES)
    bench.silent = lambda plan: plan.canary is not None and plan.canary.name == "host-n2"
    bench.run(10 * SECOND)

    assert {FaultCode.NONE} == set(_faults(bench).values())


def test_a_node_whose_tunnels_are_all_dead_while_hosts_answer_outside_names_itself():
    """It said local-fault, as if nothing at all came in: packets do, WireGuard's do not."""
    bench = _bench(*CANARIES)
    bench.silent = lambda plan: _is_mesh(plan) or (plan.canary is not None and not plan.canary.name.startswith("host"))
    bench.run(6 * SECOND)

    assert {"n2": FaultCode.WIREGUARD_BLOCKED, "n3": FaultCode.WIREGUARD_BLOCKED} == _faults(bench)
    assert {"n2": "n1", "n3": "n1"} == _culprits(bench)


def test_without_a_word_from_outside_it_is_a_local_fault():
    """Nobody answers anywhere: there is nothing to tell the port from the node."""
    bench = _bench(*CANARIES)
    bench.silent = lambda plan: plan.layer is not Layer.SELF
    bench.run(6 * SECOND)

    assert {FaultCode.LOCAL} == set(_faults(bench).values())


@pytest.mark.parametrize(("peers", "culprit"), [(("n2", "n3"), "n1"), (("n2",), "n2")])
def test_an_overlay_that_dies_to_everybody_is_blamed_on_this_node(peers, culprit):
    """One peer's is that peer's; all at once are what they have in common."""
    bench = _bench(*CANARIES)
    dead = (Layer.RELAY, Layer.EFFECTIVE, Layer.POD)
    bench.silent = lambda plan: plan.peer in peers and plan.layer in dead and not plan.destination.startswith("198.")
    bench.run(6 * SECOND)

    assert dict.fromkeys(peers, FaultCode.OVERLAY_BLACK_HOLE) == {
        peer: fault for peer, fault in _faults(bench).items() if fault is not FaultCode.NONE
    }
    assert {culprit} == {_culprits(bench)[peer] for peer in peers}


def test_pods_that_are_silent_everywhere_while_all_probes_pass_are_this_nodes_fault():
    """Tunnel and host addresses still answer: they do not cross the overlay."""
    bench = _bench(*CANARIES)
    bench.silent = lambda plan: plan.canary is not None and plan.canary.name.startswith("pod")
    bench.run(20 * SECOND)

    assert {FaultCode.PROBES_ONLY} == set(_faults(bench).values())
    assert {"n1"} == set(_culprits(bench).values())


def test_where_members_have_neighbours_nothing_is_asked_beside_the_pair():
    """Kilo's mesh has witnesses of its own."""
    bench = Bench("b1")
    bench.run(2 * SECOND)
    watch = bench.controller.watch
    plan = next(iter(bench.plans.values()))

    assert Leg.UNKNOWN is watch._surroundings.look(0, lambda _sessions, _since: Leg.DEAD).tunnels
    assert not watch._surroundings.is_outside(msgspec.structs.replace(plan, destination="198.51.100.2"))


def test_in_a_large_mesh_the_word_of_a_few_is_enough():
    """Each of hundreds of pairs would else ask hundreds of others, several times a second."""
    found = _by_peer(
        cast("Session", SimpleNamespace(plan=SimpleNamespace(peer=f"n{number % 20}"))) for number in range(40)
    )

    assert (MOST_ASKED, 2) == (len(found), len(found[0]))
