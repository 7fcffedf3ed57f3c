"""A standby that carries traffic and breaks while the primary path works: traffic is lost where nobody leaves it."""

from __future__ import annotations

import pytest

from meshwatchd.model import outputs as out
from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.settings import MINUTE, MS, SECOND, PolicySettings
from tests.sim import faults
from tests.sim.healthy import healthy_world
from tests.sim.world import World

IMPATIENT = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND)


def _order(world: World, name: str, verb: OperatorVerb, **words) -> None:
    reply = world.operate(name, OperatorRequested(request=1, verb=verb, name="ann", **words))
    assert reply.is_accepted, reply


def _pinned(name: str, rank: int) -> World:
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, name, OperatorVerb.PIN, to_rank=rank, duration_ns=MINUTE)
    assert world.run_until(lambda: world.are_on(rank), limit_ns=SECOND), world.story()
    world.run(SECOND)
    return world


def _cut(one: str, other: str):
    """Nothing passes between two nodes of one location."""
    return lambda leg, _flow, _rng: leg.kind in ("underlay", "overlay") and {leg.source, leg.target} == {one, other}


def _said(world: World, *, since: int = 0) -> list[str]:
    """What was stated of a path in use that is lost, while the primary path answers."""
    told = world.facts(out.VerdictChanged, since=since)
    verdicts = [each.fact.verdict for each in told if isinstance(each.fact, out.VerdictChanged)]
    return [words for verdict in verdicts for words in verdict.because if words.startswith("the path in use by")]


def _losing(world: World) -> dict[str, tuple[str, ...]]:
    """The nodes that call a fault critical, and why."""
    verdicts = {name: node.controller.verdicts.current for name, node in world.nodes.items()}
    critical = {name: each for name, each in verdicts.items() if each.severity is Severity.CRITICAL}
    assert {FaultCode.UNDETERMINED} >= {each.fault for each in critical.values()}, world.verdicts()
    return {name: each.because for name, each in critical.items()}


def test_a_pinned_path_behind_which_a_node_is_cut_off_is_critical():
    """Only b3 and its relay b2 lose each other: that relay is well, and keeps the pair where it was pinned."""
    world = _pinned("a1", 1)
    world.faults.append(_cut("b2", "b3"))
    world.run(1500 * MS)
    assert not world.carries("a3", "b3")
    lost = "the path in use by b2 and a1 does not answer here, the primary path does"
    why = _losing(world)
    assert {"a1", "a2", "a3", "b3"} == set(why), world.story()
    assert {(lost, "traffic is pinned to it by ann"), (lost, "an operator has chosen it")} == {why["a1"], why["b3"]}

    world.faults.clear()
    assert world.run_until(lambda: not _losing(world), limit_ns=10 * SECOND), world.story()


def test_a_path_that_paused_relays_keep_is_critical_when_it_breaks():
    """A fault moved traffic there, both relays were paused, and the primary path healed meanwhile."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    world.faults.append(faults.tunnel_blocked("a1", "b1"))
    assert world.run_until(lambda: world.are_on(1), limit_ns=2 * SECOND), world.story()
    relays = world.nodes["a1"].controller.mover.active.relays
    for name in relays:
        _order(world, name, OperatorVerb.PAUSE)
    world.faults.clear()
    world.run(3 * SECOND)
    assert {"none"} == set(world.verdicts().values()), world.story()

    began = world.now
    world.faults.append(faults.tunnel_blocked(*relays))
    world.run(1500 * MS)
    assert not world.carries("a3", "b3")
    losing = _losing(world)
    # The leader b1 is gone around, and sends over the primary path still.
    assert {"a1", "a2", "a3", "b2", "b3"} == set(losing), world.story(since=began)
    assert {"no traffic is moved: paused by ann: no reason given"} == {losing[name][-1] for name in relays}
    assert world.are_on(1)


@pytest.mark.parametrize("seed", [3, 5])
def test_an_ordinary_failover_and_failback_are_no_lost_path(seed):
    """The primary path dies and heals; what is in use is down for a moment each time, and is left at once."""
    world = healthy_world(seed=seed, policy=IMPATIENT)
    for fault in (faults.overlay_black_hole("b1"), faults.tunnel_blocked("a1", "b1")):
        world.faults.append(fault)
        assert world.run_until(lambda: any(map(world.are_on, (1, 2, 3))), limit_ns=2 * SECOND), world.story()
        world.run(SECOND)
        world.faults.clear()
        assert world.run_until(lambda: world.are_on(0), limit_ns=30 * SECOND), world.story()
        world.run(2 * SECOND)
    assert [] == _said(world), world.story()


def test_a_standby_that_breaks_and_is_left_is_no_lost_path():
    """Nothing holds traffic there: all go home at once, and come back to the pinned path when it is well."""
    world = _pinned("a2", 3)
    world.faults.append(faults.tunnel_blocked("a2", "b2"))
    assert world.run_until(lambda: world.are_on(0), limit_ns=2 * SECOND), world.story()
    world.run(2 * SECOND)
    world.faults.clear()
    assert world.run_until(lambda: world.are_on(3), limit_ns=20 * SECOND), world.story()
    world.run(2 * SECOND)
    assert [] == _said(world), world.story()


def test_a_drained_leader_that_goes_and_a_restart_are_no_lost_path():
    """Traffic has left it; a daemon that starts on a standby has heard nothing over it yet."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, "b1", OperatorVerb.DRAIN, duration_ns=MINUTE)
    world.run(SECOND)
    world.faults.append(faults.dead("b1"))
    world.run(2 * SECOND)
    world.faults.clear()
    world.run(SECOND)
    for name in ("a2", "b3"):
        world.restart(name)
    world.run(3 * SECOND)
    assert [] == _said(world), world.story()


def test_a_dead_node_behind_the_standby_in_use_is_no_lost_path():
    """Beyond b2 b3 alone is asked: dead it is silent over every path, and back it answers over all. Nobody may move."""
    world = _pinned("a1", 1)
    active = world.nodes["a1"].controller.mover.active
    for name in world.names:
        _order(world, name, OperatorVerb.PAUSE)
    world.faults.append(faults.dead("b3"))
    world.run(4 * SECOND)
    assert world.nodes["a1"].controller.watch.group(active).is_down
    assert world.are_on(1)
    world.faults.clear()
    world.run(4 * SECOND)
    assert [] == _said(world), world.story()
