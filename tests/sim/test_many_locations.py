"""A thousand nodes in fifty locations: one leader breaks, its own location is gone around, and nobody else moves.

Daemons run on the relays and a member of the location that breaks, and on relays of some other locations; all other
nodes answer, and their kernels follow a daemon of their location. A thousand daemons would take hours. The small story
is told in processes with different hashes of strings, whose order in sets must decide nothing.
"""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from meshwatchd.core.failover.pair_controller import PairController
from meshwatchd.model import outputs as out
from meshwatchd.model.failover_facts import FailoverApplied, FailoverRolledBack, FailoverVerified
from meshwatchd.model.load import ProbesHeld
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import MS, SECOND, MtuSettings, PolicySettings, Settings
from tests.sim import faults
from tests.sim.faults import Fault
from tests.sim.parts import SimNode
from tests.sim.properties import is_home
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World
from tests.support.bounds import busiest, most_probes, most_regular

BUDGET_PER_SECOND = 1_000
LOOK_NS = 50 * MS
IMPATIENT = PolicySettings(hold_down=SECOND, wait_to_restore=500 * MS)
"""Home soon after: every second of a large world is dear."""


class Setting(NamedTuple):
    """Where a story takes place, and what breaks.

    Attributes:
        locations: how many; each has a leader and a standby.
        members: of each location besides.
        others: locations besides b that have daemons.
        engines: all nodes that have one; b1 among them, or nobody could agree to come home to it.
        fault: of b1, which daemons are to name.
        seed: of everything random.
    """

    locations: int
    members: int
    others: tuple[str, ...]
    engines: tuple[str, ...]
    fault: Fault
    name: str
    seed: int


SETTINGS = {
    "small": Setting(
        locations=7,
        members=1,
        others=("a", "e"),
        engines=("b1", "b2", "b3", "a1", "a2", "e1", "e2"),
        fault=faults.overlay_black_hole("b1"),
        name="overlay-black-hole",
        seed=3,
    ),
    "large": Setting(
        locations=50,
        members=18,
        others=("ax",),
        engines=("b1", "b2", "b3", "ax1", "ax2"),
        fault=faults.overlay_new_flows("b1"),
        name="overlay-new-flows",
        seed=4,
    ),
}


class _Counted(World):
    """Notes when probes leave: all of them, and the regular ones."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.left: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in self.names}

    def _send(self, node: SimNode, probe: out.SendProbe) -> None:
        everything, regular = self.left[node.name]
        everything.append(self.now)
        if not probe.is_confirm:
            regular.append(self.now)
        super()._send(node, probe)

    def assert_bounded(self, packets_per_second: int) -> None:
        """In every second from the start of the world to its end, on every node."""
        for name, (everything, regular) in self.left.items():
            assert busiest(everything, SECOND) <= most_probes(packets_per_second, SECOND), name
            assert busiest(regular, SECOND) <= most_regular(packets_per_second, SECOND), name


def _within_budget(settings: Settings, packets_per_second: int = BUDGET_PER_SECOND) -> Settings:
    return msgspec.structs.replace(
        settings,
        probe=msgspec.structs.replace(settings.probe, packets_per_second=packets_per_second),
        mtu=MtuSettings(enabled=False),
    )


def _world(setting: Setting) -> _Counted:
    """A world whose daemons have proven the paths between each other."""
    mesh = mesh_of((Shape(1, setting.members),) * setting.locations)
    world = _Counted(seed=setting.seed, mesh=mesh, engines=setting.engines, policy=IMPATIENT, adjust=_within_budget)
    assert _run_until(lambda: _is_proven(world), world, limit_ns=20 * SECOND), world.story()
    return world


def _run_until(predicate: Callable[[], bool], world: World, *, limit_ns: int) -> bool:
    """As `World.run_until`, but looks twenty times a second: there is much to look at."""
    end = world.now + limit_ns
    while world.now < end and not predicate():
        world.run(LOOK_NS)
    return predicate()


def _is_proven(world: World) -> bool:
    found = [controller for _, controller in _between_daemons(world)]
    return bool(found) and all(
        controller.watch.group(path).is_good or not controller.context.planner.probes_path(path)
        for controller in found
        for path in controller.watch.paths[:2]
    )


def _between_daemons(world: World) -> list[tuple[str, PairController]]:
    """Each daemon's knowledge of the pairs of locations that have daemons at both ends, and b at one of them."""
    homes = {world.locations[name] for name in world.names}
    return [
        (name, controller)
        for name, node in world.nodes.items()
        for controller in node.engine.state.controllers.values()
        if controller.watch.remote in homes and "site-b" in {controller.watch.home, controller.watch.remote}
    ]


def _break(world: World, others: Sequence[str], fault: Fault) -> None:
    """Break b's leader and look at what everybody does."""
    world.faults.append(fault)
    began = world.now
    goal = [(f"{place}3", "b3") for place in others]
    assert _run_until(partial(_is_around, world, goal), world, limit_ns=2 * SECOND), world.story(since=began)
    world.run(100 * MS)

    assert _is_around(world, goal), world.story(since=began)
    moved = {fact.pair for name, fact in _applied(world) if world.locations[name] == "site-b"}
    by_number: dict[int, str] = {
        c.watch.index: c.watch.remote for c in world.nodes["b2"].engine.state.controllers.values()
    }
    assert {f"site-{place}" for place in others} == {by_number[pair] for pair in moved}, world.story(since=began)
    for name, node in world.nodes.items():
        for controller in node.engine.state.controllers.values():
            touched = {world.locations[name], controller.watch.remote}
            assert "site-b" in touched or controller.mover.active.is_primary, world.story(since=began)
    assert [] == world.loops
    assert {culprit for _, culprit in world.accusations(since=began)} <= {"b1"}, world.accusations(since=began)


def _heal(world: World, before: dict[str, set[Rule]]) -> None:
    """End the fault: whoever moved comes home, once, and every kernel is as it was."""
    began = world.now
    left = {(name, controller.watch.index) for name, controller in _between_daemons(world)}
    world.faults.clear()
    # The words of members that relays wait for come one window of pairs after the other.
    assert _run_until(partial(is_home, world), world, limit_ns=30 * SECOND), world.story(since=began)
    assert before == world.rules()
    returned = [(name, fact.pair) for name, fact in _applied(world, since=began) if fact.to_rank == 0]
    assert sorted(left) == sorted(returned), world.story(since=began)


def _digest(world: World) -> str:
    """Of all that was decided and when: facts, verdicts among them, changes of kernels, and how many probes left."""
    said = repr([(told.at, told.node, told.fact) for told in world.told]) + repr(world.switches) + repr(world.sent)
    return hashlib.sha256(said.encode()).hexdigest()


def _is_around(world: World, pairs: Sequence[tuple[str, str]]) -> bool:
    is_left = all(not controller.mover.active.is_primary for _, controller in _between_daemons(world))
    return is_left and all(world.carries(one, other) and world.carries(other, one) for one, other in pairs)


def _applied(world: World, *, since: int = 0) -> list[tuple[str, FailoverApplied]]:
    told = [(each.node, each.fact) for each in world.facts(FailoverApplied, since=since)]
    return [(name, fact) for name, fact in told if isinstance(fact, FailoverApplied)]


def _tell(setting: Setting) -> str:
    """The whole story: b's leader breaks, is gone around, heals, and is come home to; what came of it, in a line."""
    world = _world(setting)
    for node in world.nodes.values():
        assert setting.locations - 1 == len(node.engine.state.controllers)
        rates = node.engine.state.schedule.rates()
        assert BUDGET_PER_SECOND >= sum(rate.sessions * SECOND / rate.interval_ns for rate in rates) - 0.5
    before = world.rules()
    _break(world, setting.others, setting.fault)
    _heal(world, before)
    assert (setting.name, "b1") in world.accusations(), world.story()
    world.assert_bounded(BUDGET_PER_SECOND)
    moves = [fact for _, fact in _applied(world)]
    homeward = [fact for fact in moves if fact.to_rank == 0]
    return f"{len(world.mesh.node)} nodes, {len(moves)} moves, {len(homeward)} of them home: {_digest(world)}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "hash_seeds", "happened"),
    [
        ("small", ("0", "7"), "21 nodes, 20 moves, 10 of them home"),
        ("large", ("7",), "1000 nodes, 10 moves, 5 of them home"),
    ],
)
def test_a_leader_of_many_moves_its_own_location_and_no_other_under_any_hash_seed(name, hash_seeds, happened):
    """Processes with other hashes of all strings tell the same story, to the nanosecond.

    In it every pair of b that has daemons at both ends goes around b1 and comes home, and no other pair moves. A large
    world is told once: half a minute for what nothing but its size is new in.
    """
    told = [_tell_in_a_process(name, hash_seed) for hash_seed in hash_seeds]
    assert happened == told[0].partition(":")[0]
    assert {told[0]} == set(told)


FEW_PER_SECOND = 500


def test_when_the_own_leader_dies_all_pairs_doubt_at_once_and_share_what_may_be_sent():
    """Forty locations: a2 has 39 pairs to go around a1, and three of them somebody to agree with.

    The three are far apart in the order of numbers, and each has its slices at once. Everybody else is asked about in
    vain, as nobody there can agree.
    """
    mesh = mesh_of((Shape(1, 0),) * 40)
    adjust = partial(_within_budget, packets_per_second=FEW_PER_SECOND)
    engines = ("a2", "b1", "t1", "an1")
    world = _Counted(seed=3, mesh=mesh, engines=engines, policy=IMPATIENT, adjust=adjust)
    assert _run_until(partial(_are_ready, world, 39), world, limit_ns=10 * SECOND), world.story()
    began = world.now
    world.faults.append(faults.dead("a1"))
    homes = {world.locations[name] for name in engines[1:]}
    around = [c for c in world.nodes["a2"].engine.state.controllers.values() if c.watch.remote in homes]
    assert 3 == len(around)

    def is_around() -> bool:
        return all(not controller.mover.active.is_primary for controller in around)

    assert _run_until(is_around, world, limit_ns=SECOND), world.story(since=began)
    world.run(SECOND)

    verified = [told.fact for told in world.facts(FailoverVerified, node="a2", since=began)]
    assert 3 == len(verified), world.story(since=began)
    assert [] == world.facts(FailoverRolledBack, since=began)
    world.assert_bounded(FEW_PER_SECOND)
    assert ["a2"] == [told.node for told in world.facts(ProbesHeld)]


def _are_ready(world: World, pairs: int) -> bool:
    found = [node.engine.state.controllers for node in world.nodes.values()]
    return all(pairs == len(each) and all(c.is_ready for c in each.values()) for each in found)


def _tell_in_a_process(name: str, hash_seed: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "tests.sim.test_many_locations", name],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert 0 == run.returncode, run.stderr
    return run.stdout.strip()


if __name__ == "__main__":
    # A process of half a minute: what it leaves behind fits into memory.
    gc.disable()
    sys.stdout.write(_tell(SETTINGS[sys.argv[1]]) + "\n")
