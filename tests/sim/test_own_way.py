"""A member that alone has lost its leader, or a part of all packets, is named by all nodes, and its leader by none."""

from __future__ import annotations

import pytest

from meshwatchd.model import outputs as out
from meshwatchd.model.settings import MS, SECOND
from tests.sim import faults
from tests.sim.healthy import healthy_world
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World

CUTS = {
    "both ways": faults.cut_between("b3", "b1"),
    "to the leader": faults.cut_between("b3", "b1", is_both_ways=False),
    "from the leader": faults.cut_between("b1", "b3", is_both_ways=False),
}


def _culprits(world: World, since: int) -> set[str]:
    return {culprit for _, culprit in world.accusations(since=since)}


@pytest.mark.parametrize("fault", CUTS.values(), ids=CUTS)
def test_a_member_that_alone_is_cut_off_from_its_leader_names_itself(fault):
    """So do all behind the other leader; who reaches both finds nothing wrong. It stays so once everybody rests."""
    world = healthy_world(seed=1)
    began = world.now
    world.faults.append(fault)
    for _ in range(2):
        world.run(8 * SECOND)
        expected = dict.fromkeys(("a1", "a2", "a3", "b3"), "node-unreachable@b3") | {"b1": "none", "b2": "none"}
        assert expected == world.verdicts(), world.story(since=began)

    assert {("node-unreachable", "b3")} == world.accusations(since=began), world.story(since=began)
    assert [] == world.switches
    world.faults.clear()
    world.run(15 * SECOND)
    assert {"none"} == set(world.verdicts().values()), world.story(since=began)


def test_two_members_that_are_cut_off_name_themselves():
    """Each hears the other's doubt as well as the word of two that reach their leader."""
    world = World(seed=1, mesh=mesh_of((Shape(1, 3),) * 2))
    world.run(12 * SECOND)
    began = world.now
    world.faults += [faults.cut_between(member, "b1") for member in ("b4", "b5")]
    world.run(12 * SECOND)

    assert ["node-unreachable@b4", "node-unreachable@b5"] == [world.verdict("b4"), world.verdict("b5")]
    assert {"none"} == {world.verdict(name) for name in ("b1", "b2", "b3")}, world.story(since=began)
    assert [] == world.switches


@pytest.mark.parametrize(("ratio", "seed"), [(0.15, 1), (0.15, 3), (0.3, 1)])
def test_a_member_that_loses_a_part_of_all_packets_is_the_only_one_named(ratio, seed):
    """Each leg of it changes between alive and dead by chance, and those of its neighbours are well.

    With one seed in six it tells another name first, or too many, at this ratio: there is not one story for all.
    """
    world = healthy_world(seed=seed)
    began = world.now
    world.faults.append(faults.lossy_node("b3", ratio))
    world.run(25 * SECOND)
    told = world.facts(out.VerdictChanged, node="b3", since=began)

    assert {"b3"} == _culprits(world, began) - {""}, world.story(since=began)
    assert "node-unreachable@b3" == world.verdict("b3")
    assert 3 >= len(told), world.story(since=began)
    assert {"none"} == {world.verdict(name) for name in ("b1", "b2")}
    assert [] == world.switches


def test_everyday_loss_at_a_member_is_named_by_nobody():
    """One packet in twenty, each way."""
    world = healthy_world(seed=1)
    began = world.now
    world.faults.append(faults.lossy_node("b3", 0.05))
    world.run(15 * SECOND)

    assert set() == world.accusations(since=began), world.story(since=began)


@pytest.mark.parametrize("cut_ns", [2 * SECOND, 16 * SECOND])
def test_a_leader_that_dies_while_a_member_is_cut_off_is_named_and_left(cut_ns):
    """The neighbours' word that it lives ends with it, whether everybody looked a moment ago or rests."""
    world = healthy_world(seed=3)
    world.faults.append(faults.cut_between("b3", "b1"))
    world.run(cut_ns)
    died = world.now
    world.faults.append(faults.dead("b1"))

    assert world.run_until(lambda: world.are_on(1, but="b1"), limit_ns=SECOND), world.story(since=died)
    world.run(died + 2 * SECOND - world.now)
    assert {"leader-dead@b1"} == {world.verdict(name) for name in world.names if name != "b1"}, world.story(since=died)


def test_words_from_before_the_silence_keep_no_dead_leader_alive():
    """The only neighbour has said a moment ago that the leader lives, and ends with it."""
    world = healthy_world(seed=1)
    world.kill("b2")
    world.faults.append(faults.dead("b1"))

    assert world.run_until(lambda: world.verdict("b3") == "leader-dead@b1", limit_ns=500 * MS), world.story()
