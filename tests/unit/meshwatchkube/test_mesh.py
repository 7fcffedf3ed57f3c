"""What is read out of the daemon's two replies."""

from __future__ import annotations

import pytest

from meshwatchd.core.membership.node_list import collect_faults
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity, Verdict
from meshwatchd.model.ids import Layer, LocationName, NodeName
from meshwatchd.model.node_status import NodeStatus, ReportedFault, SilentPeer
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.status import FindingStatus, PairStatus, PathStatus, Status
from meshwatchkube.mesh import SILENT, see, title


def _verdict(fault=FaultCode.OVERLAY_NEW_FLOWS, severity=Severity.CRITICAL, culprit="b1", told_by=""):
    return Verdict(
        fault=fault,
        layer=Layer.OVERLAY,
        severity=severity,
        pair=0,
        culprit=culprit,
        because=("40 of 40 new flows are lost", "old ones live", "and more"),
        told_by=told_by,
    )


def _path(rank, relays, state):
    return PathStatus(number=rank, rank=rank, relays=relays, state=state, is_active=rank == 2, is_local_relay=True)


def _status(verdict, **changes):
    paths = (
        _path(0, ("a1", "b1"), "down"),
        _path(1, ("a2", "b1"), "suspect"),
        _path(2, ("a1", "b2"), "good"),
        _path(3, ("a2", "b2"), "unwatched"),
    )
    pair = PairStatus(
        pair=0,
        location="onprem",
        remote_location="cloud",
        active_rank=2,
        generation=1,
        verdict=verdict,
        redundancy="full",
        paths=paths,
    )
    fields = {
        "at_ns": 1,
        "node": "a3",
        "location": "onprem",
        "role": "member",
        "mode": "enforce",
        "is_ready": True,
        "severity": Severity.CRITICAL,
        "pairs": (pair,),
        "sessions": (),
        "counters": {},
        **changes,
    }
    return Status(**fields)


def test_paths_and_the_own_verdict():
    """What is not watched is not known to be bad."""
    seen = see(_status(_verdict()), ())
    (pair,) = seen.pairs
    assert [True, True, False, False] == [path.is_bad for path in pair.paths]
    assert pair.is_diverted
    assert (("a1", "b2"), ("a1", "b1"), "cloud") == (pair.paths[2].relays, pair.primary_relays, pair.other("onprem"))
    (own,) = seen.reports
    assert ("a3", "onprem", "cloud", "overlay-new-flows", "b1", 0) == (
        own.reporter,
        own.location,
        own.towards,
        own.fault,
        own.culprit,
        own.age_ns,
    )
    assert f"{title('overlay-new-flows')}; 40 of 40 new flows are lost; old ones live" == own.words


def test_a_verdict_that_rests_on_anothers_word_is_no_report_of_ours():
    """It would count twice."""
    assert () == see(_status(_verdict(told_by="b3")), ()).reports
    calm = _verdict(fault=FaultCode.NONE, severity=Severity.OK, culprit="")
    assert () == see(_status(calm), ()).reports


def _finding(fault, severity=Severity.CRITICAL):
    entry = CATALOGUE[fault]
    return FindingStatus(
        fault=fault,
        layer=entry.layer,
        severity=severity,
        device="flannel.1",
        subject="",
        peer="",
        culprit="",
        since_ns=0,
        because=(),
        repair="none",
        commands=(),
    )


def test_findings_of_the_own_kernel_name_the_own_node():
    """Unless the fault is another one's."""
    finding = _finding(FaultCode.OVERLAY_DEVICE_DOWN)
    calm = _verdict(fault=FaultCode.NONE, severity=Severity.OK, culprit="")
    (report,) = see(_status(calm, findings=(finding,)), ()).reports
    assert ("a3", "", "overlay-device-down") == (report.culprit, report.towards, report.fault)


def test_a_part_of_a_nodes_pods_is_no_reason_to_keep_pods_off_this_one():
    """By the catalogue such a route loses all of them; a single pod may be shut out on purpose."""
    every = [_finding(FaultCode.POD_ROUTE_DIVERTED, severity) for severity in (Severity.WARNING, Severity.CRITICAL)]
    calm = _verdict(fault=FaultCode.NONE, severity=Severity.OK, culprit="")

    assert [0, 1] == [len(see(_status(calm, findings=(each,)), ()).reports) for each in every]


def _reported(by: str, fault: str, age_ns: int) -> ReportedFault:
    return ReportedFault(
        reported_by=NodeName(by),
        location=LocationName("cloud"),
        age_ns=age_ns,
        towards="onprem",
        fault=fault,
        culprit="b1",
        severity="critical",
    )


def test_reports_of_others_and_members():
    """With the catalogue's words, or the code itself of a version that is newer; what it says of itself comes first."""
    nodes = (
        NodeStatus(
            name=NodeName("b1"),
            location=LocationName("cloud"),
            role="leader",
            node_ip="10.2.0.11",
            heard_ago_ns=7,
            faults=(_reported("b1", "fault-of-the-future", 9),),
        ),
        NodeStatus(
            name=NodeName("b3"), location=LocationName("cloud"), faults=(_reported("b3", "overlay-new-flows", 5),)
        ),
        NodeStatus(name=NodeName("a3"), location=LocationName("onprem")),
    )
    seen = see(_status(_verdict(told_by="b3")), nodes)
    assert ["fault-of-the-future", title("overlay-new-flows")] == [each.words for each in seen.reports]
    assert [] == list(seen.fresh(4))
    assert ["b3"] == [each.reporter for each in seen.fresh(5)]
    b1 = seen.members["b1"]
    assert ("cloud", "leader", "10.2.0.11", 7) == (b1.location, b1.role, b1.address, b1.heard_ago_ns)
    assert seen.members["a3"].heard_ago_ns is None


def test_each_nodes_report_counts_where_people_are_shown_the_fault_once():
    """The daemon hides from people what its own verdict says already, by whose word ever."""
    nodes = [
        NodeStatus(
            name=NodeName(name), location=LocationName("cloud"), faults=(_reported(name, "overlay-new-flows", 5),)
        )
        for name in ("b2", "b3")
    ]
    nodes.append(NodeStatus(name=NodeName("a3"), faults=(_reported("a3", "overlay-new-flows", 0),)))
    status = _status(_verdict(told_by="b3"))
    assert () == collect_faults(nodes, status), "for people"
    assert ["b2", "b3"] == [each.reporter for each in see(status, nodes).reports]


@pytest.mark.parametrize(
    ("verdict", "changes"),
    [
        (_verdict(), {"is_ready": False}),
        (_verdict(), {"pairs": ()}),
        (_verdict(), {"rejected": "no leader"}),
        (_verdict(fault=FaultCode.LOCAL), {}),
    ],
    ids=["not ready", "watches nothing", "no mesh", "it is broken itself"],
)
def test_a_daemon_that_does_not_know_is_not_believed(verdict, changes):
    """It would accuse everybody."""
    assert not see(_status(verdict, **changes), ()).is_reliable
    assert see(_status(_verdict()), ()).is_reliable


def test_neighbours_that_are_silent_on_the_overlay_are_reported():
    """Silence below it is another matter, and has verdicts of its own."""
    silent = (SilentPeer(peer="b1", layer="overlay"), SilentPeer(peer="b2", layer="underlay"))
    nodes = (NodeStatus(name=NodeName("b3"), location=LocationName("cloud"), silent=silent, report_age_ns=9),)
    (report,) = see(_status(_verdict(told_by="b3")), nodes).reports
    assert ("b3", SILENT, "b1", 9) == (report.reporter, report.fault, report.culprit, report.age_ns)
    assert frozenset({"cloud", ""}) == report.sides


def test_holds_of_ours_are_told_from_those_of_people():
    """Only ours are ended here."""
    orders = (
        Order(kind=OrderKind.PIN, name="meshwatchd-kube", until_ns=1, location="cloud"),
        Order(kind=OrderKind.PIN, name="root", until_ns=1, location="x"),
        Order(kind=OrderKind.DRAIN, name="root", until_ns=1),
    )
    seen = see(_status(_verdict(), orders=orders), ())
    assert (("cloud",), False) == (seen.pins, seen.is_drained)
    drained = Order(kind=OrderKind.DRAIN, name="meshwatchd-kube", until_ns=1)
    assert see(_status(_verdict(), orders=(drained,)), ()).is_drained
