"""Random worlds: whatever breaks in whatever order, some things never happen, and in the end all is as before."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import given as for_any
from hypothesis import strategies as st

from meshwatchd.model.events import Reason
from meshwatchd.model.settings import MINUTE, MS, SECOND, PolicySettings
from tests.sim import faults
from tests.sim.clones import Frozen
from tests.sim.healthy import healthy_world
from tests.sim.world import World
from tests.support.lab_mesh import NAMES

POLICY = PolicySettings(hold_down=SECOND, wait_to_restore=500 * MS, actions_per_minute=6)

LONG_ENOUGH_NS = 150 * SECOND
"""For the longest hold-down that the worst of these stories earns, and for a spent budget to be granted anew."""

PLACES = st.sampled_from(NAMES)
TUNNELS = st.sampled_from([(a, b) for a in ("a1", "a2") for b in ("b1", "b2")])
BREAKAGES = st.one_of(
    st.tuples(st.just("new-flows"), PLACES),
    st.tuples(st.just("black-hole"), PLACES),
    st.tuples(st.just("not-forwarding"), st.sampled_from(["a1", "a2", "b1", "b2"])),
    st.tuples(st.just("dead"), PLACES),
    st.tuples(st.just("tunnel"), TUNNELS),
    st.tuples(st.just("one-way"), TUNNELS),
    st.tuples(st.just("restart"), PLACES),
    st.tuples(st.just("stall"), PLACES),
)
STORIES = st.lists(st.tuples(BREAKAGES, st.integers(20, 1_500), st.integers(0, 800)), min_size=1, max_size=4)


@cache
def _healthy() -> Frozen[World]:
    return Frozen(healthy_world(policy=POLICY))


def _break(world: World, kind: str, place) -> faults.Fault | None:
    match kind:
        case "new-flows":
            return faults.overlay_new_flows(place)
        case "black-hole":
            return faults.overlay_black_hole(place)
        case "not-forwarding":
            return faults.not_forwarding(place)
        case "dead":
            return faults.dead(place)
        case "tunnel":
            return faults.tunnel_blocked(*place)
        case "one-way":
            return faults.one_way_tunnel(*place)
        case "restart":
            world.restart(place)
        case "stall":
            world.stall(place, 700 * MS)
    return None


# Minutes of virtual time of six engines, ten times over; a machine that does something else besides takes long.
@pytest.mark.timeout(300)
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@for_any(story=STORIES, seed=st.integers(0, 2**16))
def test_whatever_breaks_moves_are_sound_and_home_is_found(story, seed):
    """Faults come one after the other, and may overlap by outlasting the next one's beginning."""
    world = _healthy().copy(seed)
    before = world.rules()
    for position, ((kind, place), lasts_ms, pause_ms) in enumerate(story):
        note(f"{world.now / SECOND:.3f} s: {kind} at {place} for {lasts_ms} ms")
        fault = _break(world, kind, place)
        if fault is not None:
            world.faults.append(fault)
        world.run(lasts_ms * MS)
        if fault is not None and position % 2 == 0:
            world.faults.remove(fault)
        world.run(pause_ms * MS)
    world.faults.clear()
    healed = world.now

    assert world.run_until(lambda: _is_home(world), limit_ns=LONG_ENOUGH_NS), world.story(since=healed)
    world.run(4 * SECOND)
    assert before == world.rules(), world.story(since=healed)
    assert {"none"} == set(world.verdicts().values()), world.story(since=healed)
    _assert_moves_were_sound(world)


def _is_home(world: World) -> bool:
    return all(node.is_running and node.engine.state.controllers for node in world.nodes.values()) and world.are_on(0)


def _assert_moves_were_sound(world: World) -> None:
    """No override onto a path the mover saw broken, and no more changes in a minute than the budget allows."""
    for switch in world.switches:
        if switch.add and switch.reason is not Reason.ROLLED_BACK:
            assert switch.is_target_good, f"{switch}\n{world.story()}"
    for name in NAMES:
        times = [switch.at for switch in world.switches if switch.node == name]
        for at in times:
            recent = sum(1 for other in times if at <= other < at + MINUTE)
            assert recent <= POLICY.actions_per_minute, f"{name}: {recent} changes in a minute\n{world.story()}"
