"""Dead ends that lose a part of another node's pods, and those that are somebody's good right."""

from __future__ import annotations

from errno import EACCES, EHOSTUNREACH, EINVAL, ENETUNREACH

import msgspec
import pytest

from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.core.audit.pod_routes import MAX_FOUND, PodRouteAudit
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import MAIN_TABLE, RTPROT_BOOT
from meshwatchd.model.audit_facts import FaultRaised
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity, Verdict
from meshwatchd.model.ids import NodeName
from meshwatchd.model.route_lookup import RouteAnswer
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import DeviceRoute
from tests.support.lab_mesh import declared_mesh, settings_for, snapshot_of

MESH = declared_mesh()
PART = "10.244.3.128/25"
OF_A3 = DeviceRoute(dst="10.244.3.0/24", dev="kilo0", table=MAIN_TABLE, protocol=4)
TO_A3 = DeviceRoute(dst="192.168.100.13/32", dev="kilo0", table=MAIN_TABLE, protocol=4)
OF_B3 = DeviceRoute(dst="10.244.6.0/24", via="10.244.6.0", dev="flannel.1", table=MAIN_TABLE, protocol=RTPROT_BOOT)


def _end(dst=PART, kind="blackhole", protocol=RTPROT_BOOT, table=MAIN_TABLE):
    return DeviceRoute(dst=dst, dev="", table=table, protocol=protocol, kind=kind)


def _found(*ends, routes=(OF_A3, TO_A3, OF_B3), answers=None, errno=EINVAL):
    """The findings at b1, whose kernel drops what a dead end has, or answers as it is told."""
    seen = msgspec.structs.replace(snapshot_of("b1"), device_routes=routes, dead_ends=ends)
    view = View(snapshot=seen, mesh=MESH, node="b1", hellos={}, good=None)
    starts = {each.dst.partition("/")[0]: RouteAnswer(errno=errno) for each in ends}

    def ask(question):
        return {**starts, **(answers or {})}.get(question.destination, RouteAnswer(device="kilo0"))

    return tuple(PodRouteAudit("mw", ask).look(view, 1, SECOND, is_forwarding=True))


@pytest.mark.parametrize(
    ("kind", "errno"),
    [("blackhole", EINVAL), ("unreachable", EHOSTUNREACH), ("prohibit", EACCES), ("throw", ENETUNREACH)],
)
def test_a_dead_end_for_half_of_a_nodes_pods_is_named(kind, errno):
    """`ip route add blackhole 10.244.3.128/25`: the first address of a3's pods answers every probe."""
    (found,) = _found(_end(kind=kind), errno=errno)

    assert (FaultCode.POD_ROUTE_DIVERTED, "kilo0", PART) == found.name
    assert ("a3", "b1") == (found.peer, found.culprit)
    assert found.because[0].startswith("packets from 10.244.4.0 to 10.244.3.128 go nowhere")
    assert f"the main table has {kind} {PART}" in found.because
    assert "the mesh routes 10.244.3.0/24 of a3 into kilo0" in found.because
    assert found.is_of_few


@pytest.mark.parametrize(
    ("part", "severity"), [(PART, Severity.WARNING), ("10.244.3.0/25", Severity.CRITICAL)], ids=["few", "the node too"]
)
def test_a_part_of_the_pods_makes_a_node_no_worse_than_degraded(part, severity):
    """It may be shut out on purpose, and for weeks: nothing else of this node is in doubt for it."""
    (found,) = (each for each in _found(_end(part)) if each.subject == part)
    book = FindingBook(settings_for("b1"), "b1")
    (raised,) = book.report((found,), 1)
    (shown,) = book.status()

    assert isinstance(raised, FaultRaised)
    assert (severity, severity) == (raised.severity, shown.severity)
    assert shown.is_of_few is found.is_of_few is (severity is Severity.WARNING)


def test_a_dead_end_that_has_the_address_a_node_is_probed_by_is_told_as_its_loss():
    """`ip route add blackhole 10.244.3.0/25`: probes lose the node's overlay with that half of its pods."""
    (found,) = (each for each in _found(_end("10.244.3.0/25")) if each.subject != "10.244.3.0/24")

    assert not found.is_of_few


@pytest.mark.parametrize(
    ("fault", "culprit", "is_explained"),
    [
        (FaultCode.POD_NETWORK_BROKEN, "a3", True),
        (FaultCode.POD_UNREACHABLE, "", True),
        (FaultCode.NODE_UNREACHABLE, "a3", False),
        (FaultCode.POD_NETWORK_BROKEN, "a2", False),
    ],
)
def test_a_part_of_the_pods_is_no_cause_of_what_else_is_lost(fault, culprit, is_explained):
    """A pod that somebody has locked out may stand for weeks, and hides no other fault."""
    (found,) = _found(_end())
    book = FindingBook(settings_for("b1"), "b1")
    list(book.report((found,), 1))
    entry = CATALOGUE[fault]
    said = Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=NodeName(culprit))

    assert (FaultCode.POD_ROUTE_DIVERTED if is_explained else fault) == book.explain(said).fault


def test_a_part_of_a_neighbours_pods_and_a_single_pod_are_named_as_well():
    """By whatever device the mesh routes them, and whoever keeps routes in a file."""
    found = _found(_end("10.244.6.17/32", kind="unreachable"), _end("10.244.3.64/26", protocol=4))

    assert {("flannel.1", "10.244.6.17/32", "b3"), ("kilo0", "10.244.3.64/26", "a3")} == {
        (each.device, each.subject, each.peer) for each in found
    }


@pytest.mark.parametrize(
    ("end", "changes"),
    [
        (_end("10.244.4.128/26", protocol=12), {}),
        (_end("10.244.4.128/26"), {}),
        (_end("10.244.3.128/26", protocol=12), {}),
        (_end("10.244.3.128/26", protocol=80), {}),
        (_end("10.244.3.128/26", protocol=11), {}),
        (_end("10.244.3.128/26", protocol=196), {}),
        (_end("10.244.3.128/26"), {"routes": (TO_A3, OF_B3)}),
        (_end(), {"routes": (OF_A3, OF_B3, msgspec.structs.replace(OF_A3, dst="10.244.3.192/26"))}),
        (_end(), {"answers": {"10.244.3.128": RouteAnswer(device="mw0")}}),
        (_end(), {"answers": {"10.244.3.128": RouteAnswer(device="eth0")}}),
        (_end(), {"answers": {"10.244.3.128": RouteAnswer()}}),
        (_end("10.244.0.0/16"), {"answers": {"10.244.0.0": RouteAnswer(errno=EINVAL)}}),
        (_end("10.96.0.0/24"), {}),
        (_end(table=1107), {}),
    ],
    ids=[
        "Calico's block of this node",
        "a part of this node's own pods",
        "Calico's block of this node among another's pods",
        "Felix's block",
        "FRR's discard route",
        "FRR's static one",
        "pods that the mesh does not route",
        "a summary of the mesh's longer routes",
        "a failover leads past it",
        "a rule leads past it",
        "the kernel does not tell",
        "an aggregate of all pods, behind longer routes",
        "services",
        "another table",
    ],
)
def test_a_dead_end_that_loses_no_pods_of_others_is_not_told(end, changes):
    """Aggregates of routing daemons, this node's own blocks, and what nothing follows."""
    assert () == _found(end, **changes)


def test_a_dead_end_in_the_place_of_the_meshs_route_is_told_once():
    """That is the question for the node's pods as a whole."""
    (found,) = _found(_end("10.244.3.0/24"), routes=(TO_A3, OF_B3))

    assert "10.244.3.0/24" == found.subject


def test_a_node_whose_pods_are_all_lost_is_told_before_parts_of_others():
    """A list of pods that somebody has locked out is longer than what is told."""
    parts = [_end(f"10.244.6.{number}/32") for number in range(1, MAX_FOUND + 9)]
    lost = RouteAnswer(errno=EHOSTUNREACH)
    found = _found(*parts, answers={"10.244.3.0": lost, "192.168.100.13": lost})

    assert ["10.244.3.0/24", "192.168.100.13/32"] == [each.subject for each in found[:2]]
    assert MAX_FOUND == len(found)
