"""Leaders that come and go: at which pace whatsoever, traffic comes to rest."""

from __future__ import annotations

import os

import msgspec
import pytest

from meshwatchd.model.failover_facts import FailoverApplied, FailoverHeld
from meshwatchd.model.settings import MINUTE, MS, SECOND, PolicySettings, ProbeProfile, Settings
from tests.sim import faults
from tests.sim.properties import is_home, is_ready
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World

SMALL = mesh_of((Shape(1, 0), Shape(1, 0)))


SECONDS = int(os.environ.get("MESHWATCH_FLAP_SECONDS", "20"))
"""Five minutes take two of a machine; the first 20 s show what the rest does."""


def _wan(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, probe=msgspec.structs.replace(settings.probe, profile=ProbeProfile.WAN))


def _world(*, seed: int, policy: PolicySettings, is_wan: bool = False) -> World:
    world = World(seed=seed, policy=policy, mesh=SMALL, adjust=_wan if is_wan else lambda settings: settings)
    assert world.run_until(lambda: is_ready(world), limit_ns=20 * SECOND)
    return world


def _moves(world: World, node: str, *, since: int) -> list[int]:
    return [told.at for told in world.facts(FailoverApplied, node=node, since=since)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("maker", [faults.overlay_new_flows, faults.dead], ids=["new-flows", "dead"])
def test_a_leader_that_flaps_each_second_moves_traffic_once(maker):
    """Half a second down, half a second up: away at once, not back before it is over, and then once."""
    world = _world(seed=3, policy=PolicySettings())
    began = world.now
    fault = maker("b1")
    for _ in range(SECONDS):
        world.faults.append(fault)
        world.run(500 * MS)
        world.faults.remove(fault)
        world.run(500 * MS)
    for node in ("a1", "a2", "b2"):
        assert len(_moves(world, node, since=began)) <= 2, world.story(since=began)
    assert world.run_until(lambda: is_home(world), limit_ns=10 * MINUTE), world.story(since=began)
    for node in ("a1", "a2", "b2"):
        assert len(_moves(world, node, since=began)) <= 2, world.story(since=began)


@pytest.mark.timeout(300)
def test_a_flap_with_the_period_of_the_hold_down_converges():
    """The leader breaks a second after each failback, for ever: each time takes twice as long."""
    policy = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND, half_life=200 * MS, actions_per_minute=60)
    world = _world(seed=5, policy=policy, is_wan=True)
    fault = faults.overlay_black_hole("b1")
    gaps: list[int] = []
    for _ in range(6):
        world.faults.append(fault)
        began = world.now
        assert world.run_until(lambda: not is_home(world), limit_ns=20 * SECOND), world.story(since=began)
        world.run(SECOND)
        world.faults.clear()
        assert world.run_until(lambda: is_home(world), limit_ns=5 * MINUTE), world.story(since=began)
        gaps.append(world.now - began)
        world.run(SECOND)

    # The first two meet the same hold-down; jitter decides between them.
    assert gaps[1:] == sorted(gaps[1:])
    assert gaps[-1] > 4 * gaps[0], [gap / SECOND for gap in gaps]


@pytest.mark.timeout(120)
def test_a_spent_budget_of_a_day_ends_all_moving():
    """A line that breaks twice an hour for a whole day is one for people."""
    policy = PolicySettings(hold_down=300 * MS, wait_to_restore=200 * MS, half_life=200 * MS, actions_per_day=4)
    world = _world(seed=7, policy=policy, is_wan=True)
    began = world.now
    fault = faults.overlay_black_hole("b1")
    for _ in range(4):
        world.faults.append(fault)
        world.run(8 * SECOND)
        world.faults.clear()
        world.run(12 * SECOND)
    for node in ("a1", "b2"):
        assert len(_moves(world, node, since=began)) <= 4, world.story(since=began)
    world.faults.append(fault)
    world.run(8 * SECOND)
    held = {told.fact.reason for told in world.facts(FailoverHeld, since=began)}  # type: ignore[union-attr]
    assert "too many moves in the last day; routes stay as they are" in held, held
