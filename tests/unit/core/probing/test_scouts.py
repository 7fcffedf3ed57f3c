"""Who watches a pair of locations at full pace: few, the same for all, and the leader only where it is alone."""

from __future__ import annotations

import pytest

from meshwatchd.core.probing.scouts import MEMBERS, scouts
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.topology import Location, Node, build_mesh


def _mesh(members, standbys=()):
    nodes = [
        Node(
            name=NodeName(name),
            location=LocationName(name[0]),
            node_ip=f"10.{place}.0.1",
            pod_cidr=f"10.1{place}.0.0/24",
            overlay_ip=f"10.1{place}.0.0",
        )
        for place, name in enumerate([*members, "z1"])
    ]
    here = Location(name=LocationName("a"), leader=NodeName("a1"), standbys=tuple(map(NodeName, standbys)))
    return build_mesh([here, Location(name=LocationName("z"), leader=NodeName("z1"))], nodes)


@pytest.mark.parametrize(
    ("members", "standbys", "expected"),
    [
        (["a1"], [], ("a1",)),
        (["a1", "a2"], [], ("a2", "a1")),
        (["a1", "a2", "a3"], ["a2"], ("a2", "a3")),
        (["a1", "a2", "a3"], ["a3"], ("a3", "a2")),
        (["a1", "a2", "a3", "a4"], ["a3", "a4"], ("a3", "a4")),
    ],
)
def test_other_relays_come_first_and_the_leader_last(members, standbys, expected):
    """The leader's own probes cross no overlay of its own."""
    assert expected == scouts(_mesh(members, standbys), "a", "z")


def test_their_number_does_not_grow_and_one_that_goes_changes_one():
    """Of forty members two; whoever else leaves, they stay."""
    names = [f"a{number}" for number in range(1, 41)]
    chosen = scouts(_mesh(names), "a", "z")
    bystander = next(name for name in names[1:] if name not in chosen)

    assert len(chosen) == len(set(chosen)) == MEMBERS
    assert "a1" not in chosen
    assert chosen == scouts(_mesh([name for name in names if name != bystander]), "a", "z")
    (left,) = set(chosen) & set(scouts(_mesh([name for name in names if name != chosen[0]]), "a", "z"))
    assert chosen[1] == left
