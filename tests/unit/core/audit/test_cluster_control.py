"""A control plane that the agent does not hear, beside probes that are answered."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.cluster_control import audit_control, controls_of
from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.sources import Sources
from tests.support.cluster_node import EAST, clusters, sources
from tests.support.example_status import HEALTHY


def _status(state="good", cluster="west"):
    pair = HEALTHY.pairs[0]
    paths = tuple(msgspec.structs.replace(path, state=state, is_active=path.rank == 0) for path in pair.paths)
    return msgspec.structs.replace(
        HEALTHY, pairs=(msgspec.structs.replace(pair, remote_location=cluster, paths=paths),)
    )


def test_the_engine_hears_of_each_cluster_how_it_is_and_how_many_nodes_are_listed():
    """Nothing of an agent that says nothing."""
    assert (ClusterControl(name="west", is_connected=True, nodes=3),) == controls_of(sources())
    assert (ClusterControl(name="west", is_connected=False, nodes=0),) == controls_of(
        sources(lost=["west"], names=EAST)
    )
    assert () == controls_of(Sources()) == controls_of(Sources(cilium=sources().cilium))


def test_a_cluster_that_is_connected_and_not_read_is_not_connected():
    """Its endpoints are those of before."""
    half = msgspec.structs.replace(clusters().clusters[0], is_ready=False)
    told = msgspec.structs.replace(sources(), cilium_clusters=msgspec.structs.replace(clusters(), clusters=(half,)))

    assert not controls_of(told)[0].is_connected
    (found,) = audit_control(told.cilium_clusters, _status())
    assert "is connected to it and has not read all of it" in found.because[0]


def test_a_control_plane_that_is_cut_is_named_while_nodes_answer():
    """With the agent's own words."""
    (found,) = audit_control(clusters("west"), _status())

    assert (FaultCode.CLUSTERMESH_CONTROL_CUT, "west", "", "") == (
        found.code,
        found.subject,
        found.device,
        found.culprit,
    )
    assert "after 7 attempts in vain" in found.because[0]
    assert "in its words: etcd: not connected" == found.because[1]


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (clusters(), _status()),
        (clusters("west"), _status("down")),
        (clusters("west"), _status("unknown")),
        (clusters("west"), _status(cluster="north")),
        (clusters("west"), None),
        (None, _status()),
    ],
    ids=["connected", "silent", "not yet probed", "another cluster answers", "no engine", "no agent"],
)
def test_nothing_is_said_without_both_proofs(told, status):
    """What is silent is the probes' to name."""
    assert [] == [*audit_control(told, status)]
