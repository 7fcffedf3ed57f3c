"""Incidents of engines that start anew in the middle of a fault, as the agent of the node would number them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from meshwatchd.core.operators.incidents import IncidentTracker
from meshwatchd.model import outputs as out
from meshwatchd.model.faults import Severity
from meshwatchd.model.settings import MS, SECOND, Mode
from meshwatchd.runtime.sinks import _pair_of, _remote_locations, classify, flatten
from tests.sim import faults
from tests.sim.changing import LAB, settled_world
from tests.sim.healthy import healthy_world
from tests.sim.world import World


class Kept(NamedTuple):
    """What one node's agent has after all events.

    Attributes:
        numbers: of the incidents of its verdicts.
    """

    tracker: IncidentTracker
    numbers: set[int]


def _kept(world: World, node: str, pairs: dict[int, str]) -> Kept:
    """Number all that a node has told; without a name of its own an event is of the location that its pair has here."""
    tracker, numbers = IncidentTracker(), set()
    for told in (each for each in world.told if each.node == node):
        fields = flatten(told.fact)
        location = fields.get("location") or pairs.get(-1 if (pair := _pair_of(fields)) is None else pair, "")
        number = tracker.take({"at_ns": told.at, "event": classify(told.fact).name, **fields, "location": location})
        if isinstance(told.fact, out.VerdictChanged):
            numbers.add(number)
    return Kept(tracker, numbers)


def test_a_fault_that_ends_while_the_daemon_is_down_ends_with_its_next_start():
    """The leader lives again before b2's daemon does: no verdict says so, and the outage does not run on."""
    world = healthy_world(seed=3, mode=Mode.OBSERVE)
    began = world.now
    world.faults.append(faults.dead("b1"))
    world.run(2 * SECOND)
    world.kill("b2")
    world.faults.clear()
    world.run(100 * MS)
    world.restart("b2")
    world.run(8 * SECOND)
    tracker, numbers = _kept(world, "b2", {0: "onprem"})

    assert {1} == numbers - {0}
    assert 0 == tracker.open, world.story(since=began)
    assert tracker.outages["onprem"].lost_ns(world.now) <= 2500 * MS


@pytest.mark.parametrize("seed", [3, 4])
def test_a_fault_that_lasts_over_a_restart_is_one_incident_with_one_outage(seed):
    """b1 stays dead while b2's daemon starts anew, and nothing is moved: one number, and every second counts.

    With one seed in three the outage is some milliseconds longer: what was on its way when b1 died had left before.
    """
    world = healthy_world(seed=seed, mode=Mode.OBSERVE)
    world.faults.append(faults.dead("b1"))
    began = world.now
    world.run(2 * SECOND)
    world.restart("b2")
    world.run(15 * SECOND)
    kept = _kept(world, "b2", {0: "onprem"})
    lost = kept.tracker.outages["onprem"].lost_ns(world.now)

    assert {1} == kept.numbers, world.story(since=began)
    assert 1 == kept.tracker.open
    assert 16 * SECOND <= lost <= world.now - began, f"{lost / SECOND} s; {world.story(since=began)}"
    world.faults.clear()
    world.run(8 * SECOND)
    assert 0 == _kept(world, "b2", {0: "onprem"}).tracker.open, world.story(since=began)


def test_a_member_that_alone_loses_its_leader_has_an_outage():
    """All of its packets to the other location are lost: that is critical, and counts until they pass again."""
    world = healthy_world(seed=1)
    began = world.now
    world.faults.append(faults.cut_between("b3", "b1"))
    world.run(8 * SECOND)
    world.faults.clear()
    world.run(8 * SECOND)
    facts = [told.fact for told in world.facts(out.VerdictChanged, node="b3", since=began)]
    severities = {fact.verdict.severity for fact in facts if isinstance(fact, out.VerdictChanged)}
    lost_ns = _kept(world, "b3", {0: "onprem"}).tracker.outages["onprem"].lost_ns(world.now)

    assert {Severity.CRITICAL, Severity.OK} == severities, world.story(since=began)
    assert 7 * SECOND < lost_ns < 11 * SECOND, f"{lost_ns / SECOND} s; {world.story(since=began)}"


def test_what_is_wrong_with_a_location_ends_when_that_is_removed():
    """All of edge is dead and is taken out of the mesh; the agent counts pairs as without it by then."""
    world = settled_world(seed=2, places={**LAB, "edge": ("c1", "c2", "", "c3")})
    before = _remote_locations(world.mesh, "a3")
    world.faults += [faults.dead(name) for name in ("c1", "c2", "c3")]
    world.run(4 * SECOND)
    assert 1 == _kept(world, "a3", before).tracker.open, world.story()
    world.change(LAB)
    world.run(2 * SECOND)

    assert 0 == _kept(world, "a3", before).tracker.open, world.story()
