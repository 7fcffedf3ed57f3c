"""How soon a fault is found at the default profile, on cold and warm flow tables, and how seldom one is made up.

Virtual time, several seeds; the bounds are those the daemon promises. `python -m tests.sim.false_trips` runs longer.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pytest

from meshwatchd.core.probing.scouts import scouts
from meshwatchd.model import outputs as out
from meshwatchd.model.failover_facts import FailoverProposed
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import MINUTE, MS, SECOND
from tests.sim import faults
from tests.sim.detection import Times, after, new_flows, trusted_world
from tests.sim.false_trips import run
from tests.sim.healthy import healthy_world
from tests.sim.parts import SimNode
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World

SEEDS = range(24)


class _Scouted(World):
    """Notes when fresh probes between scouts of the first two locations leave over the path in use."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.left: list[int] = []

    def _send(self, node: SimNode, probe: out.SendProbe) -> None:
        session, topology = node.engine.state.schedule.session(probe.session), node.engine.state.topology
        assert session is not None
        assert topology is not None
        plan, mesh = session.plan, topology.mesh
        if (plan.layer, plan.path, plan.flow) == (Layer.RELAY, 0, FlowClass.FRESH) and not probe.is_confirm:
            pair = [self.locations[node.name], self.locations[plan.peer]]
            if plan.peer in scouts(mesh, *reversed(pair)) and node.name in scouts(mesh, *pair):
                self.left.append(self.now)
        super()._send(node, probe)


@cache
def _on_a_table(memory_min: int, probed_min: int) -> tuple[Times, ...]:
    """A table below b1 stops learning, after so many minutes of probing with so many of memory."""
    return tuple(new_flows(seed, memory_min=memory_min, probed_min=probed_min) for seed in SEEDS)


@pytest.mark.parametrize(("memory_min", "probed_min", "limit_ms"), [(4, 0, 300), (4, 20, 300), (15, 60, 600)])
def test_new_flows_that_die_are_found_in_time(memory_min, probed_min, limit_ms):
    """The slowest of all seeds, and every one of them leads to a move."""
    times = _on_a_table(memory_min, probed_min)

    assert max(each.condemned for each in times) <= limit_ms * MS, times
    assert max(each.moved for each in times) <= 1_000 * MS, times


def test_a_table_that_remembers_half_costs_no_more_than_twice_the_time():
    """From the fault to traffic on another path, by the mean, which a few seeds tell well enough."""
    cold, warm = ([each.moved for each in _on_a_table(*table)] for table in ((4, 0), (15, 60)))

    assert sum(warm) <= 2 * sum(cold), (cold, warm)


@pytest.mark.parametrize(
    "shapes", [(Shape(0, 0), Shape(1, 0)), (Shape(1, 0), Shape(1, 0)), (Shape(1, 1), Shape(1, 1)), (Shape(0, 1),) * 3]
)
def test_scouts_leave_the_path_in_use_unseen_for_a_little_more_than_an_interval(shapes):
    """Whatever their number and whenever each began; by chance alone it is two to six intervals."""
    world = _Scouted(seed=5, mesh=mesh_of(shapes))
    world.run(20 * SECOND)
    settled = len(world.left)
    world.run(5 * SECOND)
    gaps = [after - before for before, after in itertools.pairwise(world.left[settled:])]

    assert 95 <= len(gaps) <= 105
    assert max(gaps) <= 70 * MS


@pytest.mark.parametrize("seed", range(4))
def test_a_quarter_of_the_buckets_is_found_within_a_second(seed):
    """Old flows and new ones, whichever falls into it; the others live, and every session answers now and then."""
    world = trusted_world(seed=seed)

    assert after(world, faults.broken_buckets("b1")).condemned <= SECOND


@pytest.mark.parametrize("loss", [0.02, 0.05])
def test_minutes_of_everyday_loss_condemn_nothing(loss):
    """One node, every packet lost with that probability on either way; bursts stay within their budget."""
    tally = run("a1", loss, 4 * MINUTE)

    assert (0, 0) == (tally.condemned, tally.accused)
    assert tally.peak_nats < tally.trip_nats
    assert tally.burst_probes <= tally.probes / 2


@pytest.mark.parametrize("loss", [0.02, 0.05])
def test_everyday_loss_between_the_sites_moves_nothing(loss):
    """The whole mesh, on either way of the tunnel: no verdict, no proposal, no switch."""
    world = healthy_world(seed=5)
    since = world.now
    world.faults.append(lambda leg, _flow, rng: leg.kind == "tunnel" and rng.random() < loss)
    world.run(20 * SECOND)

    assert [] == world.switches
    assert [] == world.facts(FailoverProposed)
    assert set() == world.accusations(since=since), world.story(since=since)
