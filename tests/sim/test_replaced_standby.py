"""The path that traffic has failed over to is numbered anew, or loses its relay, while the primary stays broken."""

from __future__ import annotations

import pytest

from meshwatchd.model import events as ev
from meshwatchd.model.failover_facts import FailoverApplied, OverrideRetired
from meshwatchd.model.settings import MS, SECOND
from tests.sim import changing, faults
from tests.sim.changing import LAB, ChangingWorld, Places, settled_world

WITH_A0: Places = {**LAB, "onprem": ("a1", "a2", "", "a3", "a0")}
WITH_EDGE: Places = {**LAB, "edge": ("c1", "c2", "", "c3")}
B3_FOR_B2: Places = {**LAB, "cloud": ("b1", "b3", "", "b2")}
CROSSINGS = [("a3", "b3"), ("a2", "b3"), ("a3", "b2"), ("a2", "b2"), ("a1", "b3")]


def _around_b1(seed: int, *, places: Places = LAB, later: Places | None = None, pairs=CROSSINGS) -> ChangingWorld:
    """b1's overlay is dead, and traffic has gone over b2 and a1 for two seconds."""
    world = settled_world(seed=seed, places=places, later=later)
    world.faults.append(faults.overlay_black_hole("b1"))
    assert world.run_until(lambda: not world.loses(pairs), limit_ns=SECOND), world.story()
    world.run(2 * SECOND)
    return world


def _losses(world: ChangingWorld, duration_ns: int, pairs=CROSSINGS, *, step_ns: int = 10 * MS) -> list[int]:
    """Let time pass; the milliseconds after which real traffic between the pairs did not pass."""
    lost, began = [], world.now
    while world.now < began + duration_ns:
        world.run(step_ns)
        if world.loses(pairs):
            lost.append((world.now - began) // MS)
    return lost


def _both_ways(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*pairs, *((other, one) for one, other in pairs)]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("places", [WITH_A0, WITH_EDGE], ids=["a0 joins", "a third location comes"])
def test_a_path_that_is_numbered_anew_is_not_left_for_its_new_link_before_that_stands(monkeypatch, seed, places):
    """Every number of the pair shifts, and the agents need a second for their devices.

    Meanwhile a probe of the new number goes by whatever had that number: its answer is no reason to leave.
    """
    world = _around_b1(seed, later=places)
    monkeypatch.setattr(changing, "PROVISION_NS", SECOND)
    began = world.now
    world.change(places)

    assert [] == _losses(world, 4 * SECOND), world.story(since=began)
    moved = {told.node for told in world.facts(OverrideRetired, since=began)}
    assert {"a2", "a3", "b2", "b3"} <= moved, world.story(since=began)


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_leader_that_was_bypassed_calls_nobody_to_the_primary_path(seed, is_paused):
    """b3 stands by for b2 from here on. b1 has no policy rule to leave, so that it is the first to be done.

    It ends at rank 0 with the generation of the failover that is still needed; the lower rank of two equals wins. While
    the relays are paused nobody would come away from the dead path again.
    """
    world = _around_b1(seed)
    for name in ("a1", "a2", "b2", "b3") if is_paused else ():
        pause = ev.OperatorRequested(
            request=1, verb=ev.OperatorVerb.PAUSE, name="ann", location="", duration_ns=3600 * SECOND
        )
        assert world.operate(name, pause).is_accepted
    began = world.now
    world.change(B3_FOR_B2)
    world.run(20 * SECOND)

    moves = [told.fact for told in world.facts(FailoverApplied, since=began)]
    assert 0 not in {move.to_rank for move in moves if isinstance(move, FailoverApplied)}, world.story(since=began)
    assert [] == _losses(world, 2 * SECOND, _both_ways(CROSSINGS), step_ns=50 * MS), world.story(since=began)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_dead_path_gives_its_place_to_the_one_that_comes_instead(seed):
    """Traffic is on b2-a1, b2's host dies, and b3 stands by for it: b3-a1 needs the very link and table of b2-a1.

    The primary path stays broken, so that nothing else will ever answer: kept as they are, they would be kept for good.
    """
    pairs = [("a3", "b3"), ("a2", "b3"), ("a1", "b3"), ("a3", "b4")]
    both_ways = _both_ways(pairs)
    single: Places = {"cloud": ("b1", "b2", "", "b3", "b4"), "onprem": ("a1", "", "a2", "a3")}
    world = _around_b1(seed, places=single, pairs=pairs)
    world.faults.append(faults.dead("b2"))
    world.run(3 * SECOND)
    assert both_ways == world.loses(both_ways), "there is no third path"
    world.kill("b2")
    began = world.now
    world.change({**single, "cloud": ("b1", "b3", "", "b2", "b4")})

    assert world.run_until(lambda: not world.loses(both_ways), limit_ns=10 * SECOND), world.story(since=began)
    assert [] == _losses(world, 20 * SECOND, both_ways, step_ns=50 * MS), world.story(since=began)
    living = {name: world.nodes[name].controller for name in ("a1", "a2", "a3", "b3", "b4")}
    assert {("b3", "a1")} == {each.mover.active.relays for each in living.values()}, world.story(since=began)
    assert [] == [name for name, each in living.items() if each.parting is not None]
