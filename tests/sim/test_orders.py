"""Operators' standing orders in a running mesh: paused, drained, pinned, confirmed or undone, through restarts."""

from __future__ import annotations

import pytest

from meshwatchd.core.failover.state_machine import MoveState
from meshwatchd.model import outputs as out
from meshwatchd.model.canary import Canary
from meshwatchd.model.events import OperatorRequested, OperatorVerb, Reason
from meshwatchd.model.failover_facts import FailoverHeld, ProposalAnswered
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MINUTE, MS, SECOND, Mode, PolicySettings, Settings
from tests.sim import faults
from tests.sim.healthy import healthy_world
from tests.sim.world import World
from tests.support.lab_mesh import NAMES, with_canaries

IMPATIENT = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND)


def _ask(verb, **words):
    return OperatorRequested(request=1, verb=verb, name="ann", **words)


def _order(world: World, name: str, verb: OperatorVerb, **words) -> out.ReplyOperator:
    reply = world.operate(name, _ask(verb, **words))
    assert reply.is_accepted, reply
    return reply


CROSSINGS = [(a, b) for a in ("a2", "a3") for b in ("b2", "b3")]


def _never_lost(world: World, duration_ns: int) -> bool:
    return not world.run_until(lambda: not all(world.carries(*pair) for pair in CROSSINGS), limit_ns=duration_ns)


def _with_two_canaries(settings: Settings) -> Settings:
    nodes = enumerate(("b2", "b3"))
    web = (Canary(name=f"web-{n}", node=NodeName(n), address=f"10.24{i}.3.9", port=80) for i, n in nodes)
    return with_canaries(settings, *web)


def test_a_drained_node_that_is_off_hides_no_dead_pod_of_another():
    """The silent canary of the drained node comes first in the list, and is excused."""
    world = World(seed=1, adjust=_with_two_canaries, engines=("a2", "b2", "b3"))
    world.run(3 * SECOND)
    _order(world, "b2", OperatorVerb.DRAIN, duration_ns=60 * MINUTE)
    world.run(SECOND)
    world.faults.append(faults.dead("b2"))
    world.run(14 * SECOND)
    assert "none" == world.verdict("a2"), world.story()

    world.faults.append(faults.pod_dead("b3"))
    world.run(24 * SECOND)
    assert "pod-unreachable@b3" == world.verdict("a2"), world.story()
    because = world.nodes["a2"].controller.verdicts.current.because
    assert ("canary web-b3 on b3 does not answer", "every layer of the mesh below answers") == because


@pytest.mark.parametrize("leader", ["a1", "b1"])
def test_a_drained_leader_is_left_without_losing_a_packet(leader):
    """Both sides move before it goes; then it goes, and nobody is alarmed; undrained, traffic comes home."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    began = world.now
    _order(world, leader, OperatorVerb.DRAIN, duration_ns=60 * MINUTE)
    assert _never_lost(world, SECOND), world.story(since=began)
    ranks = set(world.active_ranks().values())
    assert ranks in ({1}, {2}), world.story(since=began)
    assert world.are_on(ranks.pop())

    world.faults.append(faults.dead(leader))
    assert _never_lost(world, 5 * SECOND), world.story(since=began)
    words = {(fault, culprit) for fault, culprit in world.accusations(since=began) if fault != "local-fault"}
    assert set() == words, world.story(since=began)

    world.faults.clear()
    world.run(SECOND)
    assert set(world.active_ranks().values()) != {0}, "a drained relay is not come back to"
    _order(world, leader, OperatorVerb.UNDRAIN)
    assert world.run_until(lambda: world.are_on(0), limit_ns=10 * SECOND), world.story(since=began)


def test_a_drained_leader_that_traffic_has_not_left_is_told_when_it_breaks():
    """Where the daemons only observe, what is lost over it is no calm that somebody has ordered."""
    world = healthy_world(seed=3, mode=Mode.OBSERVE)
    _order(world, "b1", OperatorVerb.DRAIN, duration_ns=60 * MINUTE)
    world.run(SECOND)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(5 * SECOND)
    verdicts = [node.controller.verdicts.current for node in world.nodes.values()]
    assert {(FaultCode.OVERLAY_BLACK_HOLE, "b1")} == {(each.fault, each.culprit) for each in verdicts}


def test_a_drained_standby_is_not_used():
    """b2 is drained and b1 breaks: the path that needs b2 is the last choice, and there is none without either."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, "a2", OperatorVerb.DRAIN)
    world.run(500 * MS)
    world.faults.append(faults.tunnel_blocked("a1", "b1"))
    assert world.run_until(lambda: world.are_on(1), limit_ns=2 * SECOND), world.story()


def test_while_paused_nothing_moves_and_afterwards_it_does():
    """A pause on one of the two relays is enough: nobody moves alone."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    for name in ("a1", "a2"):
        _order(world, name, OperatorVerb.PAUSE, duration_ns=4 * SECOND)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(3 * SECOND)
    assert [] == world.switches, world.story()
    assert ("overlay-black-hole", "b1") in world.accusations()
    held = world.facts(FailoverHeld, node="a1")
    assert ["paused by ann: no reason given"] == [told.fact.reason for told in held]  # type: ignore[union-attr]

    assert world.run_until(lambda: world.carries("a3", "b3"), limit_ns=8 * SECOND), world.story()


def test_a_pause_on_one_relay_leaves_the_path_that_avoids_it():
    """a2 knows the better path, whose relay b2 is paused; it agrees to the only other one when b1 asks again."""
    world = healthy_world(seed=3)
    _order(world, "b2", OperatorVerb.PAUSE)
    world.faults.append(faults.tunnel_blocked("a1", "b1"))
    assert world.run_until(lambda: world.are_on(2), limit_ns=2 * SECOND), world.story()
    answers = [told.fact for told in world.facts(ProposalAnswered, node="a2")]
    assert [Reason.BETTER_PATH, Reason.BROKEN] == [fact.reason for fact in answers]  # type: ignore[union-attr]


def test_a_pinned_path_is_come_back_to_and_left_when_the_pin_ends():
    """Through a fault of its own, and without the other relay's wish to go home having its way."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, "a2", OperatorVerb.PIN, to_rank=3, duration_ns=60 * SECOND)
    assert world.run_until(lambda: world.are_on(3), limit_ns=SECOND), world.story()
    world.faults.append(faults.tunnel_blocked("a2", "b2"))
    assert world.run_until(lambda: world.are_on(0), limit_ns=2 * SECOND), world.story()
    world.faults.clear()
    assert world.run_until(lambda: world.are_on(3), limit_ns=20 * SECOND), world.story()
    world.run(5 * SECOND)
    assert world.are_on(3)
    _order(world, "a2", OperatorVerb.UNPIN)
    assert world.run_until(lambda: world.are_on(0), limit_ns=20 * SECOND), world.story()


def test_a_pinned_spare_link_between_the_leaders_is_come_back_to():
    """It has the relays of the primary path, and is another one; after a restart as well."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, "a1", OperatorVerb.PIN, to_rank=4, duration_ns=10 * MINUTE)
    assert world.run_until(lambda: world.are_on(4), limit_ns=SECOND), world.story()
    world.faults.append(lambda leg, _flow, _rng: leg.kind == "tunnel" and leg.path == 4)
    assert world.run_until(lambda: world.are_on(0), limit_ns=2 * SECOND), world.story()
    world.restart("a1")
    world.run(2 * SECOND)
    world.faults.clear()
    assert world.run_until(lambda: world.are_on(4), limit_ns=20 * SECOND), world.story()
    world.run(5 * SECOND)
    assert world.are_on(4), world.story()


def test_a_pin_that_ends_while_its_move_is_being_agreed_holds_nothing():
    """The other relay has granted it meanwhile, so traffic moves, and comes home: nobody wants it there any more."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, "a2", OperatorVerb.PIN, to_rank=3, duration_ns=60 * SECOND)
    world.run(2 * MS)
    assert world.nodes["a2"].controller.mover.state is MoveState.PROPOSING
    _order(world, "a2", OperatorVerb.UNPIN)
    assert world.run_until(lambda: world.are_on(3), limit_ns=SECOND), world.story()
    assert world.run_until(lambda: world.are_on(0), limit_ns=20 * SECOND), world.story()


def test_an_unconfirmed_failover_is_undone():
    """The operator has lost his own connection by it: 5 s later all is as before."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    before = world.rules()
    _order(world, "a1", OperatorVerb.FAILOVER, to_rank=1, duration_ns=5 * SECOND)
    assert world.run_until(lambda: world.are_on(1), limit_ns=SECOND), world.story()
    world.run(3 * SECOND)
    assert world.are_on(1)
    assert world.run_until(lambda: world.are_on(0), limit_ns=3 * SECOND), world.story()
    assert before == world.rules()


@pytest.mark.parametrize("was_chosen", [False, True])
def test_what_an_undone_failover_comes_back_to_is_left_as_it_would_have_been(was_chosen):
    """A standby that a fault led to is left once the fault is over; one that people chose is not."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    if was_chosen:
        _order(world, "b2", OperatorVerb.FAILOVER, to_rank=1)
    else:
        world.faults.append(faults.overlay_black_hole("b1"))
    assert world.run_until(lambda: world.are_on(1), limit_ns=2 * SECOND), world.story()
    world.run(SECOND)
    _order(world, "b2", OperatorVerb.FAILOVER, to_rank=3, duration_ns=5 * SECOND)
    assert world.run_until(lambda: world.are_on(3), limit_ns=SECOND), world.story()
    assert world.run_until(lambda: world.are_on(1), limit_ns=8 * SECOND), world.story()

    world.faults.clear()
    assert was_chosen is not world.run_until(lambda: world.are_on(0), limit_ns=MINUTE), world.story()
    assert {was_chosen} == {node.controller.mover.is_pinned for node in world.nodes.values()}


def test_a_confirmed_failover_stays():
    """Until the operator says otherwise."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, "a1", OperatorVerb.FAILOVER, to_rank=1, duration_ns=5 * SECOND)
    world.run(SECOND)
    _order(world, "a1", OperatorVerb.CONFIRM)
    world.run(10 * SECOND)
    assert world.are_on(1), world.story()


def test_orders_outlive_the_daemon():
    """Restarted on all nodes, the failover that waits to be confirmed is undone in time, and the drain still told."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, "a1", OperatorVerb.FAILOVER, to_rank=1, duration_ns=5 * SECOND)
    _order(world, "a2", OperatorVerb.DRAIN)
    world.run(SECOND)
    for name in NAMES:
        world.restart(name)
    world.run(2 * SECOND)
    assert world.are_on(1), world.story()
    assert world.nodes["a2"].banner.is_admin_down
    assert world.nodes["b2"].engine.state.views.is_admin_down("a2", world.now)
    assert world.run_until(lambda: world.are_on(0), limit_ns=6 * SECOND), world.story()


def test_what_an_operator_chose_outlives_the_daemon():
    """A restart is no failback."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    _order(world, "a1", OperatorVerb.FAILOVER, to_rank=1)
    world.run(SECOND)
    for name in NAMES:
        world.restart(name)
    world.run(12 * SECOND)
    assert world.are_on(1), world.story()


def test_a_restart_does_not_shorten_the_hold_down():
    """A daemon that crashes with each failover would otherwise flap for ever."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(SECOND)
    before = {name: node.controller.context.damper.hold_down_ns(world.now) for name, node in world.nodes.items()}
    for name in NAMES:
        world.restart(name)
    world.run(SECOND)
    after = {name: node.controller.context.damper.hold_down_ns(world.now) for name, node in world.nodes.items()}
    assert before == after
    assert {name: len(node.state.pairs[0].actions) for name, node in world.nodes.items() if node.rules} == {
        name: 1 for name, node in world.nodes.items() if node.rules
    }
