"""A cluster of which nothing answers: what is lost, where, and what the agent has to do with it."""

from __future__ import annotations

import pytest

from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.events import SnapshotReceived
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import VerdictChanged
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import Bench
from tests.support.cluster_node import EAST, WEST, settings, snapshot

CONNECTED = ClusterControl(name="west", is_connected=True, nodes=3)
CUT = ClusterControl(name="west", is_connected=False, nodes=3)
HOSTS, PODS = (Layer.UNDERLAY,), (Layer.RELAY, Layer.EFFECTIVE, Layer.POD_NETWORK)
NEIGHBOURS = tuple(name for name in EAST if name != "e1")


def _bench(control=CONNECTED):
    bench = Bench("e1", settings=settings(), snapshot=snapshot(control=control))
    bench.run(12 * SECOND)
    assert (FaultCode.NONE, "") == _named(bench)
    return bench


def _named(bench):
    current = bench.controller.verdicts.current
    return current.fault, current.culprit


def _lose(bench, *layers, peers=WEST, others=False):
    """Other nodes of the cluster lose it as well, or say that they do not."""
    bench.silent = lambda plan: plan.layer in layers and plan.peer in peers
    bench.vouch()
    if others:
        bench.object(*NEIGHBOURS)


def _told(bench):
    return [(each.verdict.fault, each.verdict.culprit) for each in bench.said(VerdictChanged)]


def _because(bench):
    return "\n".join(bench.controller.verdicts.current.because)


def test_packets_that_are_lost_between_two_clusters_are_named_though_the_agent_is_well():
    """cilium#20547: every status is good, and nothing arrives."""
    bench = _bench()
    _lose(bench, *PODS, others=True)
    bench.run(5 * SECOND)

    assert (FaultCode.CLUSTERMESH_DATAPATH_CUT, "") == _named(bench)
    assert {(FaultCode.CLUSTERMESH_DATAPATH_CUT, ""), (FaultCode.UNDETERMINED, "")} >= {*_told(bench)}
    assert Severity.CRITICAL is bench.controller.verdicts.current.severity
    assert "hosts of west answer at their own addresses" in _because(bench)
    assert "Cilium's agent reports west as connected" in _because(bench)
    assert "UDP 8472" in _because(bench)


def test_a_cluster_whose_hosts_are_silent_as_well_is_named_at_once_and_its_backends_once_the_agent_has_noticed():
    """cilium#20729: nobody takes them out. The agent's word is minutes late, and no name before it is wrong."""
    bench = _bench()
    _lose(bench, *PODS, *HOSTS, others=True)
    bench.run(5 * SECOND)
    assert (FaultCode.CLUSTERMESH_DATAPATH_CUT, "") == _named(bench)

    bench.feed(SnapshotReceived(snapshot=snapshot(control=CUT)))
    bench.run(2 * SECOND)
    assert (FaultCode.CLUSTER_BACKENDS_UNREACHABLE, "") == _named(bench)
    assert "still lists 3 nodes of west" in _because(bench)
    assert "cilium clustermesh disconnect" in _because(bench)


def test_a_cut_control_plane_beside_hosts_that_answer_is_no_dead_cluster():
    """Both are cut, and the cluster lives."""
    bench = _bench(CUT)
    _lose(bench, *PODS, others=True)
    bench.run(5 * SECOND)

    assert (FaultCode.CLUSTERMESH_DATAPATH_CUT, "") == _named(bench)
    assert "reports west as not ready" in _because(bench)


@pytest.mark.parametrize(
    ("layers", "fault"),
    [(PODS, FaultCode.OVERLAY_BLACK_HOLE), ((*PODS, *HOSTS), FaultCode.CLUSTERMESH_DATAPATH_CUT)],
)
def test_what_one_node_alone_misses_is_its_own(layers, fault):
    """The others of its cluster reach the other one; until they have said so nobody is named."""
    bench = _bench()
    _lose(bench, *layers)
    bench.run(8 * SECOND)

    assert (fault, "e1") == _named(bench)
    assert {(fault, "e1"), (FaultCode.UNDETERMINED, "")} >= {*_told(bench)}
    assert "other nodes of this cluster reach west" in _because(bench)


@pytest.mark.parametrize("others", [False, True])
def test_an_overlay_that_is_dead_to_everybody_is_this_nodes(others):
    """And that is said of no cluster at any time, whatever has become of its neighbours."""
    bench = _bench()
    _lose(bench, *PODS, Layer.OVERLAY, peers=(*EAST, *WEST), others=others)
    bench.run(8 * SECOND)

    assert (FaultCode.OVERLAY_BLACK_HOLE, "e1") == _named(bench)
    assert {(FaultCode.OVERLAY_BLACK_HOLE, "e1"), (FaultCode.UNDETERMINED, "")} >= {*_told(bench)}
    assert "--field-selector spec.nodeName=e1" in _because(bench)


def test_a_node_that_is_silent_alone_is_that_nodes_fault():
    """The first by name is one like any other."""
    for lone in ("w1", "w2"):
        bench = _bench()
        _lose(bench, *PODS, peers=(lone,))
        bench.run(8 * SECOND)

        assert (FaultCode.NODE_UNREACHABLE, lone) == _named(bench)
        assert {(FaultCode.NODE_UNREACHABLE, lone)} == {*_told(bench)}


def test_a_neighbour_whose_overlay_is_dead_is_nothing_that_this_node_has():
    """Its way to the other cluster works."""
    bench = _bench()
    _lose(bench, Layer.OVERLAY, peers=NEIGHBOURS)
    bench.run(20 * SECOND)

    assert [] == _told(bench)


def test_without_a_neighbour_a_lost_cluster_is_named_all_the_same():
    """Nobody else can say anything."""
    bench = _bench()
    bench.silent = lambda plan: plan.layer in (*PODS, *HOSTS) and plan.peer != "e1"
    bench.run(20 * MS)
    bench.run(8 * SECOND)

    assert FaultCode.NONE is not _named(bench)[0]
