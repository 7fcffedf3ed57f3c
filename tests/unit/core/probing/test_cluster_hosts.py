"""A few hosts of another cluster are asked by each node, and all of them by somebody."""

from __future__ import annotations

from meshwatchd.core.probing.cluster_hosts import MOST_HOSTS, hosts_asked
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import NO_PATH, Layer
from meshwatchd.model.topology import build_mesh
from tests.support.cluster_node import EAST, WEST, mesh, settings, topology


def _large(count):
    found = mesh(*EAST, *(f"w{number}" for number in range(1, count + 1)))
    return build_mesh(found.location, found.node)


def test_a_few_are_asked_whatever_the_size_of_the_cluster():
    """In a small one all of them."""
    assert set(WEST) == {node.name for node in hosts_asked(topology().mesh, "e1", "west")}
    assert MOST_HOSTS == len(hosts_asked(_large(40), "e1", "west"))


def test_different_nodes_ask_different_hosts():
    """So that none is asked by all."""
    large = _large(40)
    asked = [frozenset(node.name for node in hosts_asked(large, observer, "west")) for observer in EAST]

    assert len(EAST) == len(set(asked))
    assert asked[0] == frozenset(node.name for node in hosts_asked(large, EAST[0], "west"))


def test_each_node_asks_hosts_and_pods_of_other_clusters_and_of_its_own():
    """The first by name has no other sessions than the rest."""
    for name in ("e1", "e2"):
        plans = lay_out(Planner(topology(name), settings(name)), has_standby=False)
        found = {(plan.layer, plan.path != NO_PATH, plan.peer) for plan in plans if plan.canary is None}
        others = set(EAST) - {name}

        assert {(Layer.UNDERLAY, True, peer) for peer in WEST} <= found
        assert {(Layer.RELAY, True, peer) for peer in WEST} <= found
        assert {(layer, False, peer) for peer in others for layer in (Layer.UNDERLAY, Layer.OVERLAY)} <= found
        assert not any(plan.layer is Layer.WIREGUARD for plan in plans)
