"""A relay that leads packets to one node astray tells it, and whoever misses that node, or is missed, believes it."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confession import confess
from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.core.audit.peer_faults import believe, explain
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.events import PeerFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from tests.support import hellos
from tests.support.bench import Bench, ready
from tests.support.example_status import HEALTHY
from tests.support.lab_mesh import settings_for


def _said(fault, blamed):
    entry = CATALOGUE[fault]
    return Verdict(
        fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=NodeName(blamed), because=("silence",)
    )


@pytest.mark.parametrize(
    ("fault", "blamed", "relays", "is_explained"),
    [
        (FaultCode.NODE_UNREACHABLE, "a3", ("b1", "a1"), True),
        (FaultCode.RELAY_NOT_FORWARDING, "a1", ("b1", "a1"), True),
        (FaultCode.NODE_UNREACHABLE, "a3", ("b2", "a2"), False),
        (FaultCode.LEADER_DEAD, "a1", ("b1", "a1"), False),
    ],
)
def test_a_relay_that_leads_packets_to_a_node_astray_is_why_it_is_out_of_reach(fault, blamed, relays, is_explained):
    """The nodes behind it blame that node, and that node its own relay; of a path without that relay it is no word."""
    said = _said(fault, blamed)
    word = PeerFault(
        fault=FaultCode.POD_ROUTE_DIVERTED, culprit=NodeName("b1"), source=NodeName("b1"), is_own_leader=False
    )
    named = explain(said, [word], tuple(map(NodeName, relays)))

    assert ((FaultCode.POD_ROUTE_DIVERTED, "b1") if is_explained else (fault, blamed)) == (named.fault, named.culprit)


@pytest.mark.parametrize(
    ("fault", "blamed", "is_explained"),
    [
        (FaultCode.NODE_UNREACHABLE, "b2", True),
        (FaultCode.LEADER_DEAD, "b1", True),
        (FaultCode.WIREGUARD_BLOCKED, "b1", True),
        (FaultCode.WIREGUARD_BLOCKED, "a1", True),
        (FaultCode.ONE_WAY_BREAK, "b1", True),
        (FaultCode.LEADER_DEAD, "a1", False),
    ],
)
def test_a_relay_that_locks_a_node_out_is_why_its_tunnel_or_its_neighbour_is_silent(fault, blamed, is_explained):
    """Its members blame the far end of the tunnel, that end this relay, a neighbour its leader, and others it."""
    word = PeerFault(
        fault=FaultCode.NODE_ROUTE_BLOCKED, culprit=NodeName("b1"), source=NodeName("b1"), is_own_leader=True
    )
    named = explain(_said(fault, blamed), [word], (NodeName("b1"), NodeName("a1")))

    assert ((FaultCode.NODE_ROUTE_BLOCKED, "b1") if is_explained else (fault, blamed)) == (named.fault, named.culprit)


@pytest.mark.parametrize(
    ("node", "fault", "blamed", "is_explained"),
    [
        ("a2", FaultCode.NODE_UNREACHABLE, "b2", True),
        ("b2", FaultCode.RELAY_NOT_FORWARDING, "b1", True),
        ("a2", FaultCode.NODE_UNREACHABLE, "b3", False),
        ("a2", FaultCode.RELAY_NOT_FORWARDING, "b1", False),
        ("b3", FaultCode.RELAY_NOT_FORWARDING, "b1", False),
        ("b2", FaultCode.WIREGUARD_BLOCKED, "a1", False),
    ],
)
def test_a_node_that_a_leader_s_peers_may_not_carry_is_silent_for_that(node, fault, blamed, is_explained):
    """`wg set` that forgets b2 at a1: others blame b2, and b2 its own leader; of other nodes nothing follows."""
    code, a1 = FaultCode.ALLOWED_IPS_MISSING, NodeName("a1")
    told = {name: hellos.hello(name) for name in ("a1", "a2", "b1", "b2", "b3")}
    told["a1"] = msgspec.structs.replace(told["a1"], faults=(ToldFault(code, a1, NodeName("b2")),))
    named = explain(_said(fault, blamed), believe(told, node), (NodeName("b1"), a1))

    assert ((code, a1) if is_explained else (fault, blamed)) == (named.fault, named.culprit)


def test_who_cannot_carry_a_node_says_which_and_nobody_says_it_of_another():
    """Of pods alone nothing is told of the node; somebody else's word about a1 with a node is not believed."""
    code, a1, b2 = FaultCode.ALLOWED_IPS_MISSING, NodeName("a1"), NodeName("b2")
    missing = AuditFinding(code=code, device="kilo0", subject="10.2.0.12/32", peer=b2, culprit=a1)
    book = FindingBook(settings_for("a1"), "a1")
    assert list(book.report((missing, msgspec.structs.replace(missing, subject="10.244.5.0/24")), 1))
    told = confess(msgspec.structs.replace(HEALTHY, node=a1, findings=book.status()), {})
    assert {ToldFault(code, a1, b2), ToldFault(code, a1)} == {*told}

    words = {name: hellos.hello(name) for name in ("a1", "a2", "b1")}
    words["b1"] = msgspec.structs.replace(words["b1"], faults=(ToldFault(code, a1, b2),))
    assert () == believe(words, "a2")


@pytest.mark.parametrize(
    ("fault", "is_explained"),
    [(FaultCode.POD_NETWORK_BROKEN, True), (FaultCode.WIREGUARD_BLOCKED, True), (FaultCode.NODE_UNREACHABLE, False)],
)
def test_pods_of_which_the_own_leader_s_peers_have_a_part_elsewhere_are_silent_for_that(fault, is_explained):
    """And as ever the tunnel, where the whole of it was taken."""
    code, a1 = FaultCode.ALLOWED_IPS_STOLEN, NodeName("a1")
    word = PeerFault(fault=code, culprit=a1, source=a1, is_own_leader=True)
    named = explain(_said(fault, "b2"), [word], (NodeName("b1"), a1))

    assert ((code, a1) if is_explained else (fault, "b2")) == (named.fault, named.culprit)


@pytest.mark.parametrize(("culprit", "is_explained"), [("b2", True), ("", True), ("b3", False)])
def test_pods_of_which_another_peer_has_a_part_are_missed_for_that(culprit, is_explained):
    """The longer prefix counts, and it may hold the one address that pods' probes go to."""
    code = FaultCode.ALLOWED_IPS_STOLEN
    book = FindingBook(settings_for("a1"), "a1")
    stolen = AuditFinding(code=code, device="kilo0", subject="THIEF", peer="b2", culprit="a1")
    assert list(book.report((stolen,), 1))
    broken = FaultCode.POD_NETWORK_BROKEN

    assert (code if is_explained else broken) == book.explain(_said(broken, culprit)).fault


@pytest.mark.parametrize("fault", [FaultCode.WIREGUARD_BLOCKED, FaultCode.LEADER_DEAD])
def test_who_locks_a_node_out_knows_why_it_is_silent(fault):
    """And of no other node; where that was the last that answered, why it reaches nobody."""
    locked = AuditFinding(
        code=FaultCode.NODE_ROUTE_BLOCKED, device="eth0", subject="203.0.113.11/32", peer="a1", culprit="b1"
    )
    book = FindingBook(settings_for("b1"), "b1")
    assert list(book.report((locked,), 1))

    assert FaultCode.NODE_ROUTE_BLOCKED == book.explain(_said(fault, "a1")).fault
    assert fault == book.explain(_said(fault, "a2")).fault
    alone = _said(FaultCode.LOCAL, "b1")
    assert FaultCode.NODE_ROUTE_BLOCKED == book.explain(alone, (NodeName("a1"),)).fault
    assert alone == book.explain(alone, (NodeName("a2"),))


@pytest.mark.parametrize("fault", [FaultCode.OVERLAY_NEW_FLOWS, FaultCode.CONNTRACK_FULL])
def test_a_node_that_is_silent_behind_a_relay_that_passes_some_flows_is_not_to_blame(fault):
    """The flows to another node there happened to be among those that pass, and a1 had called b3 unreachable."""
    a1, a2, b1, b2 = map(NodeName, ("a1", "a2", "b1", "b2"))
    word = [PeerFault(fault=fault, culprit=b1, source=a2, is_own_leader=False)]
    silent = _said(FaultCode.NODE_UNREACHABLE, "b3")

    explained = explain(silent, word, (b1, a1))
    assert (fault, "b1") == (explained.fault, explained.culprit)
    assert "the probes of this node alone say node-unreachable" in explained.because
    assert silent is explain(silent, word, (b2, a1)), "a path that goes around it"


def test_the_leader_at_the_other_end_passes_it_on():
    """What the relay says itself does not come to the node that it hides."""
    told = ToldFault(FaultCode.POD_ROUTE_DIVERTED, NodeName("b1"))
    bench: Bench = ready("a1")
    mesh = {
        str(name): msgspec.structs.replace(each, faults=(told,) if name == "b1" else ())
        for name, each in hellos.whole_mesh().items()
    }

    assert (told,) == confess(bench.engine.status(bench.now, {}), mesh)
