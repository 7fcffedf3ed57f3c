"""Copies of worlds are worlds of their own, and go on exactly as their original would."""

from __future__ import annotations

from meshwatchd.model.settings import MS, SECOND
from tests.sim import faults
from tests.sim.clones import Frozen, made_once
from tests.sim.stories import PAIR, QUICK, Variant, healthy
from tests.sim.world import World


def _broken(world: World) -> str:
    """What comes of a broken leader in it."""
    world.faults.append(faults.overlay_new_flows("b1"))
    world.run(400 * MS)
    world.faults.clear()
    world.run(SECOND)
    return repr((world.now, world.sent, world.told, world.switches))


def test_a_copy_goes_on_as_the_original_does():
    """To the last probe and the last digit; and neither disturbs the other, nor those that are made later."""
    original = healthy(Variant(1, PAIR, QUICK)).copy(3)
    frozen = Frozen(original)
    first = frozen.copy()
    expected = _broken(original)

    assert expected == _broken(first)
    assert expected == _broken(frozen.copy())
    assert original.nodes["a1"].engine.state.topology is first.nodes["a1"].engine.state.topology, (
        "frozen values are shared"
    )
    assert original.nodes["a1"].engine.state.schedule is not first.nodes["a1"].engine.state.schedule


def test_a_copy_may_have_dice_of_its_own():
    """The same seed gives the same world, another one another."""
    frozen = healthy(Variant(1, PAIR, QUICK))
    told = [_broken(frozen.copy(seed)) for seed in (1, 1, 2)]

    assert told[0] == told[1]
    assert told[0] != told[2]


def test_dice_that_are_shared_stay_shared():
    """Two parts of an engine that draw from one stream do so in a copy."""
    world = healthy(Variant(1, PAIR, QUICK)).copy(1)
    engine = world.nodes["a1"].engine
    assert engine.state.rng is engine.state.schedule._rng
    assert engine.state.rng is not world.nodes["a2"].engine.state.rng


def test_what_is_made_once_is_copied_for_each_who_asks():
    """One warm-up for each set of arguments."""
    calls = []

    @made_once
    def make(number: int) -> World:
        calls.append(number)
        return healthy(Variant(1, PAIR, QUICK)).copy(number)

    one, other = make(1), make(1)
    make(2)
    assert [1, 2] == calls
    one.run(SECOND)
    assert other.now < one.now
