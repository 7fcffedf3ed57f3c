"""Who is on the way to another location, and what follows for the questions about a path."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.legs import any_leg, leg, neighbours_asked
from meshwatchd.core.diagnosis.transit import transit_of
from meshwatchd.model.ids import NodeName
from tests.support.cluster_node import topology as cluster_topology
from tests.support.lab_mesh import direct_topology, topology_of


def _way(topology):
    """By which nodes packets of this node leave its location and enter the next one."""
    transit, path = transit_of(topology), topology.local_paths()[0]
    there = path.other_location(topology.local.location)
    return transit.leaves_by(topology.local, path), transit.enters_by(there, path)


@pytest.mark.parametrize(
    ("topology", "way"),
    [(topology_of("b3"), ("b1", "a1")), (direct_topology("n1"), ("n1", "n2")), (cluster_topology("e2"), ("e2", ""))],
)
def test_packets_pass_leaders_unless_each_node_sends_its_own(topology, way):
    """Kilo, flannel over wg0, Cluster Mesh."""
    assert way == _way(topology)


def test_one_host_of_a_cluster_that_answers_is_enough():
    """Each may have a fault of its own; of a leader's tunnel there is one."""
    assert (any_leg, leg) == (transit_of(cluster_topology()).weigh, transit_of(topology_of("a1")).weigh)


def test_what_is_lost_to_all_is_lost_here_where_one_node_is_at_each_end():
    """With leaders in between it may be any of them, and a cluster has many nodes."""
    meshes = direct_topology("n1"), topology_of("a1"), cluster_topology()
    assert [True, False, False] == [transit_of(each).is_node_to_node for each in meshes]


def test_a_member_of_a_star_has_no_neighbour_whose_answer_clears_its_overlay():
    """What its leader reaches decides (Submariner); elsewhere nothing is said against it while nobody is asked."""
    star = msgspec.structs.replace(topology_of("b3"), is_overlay_star=True)
    assert (Leg.DEAD, Leg.ALIVE) == (transit_of(star).overlay_unasked, transit_of(topology_of("b3")).overlay_unasked)


def test_a_node_of_a_cluster_asks_a_few_of_its_neighbours():
    """All would be too many, where each node has to find out for itself."""
    assert transit_of(cluster_topology()).most_beside > transit_of(topology_of("b3")).most_beside
    assert transit_of(cluster_topology()).neighbours is neighbours_asked


def test_a_leader_of_many_asks_some_of_them():
    """Their silence tells as much, and a burst to all would be a flood."""
    nine: Any = tuple(SimpleNamespace(plan=SimpleNamespace(peer=f"a{number}")) for number in range(1, 10))

    asked = [each.plan.peer for each in transit_of(topology_of("a1")).neighbours(nine, NodeName("a7"))]
    assert ["a1", "a2", "a3", "a4", "a8", "a9"] == asked


def test_a_path_to_another_cluster_that_works_proves_the_overlay_of_this_node():
    """Its packets cross the overlay that neighbours are reached by; in Kilo a tunnel carries them."""
    assert (True, False) == tuple(
        transit_of(each).proves_own_overlay for each in (cluster_topology(), topology_of("a1"))
    )


@pytest.mark.parametrize("topology", [topology_of("b3"), cluster_topology()])
def test_it_is_part_of_an_engine_that_is_written_down(topology):
    """A checkpoint of the journal holds the engine with all that it refers to."""
    assert transit_of(topology) == pickle.loads(pickle.dumps(transit_of(topology)))
