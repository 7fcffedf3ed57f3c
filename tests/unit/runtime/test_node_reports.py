"""Reports: the latest of each node, and one's own at once when it has changed."""

from __future__ import annotations

from meshwatchd.model.node_report import AdvertisedVerdict, NodeReport
from meshwatchd.runtime.node_reports import HURRY_GAP_NS, NodeReports
from tests.support.example_nodes import NODES
from tests.support.example_status import HEALTHY, MOVED, STUCK

CRITICAL = NodeReport(severity="critical", verdicts=(AdvertisedVerdict("cloud", "leader-dead", "b1"),))


def test_a_change_is_advertised_at_once_and_then_not_for_a_while():
    """The first status is no change: the first hello has it anyway."""
    reports = NodeReports()
    assert not reports.note(HEALTHY, 0)
    assert not reports.note(HEALTHY, 2 * HURRY_GAP_NS)
    assert reports.note(MOVED, 2 * HURRY_GAP_NS)
    assert not reports.note(STUCK, 2 * HURRY_GAP_NS + 1)
    assert reports.note(STUCK, 3 * HURRY_GAP_NS)
    own = reports.own()
    assert own is not None
    assert "critical" == own.severity


def test_each_node_has_its_latest_report_with_its_age():
    """This node its own; one that says nothing, or nonsense, none."""
    reports = NodeReports()
    reports.note(HEALTHY, 0)
    reports.hear("a1", NodeReport(severity="ok"), 1)
    reports.hear("a1", CRITICAL, 5)
    reports.hear("a2", None, 5)
    reports.hear("a3", NodeReport(severity="splendid"), 5)
    found = {str(node.name): node for node in reports.add_to(NODES, "b3", 9)}

    told = {name: (found[name].severity, found[name].report_age_ns) for name in found}
    assert {"a1": ("critical", 4), "b3": ("ok", 0)} == {name: each for name, each in told.items() if each[0]}
    assert found["a2"].report_age_ns is None
    (fault,) = found["a1"].faults
    assert ("a1", "onprem", 4, "cloud", "b1", "critical") == (
        fault.reported_by,
        fault.location,
        fault.age_ns,
        fault.towards,
        fault.culprit,
        fault.severity,
    )


def test_a_report_is_as_old_as_the_last_sign_of_its_node():
    """What a node has said holds until it says something else, or falls silent."""
    reports = NodeReports()
    reports.hear("a1", CRITICAL, 5)
    for name, at_ns in (("a1", 8), ("a1", 6), ("a2", 8)):
        reports.hear_of(name, at_ns)
    found = {str(node.name): node for node in reports.add_to(NODES, "b3", 9)}

    assert (1, None) == (found["a1"].report_age_ns, found["a2"].report_age_ns)


def test_nodes_that_are_gone_are_forgotten():
    """Or a mesh whose nodes come and go would grow for ever."""
    reports = NodeReports()
    reports.hear("a1", CRITICAL, 0)
    reports.add_to((), "b3", 0)
    assert not any(node.faults for node in reports.add_to(NODES, "b3", 0))
