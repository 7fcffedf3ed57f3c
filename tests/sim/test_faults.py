"""Each fault of the catalogue, on either leader: named, healed on both sides, and gone back from when it is over."""

from __future__ import annotations

import pytest

from meshwatchd.model.failover_facts import FailoverApplied, FailoverRolledBack
from meshwatchd.model.ids import FlowClass
from meshwatchd.model.settings import MS, SECOND, PolicySettings
from tests.sim import faults
from tests.sim.healthy import healthy_world
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World
from tests.support.lab_mesh import NAMES

IMPATIENT = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND)
OTHER = {"a1": "b1", "b1": "a1"}
FAULTS = {
    "overlay-new-flows": faults.overlay_new_flows,
    "overlay-black-hole": faults.overlay_black_hole,
    "relay-not-forwarding": faults.not_forwarding,
    "leader-dead": faults.dead,
    "wireguard-blocked": lambda leader: faults.tunnel_blocked(leader, OTHER[leader]),
}
CASES = [(fault, leader) for fault in FAULTS for leader in OTHER]


def _expected(fault: str, leader: str) -> dict[str, str]:
    """What each node says in the end; a leader that forwards nothing itself sees no fault."""
    words = dict.fromkeys(NAMES, f"{fault}@{leader}")
    if fault == "wireguard-blocked":
        return {name: f"{fault}@{'b1' if name[0] == 'a' else 'a1'}" for name in NAMES}
    if fault == "leader-dead":
        return words | {leader: f"local-fault@{leader}"}
    if fault == "relay-not-forwarding":
        return words | {leader: "none"}
    return words


def _crossings(*leaders: str) -> list[tuple[str, str]]:
    """Pairs of nodes of different locations; a bypassed leader keeps its own traffic on the mesh's path."""
    names = [name for name in NAMES if name not in leaders]
    return [(one, other) for one in names for other in names if one[0] == "a" and other[0] == "b"]


def _carries_everything(world: World, leader: str) -> bool:
    in_use = world.nodes["a3"].controller.mover.active
    bypassed = [name for name in OTHER if name not in in_use.relays]
    return all(world.carries(one, other) for one, other in _crossings(leader, *bypassed))


@pytest.mark.parametrize(("fault", "leader"), CASES)
def test_a_fault_is_named_healed_and_gone_back_from(fault, leader):
    """The whole story, once for each fault: verdicts, both sides on a standby, traffic, failback, clean kernels."""
    world = healthy_world(seed=1, policy=IMPATIENT)
    before, began = world.rules(), world.now
    isolated = leader if fault == "leader-dead" else ""
    world.faults.append(FAULTS[fault](leader))

    moved = world.run_until(lambda: _stands_on_a_standby(world, isolated), limit_ns=SECOND)
    assert moved, world.story(since=began)
    if fault == "overlay-new-flows":
        world.faults[:] = [faults.overlay_new_flows(leader, remembered=0)]
    assert _carries_everything(world, leader), world.story(since=began)

    world.run(began + 1_500 * MS - world.now)
    assert _expected(fault, leader) == world.verdicts(), world.story(since=began)
    assert _accused(fault, leader) >= world.accusations(since=began), world.story(since=began)

    world.faults.clear()
    healed = world.now
    assert world.run_until(lambda: world.are_on(0), limit_ns=6 * SECOND), world.story(since=healed)
    world.run(SECOND)
    assert before == world.rules()
    assert {"none"} == set(world.verdicts().values()), world.story(since=healed)
    assert [] == world.facts(FailoverRolledBack), world.story(since=began)


def _stands_on_a_standby(world: World, isolated: str) -> bool:
    return any(world.are_on(rank, but=isolated) for rank in (1, 2, 3))


def _accused(fault: str, leader: str) -> set[tuple[str, str]]:
    words = [text.split("@") for text in _expected(fault, leader).values() if "@" in text]
    return {(code, culprit) for code, culprit in words}


@pytest.mark.parametrize("leader", OTHER)
@pytest.mark.parametrize("seed", [0, 7, 10])
def test_new_flows_are_blamed_on_nobody_else(leader, seed):
    """One probe in six survives, and may suggest anything: seeds in which luck points at the wrong node first."""
    world = healthy_world(seed=seed, policy=IMPATIENT)
    began = world.now
    world.faults.append(faults.overlay_new_flows(leader))
    world.run(2 * SECOND)

    assert {("overlay-new-flows", leader)} == world.accusations(since=began), world.story(since=began)
    assert _stands_on_a_standby(world, ""), world.story(since=began)


@pytest.mark.parametrize("seed", [1, 5, 8])
def test_a_member_whose_own_overlay_loses_new_flows_accuses_itself_alone(seed):
    """Its overlay to the leader dies as that leader's would; seeds in which the leader was named first."""
    world = World(seed=seed, mesh=mesh_of((Shape(1, 3),) * 2))
    world.run(12 * SECOND)
    began = world.now
    world.faults.append(faults.overlay_new_flows("b5"))
    world.run(3 * SECOND)

    named = world.accusations(since=began) - {("node-unreachable", "b5")}
    assert {("overlay-new-flows", "b5")} == named, world.story(since=began)


def test_a_member_that_is_alone_with_its_leader_accuses_it():
    """There is nobody else to ask."""
    world = World(seed=1, mesh=mesh_of((Shape(0, 1),) * 2))
    world.run(12 * SECOND)
    world.faults.append(faults.overlay_new_flows("b1"))
    world.run(3 * SECOND)

    assert {"overlay-new-flows@b1"} == set(world.verdicts().values())


def test_with_half_of_the_flows_remembered_it_is_still_found():
    """After an hour of probing 47 % of new flows ride on remembered outer ones; a count of misses would never trip."""
    world = healthy_world(seed=2, policy=IMPATIENT)
    began = world.now
    world.faults.append(faults.overlay_new_flows("b1", remembered=0.47))

    assert world.run_until(lambda: _stands_on_a_standby(world, ""), limit_ns=5 * SECOND), world.story(since=began)


@pytest.mark.parametrize("leader", OTHER)
def test_remembered_flows_pass_throughout(leader):
    """Long-lived connections notice neither the fault nor the two moves."""
    world = healthy_world(seed=4, policy=IMPATIENT)
    lost: list[tuple[str, str]] = []

    def looks() -> bool:
        lost.extend(pair for pair in _crossings(leader) if not world.carries(*pair, flow=FlowClass.PINNED))
        return bool(world.facts(FailoverApplied)) and world.are_on(0)

    world.faults.append(faults.overlay_new_flows(leader))
    world.run_until(looks, limit_ns=500 * MS)
    world.faults.clear()

    # A node that has doubted the path for longer than it was broken acquits it later.
    assert world.run_until(looks, limit_ns=8 * SECOND)
    assert [] == lost
    assert len(world.facts(FailoverApplied)) >= 8


def test_a_fault_that_was_over_before_it_was_proven_moves_nothing():
    """50 ms without an answer: a burst, and that was it."""
    world = healthy_world(seed=6, policy=IMPATIENT)
    world.faults.append(faults.dead("b1"))
    world.run(15 * MS)
    world.faults.clear()
    world.run(2 * SECOND)

    assert [] == world.switches
    assert {"none"} == set(world.verdicts().values())


def test_a_tunnel_broken_in_one_direction_is_left():
    """A NAT mapping that broke one way: requests arrive, answers do not."""
    world = healthy_world(seed=8, policy=IMPATIENT)
    began = world.now
    world.faults.append(faults.one_way_tunnel("b1", "a1"))

    assert world.run_until(lambda: _stands_on_a_standby(world, ""), limit_ns=2 * SECOND), world.story(since=began)
    assert world.carries("a3", "b3")
