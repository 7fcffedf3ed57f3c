"""A fault with who reports it, and how long ago."""

from __future__ import annotations

import msgspec

from meshwatchd.cli.render_reported import explain_reported, render_reported
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.node_status import ReportedFault


def _fault(fault, towards="onprem", culprit="b1"):
    return ReportedFault(
        reported_by=NodeName("b2"),
        location=LocationName("cloud"),
        age_ns=4_000_000_000,
        towards=towards,
        fault=fault,
        culprit=culprit,
        severity="critical",
    )


def _line(*words):
    return render_reported(_fault(*words), paint_nothing)


def test_a_fault_of_the_catalogue_has_its_title():
    """And the location whose traffic suffers."""
    assert "CRITICAL  b2 reports: to onprem: the leader answers on no layer [at b1, underlay], 4.0 s ago" == _line(
        "leader-dead"
    )


def test_a_fault_of_another_version_has_its_code():
    """Better a word than none."""
    assert "CRITICAL  b2 reports: a-fault-of-tomorrow, 4.0 s ago" == _line("a-fault-of-tomorrow", "", "")


def test_an_explanation_says_where_the_evidence_is():
    """A person on another node needs one more command, and its place."""
    head, *what = explain_reported(_fault("leader-dead"), paint_nothing)
    assert _line("leader-dead") == head
    assert CATALOGUE[FaultCode.LEADER_DEAD].remedy.split(":")[0] in what[0]
    assert "on b2: meshwatchctl explain" in what[-1]


def test_a_silent_tunnel_has_two_ends():
    """Whoever reports it names the other one."""
    both = msgspec.structs.replace(_fault("wireguard-no-data"), peer="b1")
    assert "[tunnel to b1, wireguard]" in render_reported(both, paint_nothing)


def test_an_entry_is_some_peers():
    """Which one says where frames get lost."""
    fault = msgspec.structs.replace(_fault("fdb-entry-wrong", ""), peer="b3")

    assert "[at b1, peer b3, overlay]" in render_reported(fault, paint_nothing)
