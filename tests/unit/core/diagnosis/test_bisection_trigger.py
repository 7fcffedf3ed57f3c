"""Which verdicts deserve a bisection, and towards whom."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.diagnosis.bisection_trigger import WITNESSES, choose_peer
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from tests.support.lab_mesh import declared_mesh


def verdict(fault: FaultCode = FaultCode.OVERLAY_NEW_FLOWS, culprit: str = "b1") -> Verdict:
    """As the classifier makes it."""
    entry = CATALOGUE[fault]
    return Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)


@pytest.mark.parametrize(
    ("node", "peer"), [("b3", "b1"), ("b2", "b1"), ("b1", "b2"), ("a1", None), ("a3", None), ("x9", None)]
)
def test_the_location_of_the_culprit_looks(node, peer):
    """Members towards the leader, the leader towards its standby; the other location sees nothing of that overlay."""
    assert peer == choose_peer(verdict(), declared_mesh(), node)


@pytest.mark.parametrize(
    "quiet",
    [
        verdict(FaultCode.NONE),
        verdict(FaultCode.WIREGUARD_BLOCKED),
        verdict(FaultCode.LEADER_DEAD),
        verdict(culprit=""),
        verdict(culprit="x9"),
    ],
)
def test_other_verdicts_need_no_proof(quiet):
    """No fault, another layer, nobody accused, or somebody who is not of the mesh."""
    assert choose_peer(quiet, declared_mesh(), "b3") is None


def test_a_large_location_does_not_stampede():
    """The culprit, the relays, and the first members by name."""
    mesh = declared_mesh()
    more = tuple(
        msgspec.structs.replace(mesh.node[-1], name=NodeName(f"c{number}"), node_ip=f"10.2.1.{number}")
        for number in range(1, 9)
    )
    large = msgspec.structs.replace(mesh, node=(*mesh.node, *more))
    asked = [node.name for node in large.node if choose_peer(verdict(), large, node.name)]

    assert ["b1", "b2", "b3", "c1", "c2"] == asked
    assert WITNESSES == len(asked) - 2


def test_a_leader_without_standbys_looks_at_a_member():
    """Somebody has to be at the other end."""
    mesh = declared_mesh()
    bare = tuple(msgspec.structs.replace(location, standbys=()) for location in mesh.location)

    assert "b2" == choose_peer(verdict(), msgspec.structs.replace(mesh, location=bare), "b1")
