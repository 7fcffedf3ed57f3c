"""Nodes of a Cluster Mesh: each leads itself, and tells what only it can know of its own overlay and peers."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confession import confess
from meshwatchd.core.audit.peer_faults import believe, explain
from meshwatchd.model.discovery import Basis, Hello, ToldFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.profiles import compose
from tests.support.bench import ready
from tests.support.cluster_node import NAMES, cluster_of, snapshot, sources


def _hello(name, *told):
    view = compose.look(snapshot(name), sources(name), MeshSettings(), NodeName(name))
    view = msgspec.structs.replace(view, why=(), candidates=())
    return Hello(view=view, home=LocationName(cluster_of(name)), basis=Basis.SOURCE, faults=told)


def _mesh(**told):
    return {name: _hello(name, *told.get(name, ())) for name in NAMES}


def _verdict(fault, culprit):
    entry = CATALOGUE[fault]
    return Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)


def test_the_first_by_name_tells_of_its_overlay_like_any_other():
    """It stands for its cluster, and nobody sees its overlay but itself."""
    status = ready("b1").engine.status(0, {})
    pair = msgspec.structs.replace(status.pairs[0], verdict=_verdict(FaultCode.OVERLAY_BLACK_HOLE, "e1"))
    status = msgspec.structs.replace(status, node=NodeName("e1"), role="leader", pairs=(pair,))

    assert (ToldFault(FaultCode.OVERLAY_BLACK_HOLE, NodeName("e1")),) == confess(status, _mesh())


@pytest.mark.parametrize(
    "fault",
    [FaultCode.ALLOWED_IPS_MISSING, FaultCode.WIREGUARD_PEER_MISSING, FaultCode.WIREGUARD_PEER_DUPLICATE],
)
def test_what_is_wrong_with_the_peers_of_a_node_is_why_it_is_silent(fault):
    """VXLAN goes through them, and nodes are asked in VXLAN."""
    word = believe(_mesh(e1=[ToldFault(fault, NodeName("e1"))]), "w1")

    assert fault is explain(_verdict(FaultCode.NODE_UNREACHABLE, "e1"), word).fault
    assert FaultCode.NODE_UNREACHABLE is explain(_verdict(FaultCode.NODE_UNREACHABLE, "e2"), word).fault
