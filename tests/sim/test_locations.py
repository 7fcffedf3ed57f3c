"""Several locations, many nodes: what breaks in one place moves only what depends on it."""

from __future__ import annotations

import pytest

from meshwatchd.model import outputs as out
from meshwatchd.model.failover_facts import FailoverHeld
from meshwatchd.model.ids import LocationName
from meshwatchd.model.settings import MS, SECOND, PolicySettings
from tests.sim import faults
from tests.sim.properties import is_home, is_ready
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World

IMPATIENT = PolicySettings(hold_down=SECOND, wait_to_restore=500 * MS, half_life=200 * MS)


def _world(*shapes: Shape, seed: int = 3, engines: tuple[str, ...] = (), policy: PolicySettings = IMPATIENT) -> World:
    world = World(seed=seed, mesh=mesh_of(shapes), engines=engines, policy=policy)
    assert world.run_until(lambda: is_ready(world), limit_ns=20 * SECOND), world.story()
    return world


def _ranks(world: World) -> dict[tuple[str, str], int]:
    """The rank in use of every pair, as each node has it."""
    return {
        (name, controller.watch.remote): controller.mover.active.rank
        for name, node in world.nodes.items()
        for controller in node.engine.state.controllers.values()
    }


def _moved(world: World) -> set[frozenset[str]]:
    """The pairs of locations that are off the mesh's own path, on all nodes that have a say in them."""
    return {frozenset((f"site-{name[0]}", remote)) for (name, remote), rank in _ranks(world).items() if rank}


@pytest.mark.timeout(300)
def test_a_leader_that_breaks_moves_its_own_location_and_no_other():
    """Three locations: b's leader dies, so a-b and b-c move; a-c does not notice."""
    world = _world(Shape(1, 0), Shape(1, 0), Shape(1, 0))
    world.faults.append(faults.dead("b1"))
    world.run(3 * SECOND)

    touched = {frozenset(("site-a", "site-b")), frozenset(("site-b", "site-c"))}
    assert touched == _moved(world), world.story()
    assert world.walk("a2", "b2")[-1].target == "b2"
    world.faults.clear()
    assert world.run_until(lambda: is_home(world), limit_ns=60 * SECOND), world.story()


@pytest.mark.timeout(300)
def test_several_locations_at_once_are_all_gone_around():
    """Two leaders of three die within 100 ms: no budget of one location is another's."""
    world = _world(Shape(1, 0), Shape(1, 0), Shape(1, 0))
    world.faults.append(faults.overlay_black_hole("a1"))
    world.run(100 * MS)
    world.faults.append(faults.overlay_black_hole("c1"))
    world.run(4 * SECOND)

    assert world.carries("a2", "b2"), world.story()
    assert world.carries("b2", "c2"), world.story()
    assert world.carries("a2", "c2"), world.story()
    world.faults.clear()
    assert world.run_until(lambda: is_home(world), limit_ns=60 * SECOND), world.story()


@pytest.mark.timeout(300)
def test_with_two_standbys_the_second_takes_over_from_the_first():
    """b1 dies, a standby takes over and dies in use, the other takes over; all come back, and all is as before."""
    world = _world(Shape(0, 1), Shape(2, 1))
    world.faults.append(faults.dead("b1"))
    assert world.run_until(lambda: world.carries("a2", "b4"), limit_ns=3 * SECOND), world.story()
    world.run(SECOND)
    (relay,) = {
        c.mover.active.relay_in(LocationName("site-b")) for c in world.nodes["a2"].engine.state.controllers.values()
    }
    world.faults.append(faults.dead(relay))
    assert world.run_until(lambda: world.carries("a2", "b4"), limit_ns=4 * SECOND), world.story()
    world.faults.clear()
    assert world.run_until(lambda: is_home(world), limit_ns=60 * SECOND), world.story()


@pytest.mark.timeout(300)
def test_the_primary_that_recovers_while_the_standby_dies_is_taken_at_once():
    """No hold-down for a path in use that is dead."""
    policy = PolicySettings(hold_down=60 * SECOND, wait_to_restore=10 * SECOND, half_life=200 * MS)
    world = _world(Shape(1, 1), Shape(1, 1), policy=policy)
    world.faults.append(faults.overlay_black_hole("b1"))
    assert world.run_until(lambda: world.carries("a3", "b3"), limit_ns=2 * SECOND), world.story()
    world.run(SECOND)
    world.faults[:] = [faults.dead("b2")]
    assert world.run_until(lambda: world.carries("a3", "b3"), limit_ns=3 * SECOND), world.story()


@pytest.mark.timeout(300)
def test_without_any_standby_nothing_moves_and_redundancy_is_none():
    """Said in the status; the fault is named all the same."""
    world = _world(Shape(0, 1), Shape(0, 1))
    status = world.nodes["a2"].engine.status(world.now, {})
    assert "none" == status.pairs[0].redundancy
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(3 * SECOND)
    assert [] == world.switches
    assert world.facts(out.VerdictChanged), world.story()
    facts = [told.fact for told in world.facts(FailoverHeld, node="a1")]
    held = [fact.reason for fact in facts if isinstance(fact, FailoverHeld)]
    assert ["the path in use is broken and no other path answers"] == held


@pytest.mark.timeout(300)
def test_with_both_relays_of_the_path_in_use_dead_the_leaders_bring_traffic_home():
    """Path 3 is in use, the leaders recover, and both standbys die at once: nobody is left to agree but the leaders."""
    world = _world(Shape(1, 1), Shape(1, 1))
    world.faults += [faults.overlay_black_hole("a1"), faults.overlay_black_hole("b1")]
    assert world.run_until(lambda: set(_ranks(world).values()) == {3}, limit_ns=3 * SECOND), world.story()
    world.run(SECOND)
    world.faults[:] = [faults.dead("a2"), faults.dead("b2")]
    assert world.run_until(lambda: world.carries("a3", "b3"), limit_ns=6 * SECOND), world.story()


MEMBERS = 248
BUDGET_PER_SECOND = 2_000


@pytest.mark.timeout(300)
def test_a_thousand_nodes_one_broken_leader():
    """Four locations of 250 nodes with daemons on some of them: b's leader breaks, and c-a does not notice.

    Four locations are what a mesh may have (the view bits of a packet); the other nodes answer and follow.
    """
    engines = ("a1", "a250", "b2", "c1")
    world = _world(*(Shape(1, MEMBERS) for _ in range(4)), engines=engines)
    assert 1_000 == len(world.mesh.node)
    for name in engines:
        rates = world.nodes[name].engine.state.schedule.rates()
        assert sum(rate.sessions * SECOND / rate.interval_ns for rate in rates) <= BUDGET_PER_SECOND

    world.faults.append(faults.overlay_black_hole("b1"))
    world.run_until(lambda: bool(_moved(world)), limit_ns=2 * SECOND)
    world.run(200 * MS)
    moved = _moved(world)
    assert frozenset(("site-a", "site-b")) in moved, world.story()
    assert all("site-b" in pair for pair in moved), world.story()
