"""Workers that go around their own leg to the gateway: taken on proof, nobody else concerned, left when it is well."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.probing.detour_plan import ports_answered
from meshwatchd.model.detour import is_detour
from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.failover_facts import DetourLeft, DetourTaken
from meshwatchd.model.ids import FlowClass
from meshwatchd.model.settings import MS, SECOND, SubmarinerSettings
from tests.sim.faults import Fault, Leg
from tests.sim.star import StarWorld

HOME_NS = 60 * SECOND
"""The hold-down of these worlds is 5 s and the wait to restore 2 s; a second failover waits twice as long."""


def leg_dead(node: str) -> Fault:
    """Nothing crosses the leg of a worker, in either direction."""
    return lambda leg, _flow, _rng: leg.kind == "overlay" and node in (leg.source, leg.target)


def half_dead(gateway: str, *, remembered: float = 0.17) -> Fault:
    """New flows over the legs to a gateway die, but for those whose outer flow is remembered."""

    def drops(leg: Leg, flow, rng) -> bool:
        is_hit = leg.kind == "overlay" and leg.target == gateway and flow is FlowClass.FRESH
        return is_hit and rng.random() >= remembered

    return drops


def not_taken_from(node: str, relay: str) -> Fault:
    """What a worker hands to a neighbour over the pods' network is lost."""
    return lambda leg, _flow, _rng: leg.kind == "underlay" and (leg.source, leg.target) == (node, relay)


def _well(seed: int = 1, *, is_on: bool = True) -> StarWorld:
    world = StarWorld(seed=seed, is_on=is_on)
    assert world.run_until(lambda: {"none"} == set(world.verdicts().values()), limit_ns=40 * SECOND), world.story()
    world.run(10 * SECOND)
    assert {} == world.detours()
    assert [] == world.switches
    return world


def _outage_ns(world: StarWorld, fault: Fault, source: str, target: str) -> int:
    """How long nothing new gets from node to node after a fault."""
    began = world.now
    world.faults.append(fault)
    assert not world.carries(source, target)
    assert world.run_until(lambda: world.carries(source, target), limit_ns=5 * SECOND), world.story(since=began)
    return world.now - began


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_worker_whose_leg_dies_goes_by_its_gateway_within_400_ms(seed):
    """It alone: whatever others see of it, nothing of theirs moves."""
    world = _well(seed)
    world.run(seed * 137 * MS)
    began = world.now

    assert _outage_ns(world, leg_dead("a3"), "a3", "b3") <= 400 * MS, world.story(since=began)

    world.run(20 * SECOND)
    assert {"a3": "a1"} == world.detours() == world.in_kernels(), world.story(since=began)
    assert ["a3"] == [told.node for told in world.facts(DetourTaken)]
    assert all(world.now - switch.at < 30 * SECOND and switch.proven_at >= began for switch in world.switches)
    healed = world.now
    world.faults.clear()
    assert world.run_until(lambda: not world.in_kernels(), limit_ns=HOME_NS), world.story(since=healed)
    world.run(20 * SECOND)
    assert ["a3"] == [told.node for told in world.facts(DetourLeft)]
    assert {} == world.detours()
    assert {"none"} == set(world.verdicts().values()), world.story(since=healed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_half_dead_gateway_is_gone_around_by_each_of_its_workers(seed):
    """And by nobody of the other cluster, though all of it misses them."""
    world = _well(seed)
    world.faults.append(half_dead("a1", remembered=0.0))
    began = world.now
    assert world.run_until(lambda: world.carries("a2", "b2") and world.carries("a3", "b3"), limit_ns=SECOND), (
        world.story(since=began)
    )
    assert world.now - began <= 400 * MS
    world.run(20 * SECOND)

    assert {"a2": "a1", "a3": "a1"} == world.detours() == world.in_kernels(), world.story(since=began)
    world.faults.clear()
    assert world.run_until(lambda: not world.in_kernels(), limit_ns=HOME_NS), world.story(since=began)


def test_where_some_new_flows_are_remembered_traffic_stays_on_the_detour():
    """The leg answers now and then, and is not come home to as long as it loses new flows."""
    world = _well()
    world.faults.append(half_dead("a1", remembered=0.5))
    assert world.run_until(lambda: {"a2", "a3"} == set(world.detours()), limit_ns=20 * SECOND), world.story()
    world.run(120 * SECOND)

    assert {"a2", "a3"} == set(world.detours()), world.story()
    assert [] == world.facts(DetourLeft)


def test_a_neighbour_is_gone_by_where_the_gateway_takes_nothing():
    """It sends on by its own leg what it is handed, also where its own traffic goes around that."""
    world = _well()
    world.faults += [leg_dead("a3"), not_taken_from("a3", "a1")]
    assert world.run_until(lambda: world.carries("a3", "b1"), limit_ns=2 * SECOND), world.story()
    world.run(SECOND)
    assert {"a3": "a2"} == world.detours() == world.in_kernels()


def test_two_workers_without_legs_do_not_send_to_each_other():
    """Neither is proven by the other: what comes from a neighbour takes the leg, and the legs are dead."""
    world = _well()
    gone = [not_taken_from(name, "a1") for name in ("a2", "a3")]
    world.faults += [leg_dead("a2"), leg_dead("a3"), *gone]
    world.run(30 * SECOND)

    assert {} == world.detours() == world.in_kernels()
    assert [] == world.switches


def test_what_no_way_around_cures_moves_nothing():
    """The cable is cut, or the other gateway is dead: the leg is innocent."""
    world = _well()
    world.faults.append(lambda leg, _flow, _rng: leg.kind == "tunnel")
    world.run(30 * SECOND)

    assert [] == world.switches
    assert {} == world.detours()


def test_only_the_way_back_over_the_overlay_is_dead():
    """The gateway's frames to a worker are lost (a missing FDB entry): pods do not need them, and nothing moves."""
    world = _well()
    world.faults.append(lambda leg, _flow, _rng: leg.kind == "overlay" and (leg.source, leg.target) == ("a1", "a3"))
    world.run(90 * SECOND)
    asked = _asked_around(world, "a3")
    world.run(30 * SECOND)

    assert world.carries("a3", "b3")
    assert [] == world.switches
    assert _asked_around(world, "a3") - asked <= 14, "two ways, each every five seconds"


def _asked_around(world: StarWorld, name: str) -> int:
    sessions = world.nodes[name].engine.state.schedule.sessions
    return sum(session.sent for session in sessions if is_detour(session.plan.path))


def test_a_detour_that_dies_is_left_for_another_and_for_the_leg():
    """First the gateway takes nothing any more, then the leg is well and the neighbour takes nothing."""
    world = _well()
    world.faults.append(leg_dead("a3"))
    assert world.run_until(lambda: {"a3": "a1"} == world.detours(), limit_ns=2 * SECOND), world.story()
    world.run(3 * SECOND)
    world.faults.append(not_taken_from("a3", "a1"))
    assert world.run_until(lambda: {"a3": "a2"} == world.detours(), limit_ns=SECOND), world.story()
    world.run(3 * SECOND)
    world.faults[:] = [not_taken_from("a3", "a1"), not_taken_from("a3", "a2")]
    assert world.run_until(lambda: {} == world.detours() == world.in_kernels(), limit_ns=20 * SECOND), world.story()


def test_a_restart_on_a_detour_touches_nothing_and_comes_home_later():
    """The rule is adopted by the next process."""
    world = _well()
    world.faults.append(leg_dead("a3"))
    assert world.run_until(lambda: {"a3": "a1"} == world.detours(), limit_ns=2 * SECOND), world.story()
    world.run(2 * SECOND)
    changes = world.nodes["a3"].changes
    world.restart("a3")
    world.run(20 * SECOND)
    assert (changes, {"a3": "a1"}) == (world.nodes["a3"].changes, world.in_kernels()), world.story()
    assert {"a3": "a1"} == world.detours()
    world.faults.clear()
    assert world.run_until(lambda: not world.in_kernels(), limit_ns=HOME_NS), world.story()


def test_switched_off_there_is_no_trace_of_it():
    """No session, no port, no object in the kernel, and no move, as by default."""
    world = _well(is_on=False)
    world.faults.append(leg_dead("a3"))
    world.run(30 * SECOND)

    engines = [node.engine for node in world.nodes.values()]
    assert not any(is_detour(session.plan.path) for each in engines for session in each.state.schedule.sessions)
    planners = [each.takeover.planner for each in engines if each.takeover.planner is not None]
    assert [()] * len(world.names) == [ports_answered(each) for each in planners]
    assert {((), ())} == {(given.rules, given.routes) for given in (each.provision() for each in planners)}
    assert ([], {}) == (world.switches, world.in_kernels())
    assert not world.carries("a3", "b3")
    assert {None} == {each.state.leg.deadline() for each in engines}


def test_switched_off_it_takes_back_what_an_earlier_process_has_moved():
    """At once: nobody would watch what that leads by."""
    world = _well()
    world.faults.append(leg_dead("a3"))
    assert world.run_until(lambda: {"a3": "a1"} == world.in_kernels(), limit_ns=2 * SECOND), world.story()
    world.settings["a3"] = msgspec.structs.replace(world.settings["a3"], submariner=SubmarinerSettings())
    world.restart("a3")
    assert world.run_until(lambda: {} == world.in_kernels(), limit_ns=500 * MS), world.story()
    world.run(20 * SECOND)
    assert {} == world.in_kernels() == world.detours()


def test_a_daemon_that_starts_in_the_middle_of_the_fault_finds_the_way_around():
    """To it nothing has ever answered over the leg: what the detours carry speaks against it.

    Which of two detours is taken is chance: with one seed in four it is the one by a neighbour.
    """
    world = _well(2)
    world.kill("a3")
    world.faults.append(leg_dead("a3"))
    world.run(5 * SECOND)
    world.restart("a3")
    assert world.run_until(lambda: {"a3": "a1"} == world.in_kernels(), limit_ns=30 * SECOND), world.story()


def test_nothing_moves_while_an_operator_has_paused_it():
    """And it does once that is over."""
    world = _well()
    world.operate("a3", OperatorRequested(request=1, name="eve", verb=OperatorVerb.PAUSE, reason="work"))
    world.faults.append(leg_dead("a3"))
    world.run(20 * SECOND)
    assert {} == world.in_kernels()
    world.operate("a3", OperatorRequested(request=2, name="eve", verb=OperatorVerb.RESUME))
    assert world.run_until(lambda: {"a3": "a1"} == world.in_kernels(), limit_ns=20 * SECOND), world.story()


def test_an_operator_brings_traffic_home_where_the_leg_is_good():
    """Before hold-down and wait to restore are over, never onto a broken leg, and first as a dry run."""
    world = _well()
    world.faults.append(leg_dead("a3"))
    assert world.run_until(lambda: {"a3": "a1"} == world.in_kernels(), limit_ns=2 * SECOND), world.story()
    world.run(500 * MS)
    refused = world.operate("a3", _failback(1))
    assert (False, "the leg to a1 is not good now; a broken path is never used") == (refused.is_accepted, refused.text)
    world.faults.clear()
    leg = world.nodes["a3"].engine.state.leg
    assert world.run_until(lambda: not leg.why_stay(), limit_ns=4 * SECOND), world.story()
    dry = world.operate("a3", _failback(2, is_dry_run=True))
    assert (True, ("ip rule del pref 5479 from all lookup 7780 protocol 117",)) == (dry.is_accepted, dry.operations)
    assert {"a3": "a1"} == world.in_kernels()
    done = world.operate("a3", _failback(3))
    assert (True, dry.operations) == (done.is_accepted, done.operations)
    world.run(50 * MS)

    assert {} == world.in_kernels() == world.detours()
    (left,) = world.facts(DetourLeft)
    assert isinstance(left.fact, DetourLeft)
    assert "eve" in left.fact.because[0]
    assert "rank 0 is in use already" == world.operate("a3", _failback(4)).text


def _failback(request: int, *, is_dry_run: bool = False) -> OperatorRequested:
    return OperatorRequested(request=request, name="eve", verb=OperatorVerb.FAILBACK, is_dry_run=is_dry_run)


def test_a_kernel_that_refuses_the_rule_is_asked_again_later():
    """Traffic is where it was meanwhile, and the next candidate is tried."""
    world = _well()
    world.nodes["a3"].refusal = "EPERM"
    world.faults.append(leg_dead("a3"))
    world.run(10 * SECOND)
    assert {} == world.detours() == world.in_kernels()
    world.nodes["a3"].refusal = ""
    assert world.run_until(lambda: "a3" in world.in_kernels(), limit_ns=60 * SECOND), world.story()
