"""A status in the few words of a hello."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.operators.node_report import MAX_BYTES, MAX_SILENCES, make_report
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.node_report import AdvertisedSilence, AdvertisedVerdict, NodeReport
from meshwatchd.model.status import FindingStatus
from tests.support.example_status import HEALTHY, MOVED, session

FINDING = FindingStatus(
    fault=FaultCode.FORWARDING_OFF,
    layer=Layer.SELF,
    severity=Severity.CRITICAL,
    device="",
    subject="",
    peer="b2",
    culprit="",
    since_ns=0,
    because=(),
    repair="none",
    commands=(),
)


def test_a_healthy_node_says_so_and_no_more():
    """The path that is not in use may be silent."""
    quiet = tuple(msgspec.structs.replace(each, state="up") for each in HEALTHY.sessions)
    assert NodeReport(severity="ok") == make_report(msgspec.structs.replace(HEALTHY, sessions=quiet))


def test_verdicts_findings_and_silent_peers_are_told():
    """Of a peer the lowest layer on which it does not answer; a finding without a culprit is this node's."""
    report = make_report(msgspec.structs.replace(MOVED, findings=(FINDING,)))
    assert (
        AdvertisedVerdict("", "forwarding-off", "b3", "b2"),
        AdvertisedVerdict("onprem", "overlay-new-flows", "b1"),
    ) == report.verdicts
    assert (AdvertisedSilence("b1", Layer.OVERLAY),) == report.silences
    assert ("warning", False) == (report.severity, report.is_cut)


@pytest.mark.parametrize(("severity", "is_told"), [(Severity.WARNING, False), (Severity.CRITICAL, True)])
def test_a_part_of_a_nodes_pods_is_nobody_elses_concern(severity, is_told):
    """Whatever others miss behind this node has another cause, and the part may be shut out on purpose."""
    found = msgspec.structs.replace(FINDING, fault=FaultCode.POD_ROUTE_DIVERTED, culprit="b3", severity=severity)
    report = make_report(msgspec.structs.replace(HEALTHY, findings=(found,), severity=severity))

    assert (AdvertisedVerdict("", "pod-route-diverted", "b3", "b2"),) * is_told == report.verdicts
    assert (severity.value, False) == (report.severity, report.is_cut)


def test_a_verdict_of_another_nodes_is_not_passed_on():
    """Or it would go round for ever."""
    (pair,) = MOVED.pairs
    told = msgspec.structs.replace(pair, verdict=msgspec.structs.replace(pair.verdict, told_by="b2"))
    assert () == make_report(msgspec.structs.replace(MOVED, pairs=(told,))).verdicts


def test_what_has_no_room_is_left_out_and_that_is_told():
    """The lowest layers come first; a node that watches nothing has no severity."""
    layers = (Layer.OVERLAY, Layer.UNDERLAY)
    crowd = tuple(
        session(layers[number % 2], f"node-{number:02}", 0xFFFF, FlowClass.FRESH, "down", 1) for number in range(40)
    )
    report = make_report(msgspec.structs.replace(HEALTHY, sessions=crowd, pairs=()))
    assert ("", True, MAX_SILENCES) == (report.severity, report.is_cut, len(report.silences))
    assert {Layer.UNDERLAY} == {each.layer for each in report.silences}
    long = tuple(
        msgspec.structs.replace(each, peer=NodeName(f"{index}" + "x" * 200)) for index, each in enumerate(crowd)
    )
    assert MAX_BYTES >= sum(
        len(each.peer) for each in make_report(msgspec.structs.replace(HEALTHY, sessions=long)).silences
    )
