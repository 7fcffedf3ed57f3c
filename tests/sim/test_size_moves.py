"""Sizes and moves: nothing moves for its size unless that is wanted, nor into a smaller path without need."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.control.explain import explain
from meshwatchd.core.pmtu.rest_intervals import SEGMENT_NS
from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.failover_facts import FailoverRolledBack, FailoverVerified
from meshwatchd.model.settings import SECOND, PolicySettings, Settings
from tests.sim import faults
from tests.sim.healthy import healthy_world
from tests.sim.world import World

IMPATIENT = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND)


def _moving(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, mtu=msgspec.structs.replace(settings.mtu, move=True))


def _is_away(world: World) -> bool:
    return any(world.are_on(rank) for rank in (1, 2, 3))


def _measured(adjust=lambda settings: settings, seed: int = 4) -> World:
    world = healthy_world(seed=seed, policy=IMPATIENT, adjust=adjust)
    world.run(5 * SECOND)
    return world


def test_a_black_hole_moves_nothing_by_itself():
    """The verdict is critical, since large packets of real traffic are lost; small ones are not worth a move."""
    world = _measured()
    world.faults.append(faults.size_limit("tunnel", "a1", 1300, to="b1"))
    world.run(8 * SECOND)

    assert "mtu-black-hole@b1" == world.verdict("a1")
    assert "critical" == world.nodes["a1"].controller.verdicts.current.severity
    assert {0} == set(world.active_ranks().values())


def test_where_it_is_wanted_traffic_moves_to_a_path_that_carries_all_and_comes_back():
    """Both relays of the standby agree, since both have measured it; home is taken back once it carries all again."""
    world = _measured(_moving)
    world.faults.append(faults.size_limit("tunnel", "a1", 1300, to="b1"))

    assert world.run_until(lambda: _is_away(world), limit_ns=5 * SECOND), world.story()
    world.run(8 * SECOND)
    assert {("mtu-black-hole", "a1"), ("mtu-black-hole", "b1")} == world.accusations()
    assert _is_away(world), world.story()
    world.faults.clear()
    assert world.run_until(lambda: world.are_on(0), limit_ns=30 * SECOND), world.story()


@pytest.mark.parametrize("seed", [1, 4, 16])
def test_a_broken_path_is_left_for_a_standby_of_full_size(seed):
    """Rank 1 answers and loses large packets, rank 3 carries them; a1, which relays rank 1 alone, may ask first."""
    world = _measured(seed=seed)
    world.faults.append(faults.size_limit("tunnel", "a1", 1300, to="b2"))
    world.run(SEGMENT_NS + 6 * SECOND)
    world.faults.append(faults.overlay_black_hole("b1"))

    assert world.run_until(lambda: world.are_on(3), limit_ns=2 * SECOND), world.story()


def test_explain_foretells_the_path_that_is_taken():
    """Its rank is not the lowest of those that answer: rank 1 loses large packets, which the policy knows."""
    world = _measured()
    world.faults.append(faults.size_limit("tunnel", "a1", 1300, to="b2"))
    world.run(SEGMENT_NS + 6 * SECOND)
    (explanation,) = explain(world.nodes["a3"].engine.status(world.now, {}), ())
    assert "if the path in use broke, traffic would move to path b1-a2" in explanation.next
    world.faults.append(faults.tunnel_blocked("a1", "b1"))

    assert world.run_until(lambda: world.are_on(2), limit_ns=2 * SECOND), world.story()


def test_a_broken_path_is_left_for_a_small_standby_where_there_is_no_other():
    """Small packets are more than none; what the move costs is told."""
    world = _measured()
    for relay in ("a1", "a2"):
        world.faults.append(faults.size_limit("tunnel", relay, 1300, to="b2"))
    world.run(SEGMENT_NS + 6 * SECOND)
    world.faults.append(faults.overlay_black_hole("b1"))

    assert world.run_until(lambda: world.are_on(1), limit_ns=2 * SECOND), world.story()
    world.run(2 * SECOND)
    assert world.are_on(1), world.story()
    verified = [told.fact for told in world.facts(FailoverVerified)]
    assert any(isinstance(fact, FailoverVerified) and fact.small_only for fact in verified)


def test_an_operators_move_into_a_black_hole_is_undone():
    """Nothing forced it, and the path that was left carried everything."""
    world = _measured()
    world.faults.append(faults.size_limit("tunnel", "a1", 1300, to="b2"))
    world.run(6 * SECOND)
    reply = world.operate("b2", OperatorRequested(request=1, verb=OperatorVerb.FAILOVER, to_rank=1))
    assert reply.is_accepted, reply.text
    world.run(3 * SECOND)

    rolled = [told.fact for told in world.facts(FailoverRolledBack)]
    reasons = [fact.reason for fact in rolled if isinstance(fact, FailoverRolledBack)]
    assert any("full size" in reason for reason in reasons), world.story()
    assert world.are_on(0), world.story()


def test_home_is_not_taken_back_while_it_loses_large_packets():
    """The leader's overlay is repaired, but carries less than before."""
    world = _measured()
    world.faults.append(faults.overlay_black_hole("b1"))
    assert world.run_until(lambda: world.are_on(1), limit_ns=2 * SECOND), world.story()
    world.faults[:] = [faults.size_limit("tunnel", "a1", 1300, to="b1")]
    world.run(15 * SECOND)
    assert world.are_on(1), world.story()
    world.faults.clear()

    assert world.run_until(lambda: world.are_on(0), limit_ns=30 * SECOND), world.story()
