"""The layers beside the ordinary ones: IPIP, IPv6, canaries, and the node itself."""

from __future__ import annotations

import pytest

from meshwatchd.model.canary import Canary
from meshwatchd.model.failover_facts import FailoverApplied
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import SECOND, PolicySettings, Settings
from tests.sim import faults
from tests.sim.healthy import healthy_world
from tests.support.lab_mesh import NAMES, with_canaries, with_ip6, with_ipip

IMPATIENT = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND)
WEB = Canary(name="web", address="10.244.3.9", port=80, node=NodeName("a3"))


def _everything(settings: Settings) -> Settings:
    return with_canaries(with_ip6(with_ipip(settings)), WEB)


@pytest.mark.parametrize("leader", ["a1", "b1"])
def test_a_dead_ipip_leg_is_named_by_all_and_gone_around(leader):
    """Its members probe the leg, the leader and the other location hear it from them; the overlay is innocent."""
    world = healthy_world(seed=3, policy=IMPATIENT, adjust=with_ipip)
    began = world.now
    world.faults.append(faults.ipip_black_hole(leader))

    moved = world.run_until(lambda: any(world.are_on(rank) for rank in (1, 2, 3)), limit_ns=SECOND)
    assert moved, world.story(since=began)
    world.run(began + 2 * SECOND - world.now)
    assert dict.fromkeys(NAMES, f"ipip-black-hole@{leader}") == world.verdicts(), world.story(since=began)
    assert {("ipip-black-hole", leader)} == world.accusations(since=began), world.story(since=began)

    world.faults.clear()
    assert world.run_until(lambda: world.are_on(0), limit_ns=6 * SECOND), world.story(since=began)
    world.run(SECOND)
    assert {"none"} == set(world.verdicts().values()), world.story(since=began)


def test_an_overlay_that_is_dead_is_not_blamed_on_ipip():
    """The leg through the IPIP device is dead as well; what is lowest is named."""
    world = healthy_world(seed=5, policy=IMPATIENT, adjust=with_ipip)
    began = world.now
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(2 * SECOND)

    assert {("overlay-black-hole", "b1")} == world.accusations(since=began), world.story(since=began)


def test_a_node_that_loses_ip6_is_named_and_nothing_moves():
    """Its own side says so of the lowest layer, the other side of the path to it."""
    world = healthy_world(seed=6, policy=IMPATIENT, adjust=_everything)
    world.run(5 * SECOND)
    began = world.now
    world.faults.append(faults.without_ip6("b1"))
    world.run(20 * SECOND)

    assert {"address-family-broken"} == {code for code, _ in world.accusations(since=began)}, world.story(since=began)
    assert {name: "address-family-broken@b1" for name in NAMES if name != "b1"} == {
        name: word for name, word in world.verdicts().items() if name != "b1"
    }
    assert [] == world.switches

    world.faults.clear()
    is_over = world.run_until(lambda: {"none"} == set(world.verdicts().values()), limit_ns=20 * SECOND)
    assert is_over, world.story(since=began)


def test_a_silent_canary_is_a_warning_at_those_who_ask_it():
    """Only the other location does."""
    world = healthy_world(seed=7, adjust=_everything)
    world.run(5 * SECOND)
    world.faults.append(faults.pod_dead("a3"))
    world.run(30 * SECOND)

    expected = {name: "pod-unreachable@a3" if name[0] == "b" else "none" for name in NAMES}
    assert expected == world.verdicts(), world.story()
    assert [] == world.switches


@pytest.mark.parametrize("name", ["b1", "b2", "b3"])
def test_a_node_that_hears_nothing_accuses_itself(name):
    """Not even its own probes: then everybody else seems dead."""
    world = healthy_world(seed=8, policy=IMPATIENT, adjust=_everything)
    began = world.now
    world.faults.append(faults.deaf(name))
    world.run(3 * SECOND)

    assert {("local-fault", name)} == world.accusations(since=began, node=name), world.story(since=began)
    assert [] == [told for told in world.facts(FailoverApplied, node=name) if told.at > began], world.story()


def test_random_loss_accuses_nobody_with_every_layer_watched():
    """Two percent on every wire: more sessions are no more false alarms."""
    world = healthy_world(seed=9, policy=IMPATIENT, adjust=_everything)
    began = world.now
    world.faults.append(faults.random_loss(0.02))
    world.run(30 * SECOND)

    assert set() == world.accusations(since=began), world.story(since=began)
    assert [] == world.switches
