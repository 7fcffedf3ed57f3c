"""What the daemon knows of the way to a service."""

from __future__ import annotations

import msgspec

from meshwatchd.cli.service_ways import find_ways
from meshwatchd.model.faults import FaultCode
from tests.support.example_nodes import NODES
from tests.support.example_status import HEALTHY, MOVED, STUCK, status, verdict

POD_OF_A3, POD_OF_B1, POD_OF_B3 = "10.244.3.7", "10.244.4.7", "10.244.6.7"


def _way(address, shown):
    (found,) = find_ways((address,), shown, NODES)
    return found


def test_a_pod_of_another_location_is_behind_the_path_in_use():
    """Traffic that has moved is well, and the verdict about the primary path is told all the same."""
    way = _way(POD_OF_A3, MOVED)
    assert ("a3", "pod", "onprem", "b2-a1", "good") == (way.node, way.kind, way.location, way.path, way.state)
    assert (False, False) == (way.is_local, way.is_broken)
    assert way.fault == MOVED.pairs[0].verdict.fault
    assert ("", False) == (_way(POD_OF_A3, HEALTHY).fault, _way(POD_OF_A3, HEALTHY).is_broken)


def test_a_path_in_use_that_is_down_is_broken_with_layer_and_node():
    """As the verdict names them."""
    way = _way(POD_OF_A3, STUCK)
    shown = STUCK.pairs[0].verdict
    assert way.is_broken
    assert (shown.fault.value, shown.layer.name.lower(), shown.culprit) == (way.fault, way.layer, way.culprit)


def test_pods_of_the_node_that_is_at_fault_are_not_gone_around():
    """The standby is good for everybody else."""
    moved = status(verdict(FaultCode.OVERLAY_NEW_FLOWS, culprit="a3"), states="down good good good", active=1)
    assert _way(POD_OF_A3, moved).is_broken
    assert not _way("10.244.1.7", moved).is_broken


def test_neighbours_and_this_node_are_local():
    """By the layers to the node; this node needs none."""
    neighbour, own = _way(POD_OF_B1, HEALTHY), _way(POD_OF_B3, HEALTHY)
    assert (True, "") == (neighbour.is_local, neighbour.path)
    assert (True, "up", False) == (own.is_local, own.state, own.is_broken)


def test_an_address_of_no_node_may_be_anywhere_else():
    """All pairs of locations are looked at; one that is found is enough."""
    (way,) = find_ways(("10.96.7.7",), STUCK, NODES)
    assert ("", "", "onprem", True) == (way.address, way.node, way.location, way.is_broken)
    assert ["a3"] == [each.node for each in find_ways(("10.96.7.7", POD_OF_A3, POD_OF_A3), STUCK, NODES)]
    assert () == find_ways((), msgspec.structs.replace(HEALTHY, pairs=()), NODES)


def test_what_a_canary_finds_wrong_with_a_service_breaks_no_way():
    """It names the node of the service while every layer below answers; a pod that is silent to it may be cut off."""
    bad = status(verdict(FaultCode.POLICY_OR_BACKEND, culprit="a3"), states="good good good good")
    assert not _way(POD_OF_A3, bad).is_broken
    cut_off = status(verdict(FaultCode.NODE_UNREACHABLE, culprit="a3"), states="good good good good")
    assert _way(POD_OF_A3, cut_off).is_broken
