"""Whether connections fail both ways: what the nodes over there report, and nothing beyond."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.membership.node_list import add_reports
from meshwatchd.core.operators.other_direction import tell_other_direction
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_report import AdvertisedVerdict, NodeReport
from meshwatchd.model.node_status import FRESH_NS
from tests.support.example_nodes import NODES
from tests.support.example_status import HEALTHY, status, verdict

WELL, UNWELL = NodeReport(severity="ok"), NodeReport(severity="warning")
KUBELET, APISERVER = FaultCode.KUBELET_UNREACHABLE, FaultCode.APISERVER_UNREACHABLE


def _report(fault: str, towards: str, culprit: str) -> NodeReport:
    return NodeReport(severity="warning", verdicts=(AdvertisedVerdict(towards, fault, culprit),))


def _told(fault: FaultCode, culprit: str = "a3", *, age_ns: int = 0, **reports: NodeReport) -> str:
    """What b3 says, whose verdict that is, when some nodes have reported."""
    (pair,) = status(verdict(fault, culprit=culprit)).pairs
    nodes = add_reports(NODES, lambda name: (reports.get(name), age_ns if name in reports else None))
    return tell_other_direction(NodeName("b3"), pair, nodes)


@pytest.mark.parametrize(
    ("fault", "opposite", "asked"),
    [(KUBELET, APISERVER, "API servers"), (APISERVER, KUBELET, "kubelets")],
)
def test_a_node_over_there_that_is_well_makes_it_one_way(fault, opposite, asked):
    """If it asks at all: that it does not say. The node that is named speaks first."""
    expected = (
        f"a3 reports that all is well, and nobody in its location reports {opposite}:"
        f" if a3 has canaries for {asked} here, the break is one way, from b3 to a3"
    )
    assert expected == _told(fault, a1=WELL, a3=WELL)
    assert "if a1 has" in _told(fault, a1=WELL, a3=UNWELL)


def test_the_same_two_nodes_make_it_both_ways():
    """Whatever else is reported over there, and before it by name."""
    expected = "a3 reports apiserver-unreachable at b3: the other direction is broken as well"
    assert expected == _told(KUBELET, a1=_report(APISERVER, "cloud", "b1"), a3=_report(APISERVER, "cloud", "b3"))


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ({"a1": _report(APISERVER, "cloud", "b1"), "a3": WELL}, "a1 reports apiserver-unreachable at b1"),
        ({"a1": _report(APISERVER, "cloud", "b3")}, "a1 reports apiserver-unreachable at b3"),
        ({"a3": _report(APISERVER, "cloud", "b1")}, "a3 reports apiserver-unreachable at b1"),
    ],
)
def test_other_nodes_are_quoted_without_a_conclusion(reports, expected):
    """An API server that has stopped, or another way: neither is the other direction of this one."""
    assert expected == _told(KUBELET, **reports)


@pytest.mark.parametrize(
    "report",
    [
        UNWELL,
        NodeReport(),
        _report(APISERVER, "elsewhere", "c1"),
        _report(KUBELET, "cloud", "b1"),
    ],
)
def test_nothing_is_said_where_nobody_can_tell(report):
    """Of several faults a node names one, one that watches nothing sees none, and a third location is no direction."""
    assert not _told(KUBELET, a3=report)


def test_old_reports_and_those_of_this_side_do_not_count():
    """They speak of another time, or of the same direction."""
    assert _told(KUBELET, age_ns=FRESH_NS, a3=WELL)
    assert not _told(KUBELET, age_ns=FRESH_NS + 1, a3=WELL)
    assert not _told(KUBELET, b1=WELL)
    assert not _told(KUBELET)


def test_other_verdicts_have_no_such_direction():
    """Nor has health."""
    assert not _told(FaultCode.POD_UNREACHABLE, a3=WELL)
    assert not tell_other_direction(NodeName("b3"), msgspec.structs.replace(HEALTHY.pairs[0]), NODES)
