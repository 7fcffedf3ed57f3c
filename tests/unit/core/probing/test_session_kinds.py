"""What the schedule knows of each session: turns that it shares, and how crowded its leg and its locations are."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.probing.scouts import close, scouts
from meshwatchd.core.probing.session_kinds import kinds_of
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import OVERLAY_MESH
from tests.support.lab_mesh import (
    big_mesh,
    declared_mesh,
    led_by,
    planner_of,
    settings_for,
    snapshot_of,
    topology_of,
)


def test_the_schedule_is_told_how_crowded_a_leg_is():
    """Three nodes with three, both ways, share the outer flows of a leg; at rest two scouts with two."""
    planner = planner_of("a3")
    plans = lay_out(planner, has_standby=True)
    kinds = kinds_of(planner, plans)
    fresh = [(plan.layer, kinds[plan.session]) for plan in plans if plan.flow is FlowClass.FRESH]
    shares = {layer: (kind.share, kind.rest_share) for layer, kind in fresh}

    alone = dict.fromkeys((Layer.UNDERLAY, Layer.SELF, Layer.POD_NETWORK), (0, 0))
    assert {Layer.RELAY: (6, 4), Layer.EFFECTIVE: (6, 4), Layer.OVERLAY: (2, 2), **alone} == shares
    assert {0} == {kinds[plan.session].share for plan in plans if plan.flow is FlowClass.PINNED}
    assert {"b1", "b2"} == {str(plan.peer) for plan in plans if kinds[plan.session].is_relay}


@pytest.mark.parametrize(("leader", "spare"), [("b1", 4), ("b2", 1)])
def test_the_schedule_is_told_which_sessions_cross_the_link_between_the_leaders(leader, spare):
    """Which link that is follows the leaders, not the rank; the primary path, which joins the same two, is not it."""
    mesh = led_by(leader) if leader != "b1" else declared_mesh()
    topology = OVERLAY_MESH.recognise(snapshot_of("a3", mesh=mesh), mesh, NodeName("a3"))
    assert isinstance(topology, Topology)
    planner = Planner(topology, msgspec.structs.replace(settings_for("a3"), mesh=mesh))
    plans = lay_out(planner, has_standby=True)
    kinds = kinds_of(planner, plans)

    assert {spare} == {plan.path for plan in plans if kinds[plan.session].is_spare}
    over = [plan for plan in plans if plan.layer is Layer.RELAY and plan.path == spare]
    assert over
    assert all(kinds[plan.session].is_spare for plan in over)


def test_all_nodes_of_two_locations_share_the_turns_among_pods():
    """Three nodes and three cost the WAN five probes a second; so do a hundred and a hundred, each of 18 peers."""
    crowds = {ours: _pod_network_crowds(big_mesh(ours, ours)) for ours in (3, 100)}

    assert {"a": 6, "b": 6} == crowds[3]
    assert {"a": 200, "b": 200 * 18 // 3} == crowds[100]


def _kinds(mesh, name):
    """Each session's plan and kind, on a node of such a mesh."""
    topology = msgspec.structs.replace(topology_of("a3"), mesh=mesh, local_node=name, hops={})
    planner = Planner(topology, settings_for("a3"))
    plans = lay_out(planner, has_standby=False)
    kinds = kinds_of(planner, plans)
    return [(plan, kinds[plan.session]) for plan in plans]


def _pod_network_crowds(mesh):
    pods = [each for each in _kinds(mesh, "a2") if each[0].layer is Layer.POD_NETWORK]
    return {mesh.node(plan.peer).location: kind.crowd for plan, kind in pods}


def _parts(mesh, name, layer):
    """By how much each node is asked slower at this layer."""
    return {str(plan.peer): kind.crowd_part for plan, kind in _kinds(mesh, name) if plan.layer is layer}


def test_between_two_small_locations_everybody_asks_at_full_pace():
    """Six nodes and six."""
    mesh = big_mesh(6, 6)

    for layer in (Layer.RELAY, Layer.EFFECTIVE, Layer.UNDERLAY, Layer.OVERLAY):
        assert {1} == set(_parts(mesh, "a3", layer).values())


def test_relays_and_scouts_of_large_locations_ask_each_other_at_full_pace():
    """All others share what the sessions of six nodes and six send: 20 x 18 both ways are ten times as many."""
    mesh = big_mesh(20, 20)
    here, there = close(mesh, "a", "b"), close(mesh, "b", "a")
    (scout,) = here - {"a0", "a1"}
    (other,) = sorted({node.name for node in mesh.members("a")} - here)[:1]

    for name in (scout, "a1"):
        parts = _parts(mesh, name, Layer.EFFECTIVE)
        assert there == {peer for peer, part in parts.items() if part == 1}
        assert {1, 10} == set(parts.values())
    assert {10} == set(_parts(mesh, other, Layer.EFFECTIVE).values())


def test_scouts_of_large_locations_share_a_turn():
    """A step apart their leg is seen twice as often as when both are asked at one time."""
    for mesh in (big_mesh(20, 20), big_mesh(100, 100)):
        (scout,) = {*scouts(mesh, "a", "b")} - {"a1"}
        kinds = {
            kind
            for plan, kind in _kinds(mesh, scout)
            if plan.layer is Layer.RELAY and plan.peer in scouts(mesh, "b", "a")
        }

        assert 2 == len(kinds), "one of fresh flows and one of known ones"


def test_scouts_ask_by_fresh_flows_in_one_round_though_one_of_them_is_the_far_relay():
    """In two locations of two nodes: else two probes leave at one time by chance, and none for long."""
    kinds = [
        kind
        for plan, kind in _kinds(big_mesh(2, 2), "a1")
        if plan.layer is Layer.RELAY and plan.path == 0 and plan.flow is FlowClass.FRESH
    ]

    assert 2 == len(kinds)
    assert 1 == len(set(kinds))


def test_the_leg_of_a_relay_is_crowded_by_those_at_full_pace_and_a_part_of_the_others():
    """Else what they ask each other would be as slow as if all went at their pace."""
    kinds = [kind for plan, kind in _kinds(big_mesh(20, 20), "a1") if plan.layer is Layer.EFFECTIVE]
    shares = {kind.crowd_part: kind.share for kind in kinds}

    assert shares[1] < shares[10]


def test_neighbours_of_a_large_location_share_their_turns():
    """Legs to its relays matter more, and are as many as its nodes."""
    mesh = big_mesh(20, 3)

    for layer in (Layer.UNDERLAY, Layer.OVERLAY):
        parts = _parts(mesh, "a5", layer)
        assert {"a0", "a1"} == {peer for peer, part in parts.items() if part == 20 // 6}
        assert {20 // 6, 20 * 19 // 36} == set(parts.values())
        assert {20 // 6} == set(_parts(mesh, "a0", layer).values())
