"""Pods dead, nodes alive: what is probed between addresses among pods, in a whole mesh."""

from __future__ import annotations

import pytest

from meshwatchd.model.failover_facts import FailoverApplied
from meshwatchd.model.settings import SECOND, PolicySettings
from tests.sim import faults
from tests.sim.clones import made_once
from tests.sim.healthy import healthy_world
from tests.support.lab_mesh import NAMES

IMPATIENT = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND)
BROKEN = "pod-network-broken"


@made_once
def _world(seed):
    world = healthy_world(seed=seed, policy=IMPATIENT)
    world.run(12 * SECOND)
    return world


def _heals(world, began):
    world.faults.clear()
    calm = world.run_until(lambda: {"none"} == set(world.verdicts().values()), limit_ns=20 * SECOND)
    assert calm, world.story(since=began)
    assert [] == world.switches


@pytest.mark.parametrize(
    ("victim", "strangers", "seconds", "fault"),
    [
        ("b3", (), 14, BROKEN),
        ("a2", (), 14, BROKEN),
        ("a2", ("tcp",), 24, BROKEN),
        ("b3", ("udp",), 60, BROKEN),
        ("b3", ("tcp", "udp"), 24, "probes-only"),
    ],
)
def test_a_filter_for_the_pods_of_one_node_is_named_by_the_other_location_and_by_the_node(
    victim, strangers, seconds, fault
):
    """Probes within seconds, what others send when it is asked next; its neighbours ask it nothing over the mesh."""
    world = _world(3)
    began = world.now
    world.faults.append(faults.pods_cut(victim, *strangers))
    world.run(seconds * SECOND)
    expected = {name: "none" if name[0] == victim[0] else f"{fault}@{victim}" for name in NAMES}

    assert {**expected, victim: f"{fault}@{victim}"} == world.verdicts(), world.story(since=began)
    assert {(fault, victim)} == world.accusations(since=began), world.story(since=began)
    _heals(world, began)


def test_a_leader_that_forwards_no_pods_is_named_where_it_answers_itself():
    """Its own members miss all of the other location's, as if any relay were at fault."""
    world = _world(4)
    began = world.now
    world.faults.append(faults.pods_not_forwarded("b1"))
    world.run(14 * SECOND)
    verdicts = world.verdicts()

    assert dict.fromkeys(("a1", "a2", "a3"), f"{BROKEN}@b1") == {n: verdicts[n] for n in ("a1", "a2", "a3")}
    assert "none" == verdicts["b1"], world.story(since=began)
    assert {(BROKEN, "b1"), (BROKEN, "")} == world.accusations(since=began), world.story(since=began)
    _heals(world, began)


def test_a_leader_that_forwards_not_the_pods_of_one_node_has_both_ends_name_the_other():
    """Those behind the leader miss that node alone; that node misses them and not the leader."""
    world = _world(5)
    began = world.now
    world.faults.append(faults.pods_not_forwarded("b1", "a3"))
    world.run(14 * SECOND)

    expected = {"a3": f"{BROKEN}@b1", "b2": f"{BROKEN}@a3", "b3": f"{BROKEN}@a3"}
    assert {name: expected.get(name, "none") for name in NAMES} == world.verdicts(), world.story(since=began)
    _heals(world, began)


def test_what_breaks_the_path_and_heals_leaves_no_word_about_pods():
    """Sessions among pods go down with the path, are asked seldom, and notice last that all is well."""
    world = _world(6)
    began = world.now
    world.faults.append(faults.dead("b3"))
    world.run(90 * SECOND)
    world.faults.clear()
    world.run(40 * SECOND)

    assert BROKEN not in {code for code, _ in world.accusations(since=began)}, world.story(since=began)
    assert {"none"} == set(world.verdicts().values()), world.story(since=began)


def test_loss_accuses_no_pods():
    """Five percent each way, for minutes."""
    world = _world(7)
    began = world.now
    world.faults.append(faults.random_loss(0.02))
    world.run(120 * SECOND)

    assert set() == world.accusations(since=began), world.story(since=began)
    assert [] == world.facts(FailoverApplied)
