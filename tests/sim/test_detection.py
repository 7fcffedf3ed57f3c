"""How soon a fault is found at the default profile, on cold and warm flow tables, and how seldom one is made up.

Virtual time, several seeds; the bounds are those the daemon promises. `python -m tests.sim.false_trips` runs longer.
"""

from __future__ import annotations

from functools import cache

import pytest

from meshwatchd.model.failover_facts import FailoverProposed
from meshwatchd.model.settings import MINUTE, MS, SECOND
from tests.sim import faults
from tests.sim.detection import Times, after, new_flows, trusted_world
from tests.sim.false_trips import run
from tests.sim.healthy import healthy_world

SEEDS = range(24)


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
