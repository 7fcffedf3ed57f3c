"""A thousand nodes in fifty locations: one leader breaks, its own location is gone around, and nobody else moves.

Daemons run on the standby and a member of the location that breaks, and on the relays of some other locations; all
other nodes answer, and their kernels follow a daemon of their location. A thousand daemons would take hours.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from meshwatchd.core.conductor import Conductor
from meshwatchd.model import outputs as out
from meshwatchd.model.settings import MS, SECOND, MtuSettings, PolicySettings, Settings
from tests.sim import faults
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World

BUDGET_PER_SECOND = 1_000
LOOK_NS = 50 * MS
SMALL = 7, 1, ("a", "e")
LARGE = 50, 18, ("ax",)
"""Locations, members of each beside its relays, and where daemons run beside b."""


def _within_budget(settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings,
        probe=msgspec.structs.replace(settings.probe, packets_per_second=BUDGET_PER_SECOND),
        mtu=MtuSettings(enabled=False),
    )


def _world(locations: int, members: int, others: Sequence[str]) -> World:
    """A world whose daemons have proven the paths between each other."""
    engines = ("b2", "b3", *(f"{place}{number}" for place in others for number in (1, 2)))
    mesh = mesh_of((Shape(1, members),) * locations)
    world = World(seed=3, mesh=mesh, engines=engines, policy=PolicySettings(), adjust=_within_budget)
    assert _run_until(lambda: _is_proven(world), world, limit_ns=20 * SECOND), world.story()
    return world


def _run_until(predicate: Callable[[], bool], world: World, *, limit_ns: int) -> bool:
    """As `World.run_until`, but looks twenty times a second: there is much to look at."""
    end = world.now + limit_ns
    while world.now < end and not predicate():
        world.run(LOOK_NS)
    return predicate()


def _is_proven(world: World) -> bool:
    found = [conductor for _, conductor in _between_daemons(world)]
    return bool(found) and all(
        conductor.watch.group(path).is_good or not conductor.context.planner.probes_path(path)
        for conductor in found
        for path in conductor.watch.paths[:2]
    )


def _between_daemons(world: World) -> list[tuple[str, Conductor]]:
    """Each daemon's knowledge of the pairs of locations that have daemons at both ends, and b at one of them."""
    homes = {world.locations[name] for name in world.names}
    return [
        (name, conductor)
        for name, node in world.nodes.items()
        for conductor in node.engine.conductors.values()
        if conductor.watch.remote in homes and "site-b" in {conductor.watch.home, conductor.watch.remote}
    ]


def _tell(world: World, others: Sequence[str]) -> str:
    """Break b's leader and look at what everybody does; returns a digest of it."""
    world.faults.append(faults.overlay_black_hole("b1"))
    began = world.now
    goal = [(f"{place}3", "b3") for place in others]
    is_passed = partial(_carries, world, goal)
    assert _run_until(is_passed, world, limit_ns=2 * SECOND), world.story(since=began)
    world.run(100 * MS)

    assert all(not conductor.mover.active.is_primary for _, conductor in _between_daemons(world))
    moved = {fact.pair for fact in _applied(world)}
    by_number: dict[int, str] = {c.watch.index: c.watch.remote for c in world.nodes["b2"].engine.conductors.values()}
    assert {f"site-{place}" for place in others} == {by_number[pair] for pair in moved}, world.story(since=began)
    for name, node in world.nodes.items():
        for conductor in node.engine.conductors.values():
            touched = {world.locations[name], conductor.watch.remote}
            assert "site-b" in touched or conductor.mover.active.is_primary, world.story(since=began)
    assert [] == world.loops
    assert {culprit for _, culprit in world.accusations(since=began)} <= {"b1"}, world.accusations(since=began)
    said = repr([(told.at, told.node, told.fact) for told in world.told]) + repr(world.switches)
    return hashlib.sha256(said.encode()).hexdigest()


def _carries(world: World, pairs: Sequence[tuple[str, str]]) -> bool:
    return all(world.carries(one, other) and world.carries(other, one) for one, other in pairs)


def _applied(world: World) -> list[out.FailoverApplied]:
    told = [each.fact for each in world.facts(out.FailoverApplied) if each.node.startswith("b")]
    return [fact for fact in told if isinstance(fact, out.FailoverApplied)]


@pytest.mark.timeout(300)
def test_a_leader_of_fifty_moves_its_own_location_and_no_other():
    """1 000 nodes: every pair of b that has daemons at both ends goes around b1, and no other pair moves."""
    locations, _, others = LARGE
    world = _world(*LARGE)
    assert 1_000 == len(world.mesh.node)
    for node in world.nodes.values():
        assert locations - 1 == len(node.engine.conductors)
        rates = node.engine.schedule.rates()
        assert BUDGET_PER_SECOND >= sum(rate.sessions * SECOND / rate.interval_ns for rate in rates) - 0.5
    assert _tell(world, others)


@pytest.mark.timeout(300)
def test_decisions_about_many_locations_depend_on_no_hash_seed():
    """Two processes with other hashes of all strings tell the same story of seven locations, to the nanosecond."""
    digests = {_digest_in_a_process(seed) for seed in ("0", "7")}
    assert 1 == len(digests)


def _digest_in_a_process(hash_seed: str) -> str:
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "tests.sim.test_many_locations", "small"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    return run.stdout.strip()


if __name__ == "__main__":
    shape = SMALL if sys.argv[1:] == ["small"] else LARGE
    sys.stdout.write(_tell(_world(*shape), shape[2]) + "\n")
