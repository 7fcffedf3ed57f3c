"""Outer packets of two clusters in a world that loses some: by virtual seconds, each node deciding by itself."""

from __future__ import annotations

import random

import pytest

from meshwatchd.core.routes.outer_way import LONGEST_NS
from meshwatchd.model.settings import SECOND
from tests.sim.outer_world import OuterWorld
from tests.support.cluster_node import EAST, NAMES, WEST

AWAY_ROUNDS = 10
"""So long an agent may be away: it is started again after less."""
FOUND_S = 15
"""From the first loss until pods reach each other again: a doubt, six silent rounds, a trial at both ends."""


def _settle(world: OuterWorld, seconds: float) -> None:
    for _ in world.run(seconds):
        pass


def test_a_pair_whose_way_is_dead_both_ways_is_led_around_at_both_ends_and_comes_home():
    """Each end through a neighbour of its own; afterwards nothing is left."""
    world = OuterWorld()
    world.cut("e1", "w1")

    assert world.run_until_carried("e1", "w1", seconds=FOUND_S)
    assert world.relay("e1", "w1") in ("e2", "e3")
    assert world.relay("w1", "e1") in ("w2", "w3")
    assert all(world.carries("e1", "w1") for _ in world.run(120))

    world.heal()
    assert all(world.carries("e1", "w1") for _ in world.run(60))
    assert not world.has_objects()
    assert all(not node.ways for node in world.nodes.values())


def test_a_pair_that_is_dead_one_way_comes_home_as_well():
    """Both ends lead their packets aside, since neither can tell which direction it is."""
    world = OuterWorld()
    world.dead = {("w1", "e1")}

    assert world.run_until_carried("e1", "w1", seconds=FOUND_S)
    _settle(world, 60)
    world.heal()
    assert all(world.carries("e1", "w1") for _ in world.run(60))
    assert not world.has_objects()


@pytest.mark.parametrize(("loss", "longest"), [(0.0, 4), (0.1, 6)])
def test_where_outer_packets_alone_are_lost_ways_home_are_tried_ever_more_seldom(loss, longest):
    """The node answers at its own address all the while, which proves nothing; each attempt costs under two seconds.

    A neighbour over which one question in ten is lost is no dead one; both ends may be on their ways home then.
    """
    world = OuterWorld()
    world.loss = loss
    world.filtered = {("e1", "w1"), ("w1", "e1")}

    assert world.run_until_carried("e1", "w1", seconds=4 * FOUND_S)
    gaps: list[int] = []
    count = 0
    for _ in world.run(3600):
        if world.carries("e1", "w1"):
            gaps, count = [*gaps, count] if count else gaps, 0
        else:
            count += 1
    assert 2 <= len(gaps) <= 16, gaps
    assert max(gaps) <= longest, gaps
    world.heal()
    assert any(not world.has_objects() for _ in world.run(2 * LONGEST_NS / SECOND))


def test_nothing_is_put_where_packets_through_a_neighbour_are_not_answered():
    """Filters of the neighbours, or their cloud's, that nobody can see; and every neighbour is tried in its turn."""
    world = OuterWorld()
    world.cut("e1", "w1")
    world.stubborn = {"e2", "e3"}
    tried = set()
    for _ in world.run(600):
        tried.add(world.tried("e1", "w1"))
        assert not world.relay("e1", "w1")

    assert {"", "e2", "e3"} == tried
    (way,) = world.nodes["e1"].ways
    assert "are not answered" in way.reason

    world.stubborn = {"e2"}
    assert world.run_until_carried("e1", "w1", seconds=2 * 60)
    assert "e3" == world.relay("e1", "w1")


@pytest.mark.parametrize("waited_s", [10, 61, 300, 1803, 7200])
def test_a_pair_is_led_around_soon_after_the_other_end_may_move_as_well(waited_s):
    """An operator follows the finding hours later: the node is restarted with the switch on."""
    world = OuterWorld()
    world.enforcing.discard("w1")
    world.cut("e1", "w1")
    _settle(world, waited_s)
    assert not world.carries("e1", "w1")
    world.enforcing.add("w1")
    world.restart("w1")
    assert world.run_until_carried("e1", "w1", seconds=FOUND_S)


@pytest.mark.parametrize("later_s", range(0, 40, 3))
def test_a_pair_is_led_around_where_one_neighbour_of_two_forwards_at_either_end(later_s):
    """Both ends have to be at theirs together, whichever each tries first and whenever it begins."""
    for stubborn in ({"e2", "w2"}, {"e3", "w2"}, {"e2", "w3"}, {"e3", "w3"}):
        world = OuterWorld()
        world.stubborn, world.enforcing = set(stubborn), set(NAMES) - {"w1"}
        world.cut("e1", "w1")
        _settle(world, later_s)
        world.enforcing.add("w1")
        assert world.run_until_carried("e1", "w1", seconds=5 * 60), stubborn


def test_a_neighbour_that_hides_the_source_is_no_relay():
    """WireGuard would follow the address that it puts in place, and send its answers there."""
    world = OuterWorld()
    world.cut("e1", "w1")
    world.hiding = {"e2", "e3"}
    for _ in world.run(120):
        assert not world.relay("e1", "w1")
    (way,) = world.nodes["e1"].ways
    assert "in the place of this node's address" in way.reason


def test_who_may_move_nothing_learns_who_would_do_and_touches_nothing():
    """In mode advise, and without `[cilium] outer_reroute`."""
    world = OuterWorld()
    world.enforcing = set()
    world.cut("e1", "w1")
    for _ in world.run(60):
        assert not world.has_objects()
    (way,) = world.nodes["e1"].ways
    assert {"e2", "e3"} == {each.name for each in way.vouchers}


def test_one_end_alone_puts_nothing_where_both_ways_are_dead_and_helps_where_its_own_is():
    """The proof is an answer, and that of the other end is lost."""
    world = OuterWorld()
    world.enforcing = set(EAST)
    world.cut("e1", "w1")
    for _ in world.run(60):
        assert not world.relay("e1", "w1")

    world = OuterWorld()
    world.enforcing = set(EAST)
    world.dead = {("e1", "w1")}
    assert world.run_until_carried("e1", "w1", seconds=FOUND_S)


def test_a_node_that_nobody_reaches_is_left_alone():
    """It is down, and no neighbour vouches for it."""
    world = OuterWorld()
    world.down = {"w1"}
    for _ in world.run(60):
        assert not world.has_objects()


def test_a_node_whose_own_overlay_is_broken_is_left_alone():
    """By all others: its host answers, and every neighbour loses the same packets, so nobody advises a relay."""
    world = OuterWorld()
    world.broken = {"w1"}
    for _ in world.run(60):
        assert all(not way.vouchers and not way.is_tried for name in EAST for way in world.nodes[name].ways)


@pytest.mark.parametrize("is_healed", [False, True])
def test_a_relay_that_dies_is_left(is_healed):
    """For another one, or for the way of their own at once where that is well: no hold-down keeps it."""
    world = OuterWorld()
    world.cut("e1", "w1")
    assert world.run_until_carried("e1", "w1", seconds=FOUND_S)
    _settle(world, 5)
    relay = world.relay("e1", "w1")
    if is_healed:
        world.dead.clear()
        _settle(world, 3)
        assert relay == world.relay("e1", "w1")
    world.down = {relay}
    assert world.run_until_carried("e1", "w1", seconds=2 if is_healed else FOUND_S)
    assert relay != world.relay("e1", "w1")


def test_two_nodes_that_reach_a_third_through_each_other_send_nothing_in_a_circle():
    """Each has the other vouch for the third, and then both ways die: what is forwarded is not led aside again."""
    world = OuterWorld()
    world.cut("e1", "w1")
    assert world.run_until_carried("e1", "w1", seconds=FOUND_S)
    relay = world.relay("e1", "w1")
    world.cut(relay, "w1")
    (third,) = set(EAST) - {"e1", relay}
    assert world.run_until_carried("e1", "w1", seconds=2 * FOUND_S)
    assert world.run_until_carried(relay, "w1", seconds=2 * FOUND_S)
    assert {third} == {world.relay("e1", "w1"), world.relay(relay, "w1")}


@pytest.mark.parametrize("name", ["e1", "w1", "relay"])
def test_an_agent_that_is_away_takes_nothing_along(name):
    """It answers nothing, and the engine's probes are answered: no packets are lost at either end."""
    world = OuterWorld()
    world.cut("e1", "w1")
    assert world.run_until_carried("e1", "w1", seconds=FOUND_S)
    _settle(world, 5)
    name = world.relay("e1", "w1") if name == "relay" else name
    world.deaf = {name}
    assert all(world.carries("e1", "w1") for _ in world.run(120))
    world.deaf.clear()
    world.restart(name)
    assert all(world.carries("e1", "w1") for _ in world.run(60))


def test_a_process_that_is_killed_loses_nothing_by_it():
    """The next one goes on from the route in the kernel."""
    world = OuterWorld()
    world.cut("e1", "w1")
    assert world.run_until_carried("e1", "w1", seconds=FOUND_S)
    _settle(world, 5)
    world.restart("e1")
    assert all(world.carries("e1", "w1") for _ in world.run(60))
    world.heal()
    _settle(world, 60)
    assert not world.has_objects()


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_no_pair_is_worse_off_for_long_and_all_ends_as_it_began(seed):
    """Faults come and go at random, and agents for five seconds. A pair that would be well without us is lost for the
    rounds of one relay's death and of one attempt to come home at most, and for those in which its own agent is away.
    """
    dice = random.Random(seed)
    world = OuterWorld()
    away: dict[str, int] = {}
    worse = {(one, other): 0 for one in EAST for other in WEST}
    for _ in world.run(1200):
        if dice.random() < 0.02:
            _strike(world, dice)
        for name in sorted(world.deaf):
            away[name] = away.get(name, 0) + 1
            if away[name] > AWAY_ROUNDS:
                del away[name]
                world.deaf.discard(name)
                world.restart(name)
        for pair, rounds in worse.items():
            is_worse = world.carries_without_us(*pair) and not world.carries(*pair)
            worse[pair] = rounds + 1 if is_worse else 0
            assert rounds <= 10 + AWAY_ROUNDS, (seed, pair, world.now / SECOND)
    world.heal()
    is_over = any(not any(node.ways for node in world.nodes.values()) for _ in world.run(3 * LONGEST_NS / SECOND))
    assert is_over
    assert not world.has_objects()


def _strike(world: OuterWorld, dice: random.Random) -> None:
    one, other = dice.choice(EAST), dice.choice(WEST)
    match dice.randrange(8):
        case 0:
            world.cut(one, other)
        case 1:
            world.dead.add(dice.choice(((one, other), (other, one))))
        case 2:
            world.filtered.add((one, other))
        case 3:
            world.stubborn ^= {dice.choice(NAMES)}
        case 4:
            world.down ^= {dice.choice(NAMES)}
        case 5:
            world.heal()
        case 6:
            world.deaf ^= {dice.choice(NAMES)}
        case _:
            world.restart(dice.choice(NAMES))
