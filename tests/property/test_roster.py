"""All nodes that have heard the same hellos come to the same mesh, in whatever order they heard them."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.core.membership.roster import Roster
from meshwatchd.model.discovery import Basis
from meshwatchd.model.settings import MINUTE, SECOND, DaemonSettings, Settings
from meshwatchd.model.topology import build_mesh
from tests.support import hellos

BOUNDED = settings(derandomize=True, max_examples=60, deadline=None)
NAMES = ("a1", "a2", "a3", "b1", "b2", "b3")


@st.composite
def tellings(draw):
    """What six nodes say, sensible or not: leaders, names, keys, modes and endpoints of any mixture."""
    told = {}
    for name in NAMES:
        leader = draw(st.sampled_from([None, *NAMES]))
        is_leader = draw(st.booleans())
        seen = {
            "leader": hellos.overlay_ip(leader) if leader else "",
            "is_leader": is_leader,
            "pod_cidr": draw(st.sampled_from([hellos.view(name).pod_cidr] * 5 + ["", "10.244.0.0/16"])),
        }
        home = draw(st.sampled_from(["", "site-a1", "site-a2", "site-b1", "onprem"]))
        told[name] = hellos.hello(
            name,
            seen=seen,
            home=home,
            basis=draw(st.sampled_from([Basis.DERIVED, Basis.SOURCE])) if home else Basis.NONE,
            mode=draw(st.sampled_from(["enforce", "observe"])),
            standby_endpoint=draw(st.sampled_from(["", "192.0.2.1"])),
            leads_since_ns=draw(st.integers(0, 3)) if is_leader else 0,
        )
    return told


def _roster(node, told, order):
    """A node that starts with a memory, hears everybody in some order, and waits."""
    roster = Roster(Settings(daemon=DaemonSettings(node=node)), former=told[node])
    roster.tell(told[node], 0)
    roster._own = told[node]  # whatever it makes of itself: the others have heard this
    for name in order:
        roster.hear(told[name], SECOND)
    for now in range(SECOND, MINUTE, SECOND):
        roster.review(now)
    return roster


@BOUNDED
@given(tellings(), st.randoms(use_true_random=False))
def test_all_nodes_agree(told, rng):
    """Nobody asks anybody: the same words are the same mesh."""
    meshes = []
    for node in NAMES:
        order = [name for name in NAMES if name != node]
        rng.shuffle(order)
        roster = _roster(node, told, order)
        if roster.mesh is not None:
            meshes.append(roster.mesh)
    assert all(meshes[0] == mesh for mesh in meshes)


@BOUNDED
@given(tellings())
def test_every_mesh_that_is_found_can_be_built(told):
    """The engine is given nothing that it would refuse: no leader from elsewhere, no two nodes with one address."""
    roster = _roster("a1", told, NAMES[1:])
    if roster.mesh is None:
        return
    mesh = build_mesh(roster.mesh.location, roster.mesh.node)

    assert "a1" in [node.name for node in mesh.nodes]
    assert len(mesh.nodes) == len({node.node_ip for node in mesh.nodes})
    for path in mesh.paths:
        ends = [mesh.node(name) for name in path.relays]
        assert path.is_primary or all(end.standby_public_key for end in ends)
        assert path.is_primary or any(end.standby_endpoint for end in ends)


@BOUNDED
@given(tellings(), st.permutations(NAMES[1:]))
def test_the_order_of_hellos_changes_nothing(told, order):
    """Not even who spoke first."""
    one, other = _roster("a1", told, NAMES[1:]), _roster("a1", told, order)

    assert one.mesh == other.mesh
    assert one.problems == other.problems
    assert msgspec.json.encode(one.hellos()["a1"]) == msgspec.json.encode(other.hellos()["a1"])
