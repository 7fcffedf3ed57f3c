"""Every node is listed once, with what is known of it and since when."""

from __future__ import annotations

import msgspec

from meshwatchd.core.membership.cadence import SILENT_NS
from meshwatchd.core.membership.node_list import add_reports, collect_faults, list_nodes, remark_versions
from meshwatchd.core.membership.roster import Heard
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.node_report import AdvertisedVerdict, NodeReport
from meshwatchd.model.settings import SECOND
from tests.support import hellos
from tests.support.example_nodes import node as node_of
from tests.support.example_reports import reporting
from tests.support.example_status import HEALTHY, MOVED, status, verdict
from tests.support.lab_mesh import declared_mesh


def test_nodes_of_the_mesh_and_nodes_that_were_heard_are_listed_once():
    """a1 answers, b1 was heard, a2 is declared and silent."""
    peers = {hellos.hello("b1").view.node: Heard(hello=hellos.hello("b1", version="0.2", mode="enforce"), at_ns=SECOND)}
    nodes = {str(each.name): each for each in list_nodes(declared_mesh(), hellos.hello("a1"), peers, 3 * SECOND)}

    assert ["a1", "a2", "a3", "b1", "b2", "b3"] == sorted(nodes)
    assert (0, 2 * SECOND, None) == tuple(nodes[name].heard_ago_ns for name in ("a1", "b1", "a2"))
    assert ("leader", "standby", "member") == tuple(nodes[name].role for name in ("b1", "b2", "b3"))
    assert ("0.2", "enforce", "") == (nodes["b1"].version, nodes["b1"].mode, nodes["a2"].version)
    assert "10.2.0.12" == nodes["b2"].node_ip


def test_a_node_of_a_large_location_may_be_silent_for_longer():
    """Nobody is warned of it, and what it reports counts, while it has only to wait for its turn."""
    peers = {}
    for number in range(200):
        base = hellos.hello("a2" if number < 100 else "b1")
        view = msgspec.structs.replace(base.view, node=f"n{number}")
        peers[view.node] = Heard(hello=msgspec.structs.replace(base, view=view), at_ns=0)
    nodes = {str(each.name): each.fresh_ns for each in list_nodes(None, hellos.hello("a1"), peers, SECOND)}

    assert SILENT_NS == nodes["n0"] == nodes["a1"] < nodes["n100"]


def test_without_a_mesh_there_are_those_that_were_heard():
    """Their location is what they take it for."""
    (node,) = list_nodes(None, hellos.hello("b1", home="cloud"), {}, 0)
    assert ("b1", "cloud", "member", "10.244.4.0/24") == (node.name, node.location, node.role, node.pod_cidr)


def _reported(by, fault, culprit, *, age_s=1, severity="critical"):
    report = NodeReport(severity=severity, verdicts=(AdvertisedVerdict("cloud", fault, culprit),))
    (node,) = add_reports((node_of(by),), lambda _: (report, age_s * SECOND))
    return node


def test_a_fault_is_told_once_by_whoever_has_it_or_by_the_latest():
    """The worst first, then those of the own location; this node's own are not among them."""
    nodes = (
        _reported("a1", "leader-dead", "b1", age_s=1),
        _reported("a2", "leader-dead", "b1", age_s=2),
        _reported("b1", "leader-dead", "b1", age_s=9),
        _reported("b2", "standby-down", ""),
        _reported("a3", "a-fault-of-tomorrow", "a3"),
        _reported("b3", "local", "b3"),
        _reported("a2", "forwarding-off", "a2", age_s=200),
    )
    (degraded,) = _reported("a1", "leader-dead", "b1", severity="warning").faults
    assert "warning" == degraded.severity
    assert [
        ("b1", "leader-dead", "critical"),
        ("b2", "standby-down", "warning"),
        ("a3", "a-fault-of-tomorrow", "warning"),
    ] == [(each.reported_by, each.fault, each.severity) for each in collect_faults(nodes, HEALTHY)]


def test_what_this_node_has_found_itself_is_not_told_by_others():
    """b2 has the same verdict as this node; b1's own word is new."""
    assert ["b1"] == [each.reported_by for each in collect_faults(reporting(), MOVED)]


def test_each_end_of_a_silent_tunnel_names_the_other():
    """One fault, which this node shows as the tunnel's; a node of elsewhere may mean another tunnel."""
    found = status(verdict(FaultCode.WIREGUARD_BLOCKED, culprit="b1"))
    far = msgspec.structs.replace(_reported("a2", "wireguard-blocked", "b1"), faults=())
    fault = _reported("a2", "wireguard-blocked", "a1").faults[0]
    for towards, count in (("cloud", 0), ("lab", 1)):
        nodes = (msgspec.structs.replace(far, faults=(msgspec.structs.replace(fault, towards=towards),)),)
        assert count == len(collect_faults(nodes, found)), towards


def test_nodes_of_other_versions_are_remarked():
    """Those that were heard lately; a node that does not know its own version says nothing."""
    others = tuple(msgspec.structs.replace(node_of(name), version="0.0.9") for name in ("a1", "a2"))
    silent = msgspec.structs.replace(node_of("a3", heard_ago_ns=200 * SECOND), version="0.0.8")
    (remark,) = remark_versions((node_of("b3"), node_of("b1"), *others, silent), "b3")
    assert remark.startswith("a1, a2 run meshwatchd 0.0.9, this node ")
    assert () == remark_versions(others, "b3")
