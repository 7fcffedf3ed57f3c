"""What must not move traffic: our own troubles, everyday loss, broken standbys, a mode that forbids it."""

from __future__ import annotations

import pytest

from meshwatchd.model import outputs as out
from meshwatchd.model.events import LatenessMeasured
from meshwatchd.model.failover_facts import FailoverAdvised, FailoverHeld, FailoverProposed, ProposalAnswered
from meshwatchd.model.process_facts import ClockStalled
from meshwatchd.model.settings import MS, SECOND, Mode, PolicySettings
from tests.sim import faults
from tests.sim.healthy import healthy_world
from tests.sim.parts import Delivery, Reply
from tests.sim.random_mesh import Shape, mesh_of
from tests.sim.world import World
from tests.support.lab_mesh import NAMES

IMPATIENT = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND)
OLD_ENOUGH_NS = 9 * SECOND
"""With the two seconds it takes to be healthy: past the grace in which a missing standby is not reported."""


def test_a_healthy_mesh_is_silent():
    """A quarter of a minute: nothing is suspected, blamed or changed."""
    world = healthy_world(seed=1)
    world.run(4 * SECOND)
    since = world.now
    world.run(15 * SECOND)

    assert [] == world.facts(out.Fact, since=since)  # type: ignore[arg-type]
    assert [] == world.switches


def test_with_primary_and_standby_broken_nothing_is_changed():
    """New flows die at b1 and b2 is dead: no path is good, routes stay, and the verdict says so."""
    world = healthy_world(seed=3)
    before = world.rules()
    world.faults += [faults.overlay_new_flows("b1"), faults.dead("b2")]
    world.run(3 * SECOND)

    assert before == world.rules()
    assert [] == world.switches
    said = {world.verdict(name) for name in ("a1", "a2", "a3", "b3")}
    assert {"all-paths-down", "all-paths-down@b1"} >= said, world.story()
    assert "local-fault@b2" == world.verdict("b2")
    assert world.facts(FailoverHeld, node="a1")


@pytest.mark.parametrize("seed", [2, 6, 9])
def test_paths_that_come_back_together_move_nothing(seed):
    """Standby links were blocked and the leader's overlay was broken: both end at once, and a standby answers first."""
    world = healthy_world(seed=seed)
    world.faults += [faults.tunnel_blocked("a1", "b2"), faults.tunnel_blocked("a2", "b2")]
    world.run(12 * SECOND)
    world.faults.append(faults.overlay_new_flows("b1"))
    world.run(4 * SECOND + seed * 37 * MS)
    since = world.now
    world.faults.clear()
    world.run(3 * SECOND)

    assert [] == world.switches
    assert [] == world.facts(FailoverProposed, since=since)


def test_a_path_that_has_healed_is_good_though_a_node_behind_it_loses_new_flows():
    """b1's overlay and b3's lost them together; b3's goes on, whose established flows show that the node lives."""
    world = healthy_world(seed=3)
    faulty = faults.overlay_new_flows("b1", remembered=0)
    world.faults += [faulty, faults.overlay_new_flows("b3", remembered=0)]
    world.run(700 * MS)
    watches = [world.nodes[name].controller.watch for name in ("a1", "a2")]
    assert all(watch.group(watch.primary).is_down for watch in watches)
    world.faults.remove(faulty)

    healed = world.run_until(lambda: all(watch.group(watch.primary).is_good for watch in watches), limit_ns=10 * SECOND)
    assert healed, world.story()


def test_when_no_tunnel_works_nobody_is_blamed():
    """The WAN is gone: every path is down, and no node of ours is at fault."""
    world = healthy_world(seed=3)
    world.faults += [faults.tunnel_blocked(a, b) for a in ("a1", "a2") for b in ("b1", "b2")]
    world.run(3 * SECOND)

    assert [] == world.switches
    assert {"all-paths-down"} == set(world.verdicts().values()), world.story()


@pytest.mark.parametrize("name", ["a3", "b3"])
def test_a_node_that_reaches_nobody_blames_itself(name):
    """Everything at once is one cause, and it is here; the others see one silent node and no broken path."""
    world = healthy_world(seed=3)
    world.faults.append(faults.dead(name))
    world.run(6 * SECOND)

    assert [] == world.switches
    assert f"local-fault@{name}" == world.verdict(name)
    others = {world.verdict(other) for other in NAMES if other[0] != name[0]}
    assert {f"node-unreachable@{name}"} == others, world.story()
    assert {("local-fault", name), ("node-unreachable", name)} == world.accusations()
    world.faults.clear()
    world.run(3 * SECOND)
    assert {"none"} == set(world.verdicts().values()), world.story()


@pytest.mark.parametrize("fault", [faults.overlay_black_hole, faults.overlay_new_flows])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_member_whose_overlay_is_dead_is_named_by_itself_and_missed_by_others(seed, fault):
    """One that is no scout: others find its pods silent first, and then ask its own address, before they say so."""
    world = World(seed=seed, mesh=mesh_of((Shape(1, 4),) * 2))
    world.run(20 * SECOND)
    began = world.now
    world.faults.append(fault("b5"))
    world.run(15 * SECOND)

    named = "overlay-black-hole" if fault is faults.overlay_black_hole else "overlay-new-flows"
    assert f"{named}@b5" == world.verdict("b5")
    assert {"node-unreachable@b5"} == {world.verdict(name) for name in world.names if name[0] == "a"}
    assert {(named, "b5"), ("node-unreachable", "b5")} == world.accusations(since=began), world.story(since=began)


def test_a_dead_standby_link_is_a_warning():
    """Redundancy is reduced, traffic is not touched."""
    world = healthy_world(seed=3)
    world.run(OLD_ENOUGH_NS)
    world.faults.append(faults.tunnel_blocked("a1", "b2"))
    world.run(8 * SECOND)

    assert [] == world.switches
    assert {("standby-down", "")} == world.accusations(), world.story()
    status = world.nodes["a3"].engine.status(world.now, {})
    assert ("reduced", "warning") == (status.pairs[0].redundancy, status.severity)


def test_a_dead_standby_node_is_a_warning():
    """b2 is gone: its location misses two standby paths, the other side one node."""
    world = healthy_world(seed=3)
    world.run(OLD_ENOUGH_NS)
    world.faults.append(faults.dead("b2"))
    world.run(6 * SECOND)

    assert [] == world.switches
    said = {("standby-down", ""), ("node-unreachable", "b2"), ("local-fault", "b2")}
    assert said >= world.accusations(), world.story()
    assert "warning" == world.nodes["a3"].engine.status(world.now, {}).severity


@pytest.mark.parametrize("name", NAMES)
def test_a_stalled_engine_accuses_nobody(name):
    """Not scheduled for 3 s: what was outstanding proves nothing. To the others one node was silent."""
    world = healthy_world(seed=3)
    world.stall(name, 3 * SECOND)
    world.run(5 * SECOND)

    assert [] == world.switches
    assert [name] == [told.node for told in world.facts(ClockStalled)]
    assert set() == world.accusations(node=name), world.story()
    assert {("node-unreachable", name)} >= world.accusations(), world.story()
    assert {"none"} == set(world.verdicts().values())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("loses", [True, False])
def test_a_leader_that_is_away_for_a_moment_is_not_left(seed, *, loses):
    """Nothing is known of its leg yet: 60 ms of silence, or 80 in which its machine stands still and loses nothing."""
    world = healthy_world(seed=seed)
    world.run(200 * MS + seed * 7 * MS)
    lasts_ns = 60 * MS if loses else 80 * MS
    end = world.now + lasts_ns
    world.faults.append(faults.dead("b1") if loses else faults.StandsStill("b1", end, lambda: world.now))
    if not loses:
        world.stall("b1", lasts_ns)
    world.run(lasts_ns)
    world.faults.clear()
    world.run(3 * SECOND)

    assert world.facts(out.SessionSuspected), "it was noticed"
    assert [] == world.switches
    assert set() == world.accusations(), world.story()


def test_a_mesh_whose_engines_all_stall_moves_nothing():
    """A hypervisor that stops all machines for a second, as a snapshot does."""
    world = healthy_world(seed=9)
    for name in NAMES:
        world.stall(name, SECOND)
    world.run(4 * SECOND)

    assert [] == world.switches
    assert set() == world.accusations(), world.story()


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_without_leave_to_act_nothing_is_changed(mode):
    """The fault is named all the same; advise says the exact operations, once."""
    world = healthy_world(seed=3, mode=mode)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(3 * SECOND)

    assert [] == world.switches
    assert {("overlay-black-hole", "b1")} == world.accusations(), world.story()
    advice = [(t.node, t.fact.operations) for t in world.facts(FailoverAdvised)]  # type: ignore[union-attr]
    if mode is Mode.OBSERVE:
        assert [] == advice
        return
    assert ("b3", ("ip rule add pref 5460 from all lookup 7701 protocol 117",)) in advice, world.story()
    assert len(advice) == len(dict(advice))


@pytest.mark.parametrize("observer", ["a1", "b2"])
def test_nobody_moves_alone(observer):
    """A relay that only observes refuses; its partner moves to nothing the two do not share."""
    world = healthy_world(seed=3, modes={observer: Mode.OBSERVE}, policy=IMPATIENT)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(4 * SECOND)

    assert set() == world.nodes[observer].rules
    assert {rank for rank in world.active_ranks().values() if rank} <= _ranks_without(observer), world.story()
    answers = world.facts(ProposalAnswered, node=observer)
    assert len(answers) <= 4, f"{len(answers)} answers; {world.story()[:3000]}"


def _ranks_without(name: str) -> set[int]:
    """Ranks whose relays do not include the node."""
    return {"a1": {2, 3}, "b2": {2}}[name]


def test_an_observing_relay_does_not_cost_the_other_paths():
    """a1 observes: path 1 is refused, but a2 and b2 may agree on path 3."""
    world = healthy_world(seed=3, modes={"a1": Mode.OBSERVE}, policy=IMPATIENT)
    world.faults.append(faults.overlay_black_hole("b1"))

    assert world.run_until(lambda: world.carries("a3", "b3"), limit_ns=4 * SECOND), world.story()
    world.run(500 * MS)
    assert {3} == {world.active_ranks()[name] for name in ("a2", "a3", "b2", "b3")}, world.story()


def test_a_dead_daemon_does_not_rename_a_fault():
    """b2's daemon ends while new flows die at b1: its silence says nothing about old flows, which still pass to b3."""
    world = healthy_world(seed=3)
    world.faults.append(faults.overlay_new_flows("b1"))
    world.run(SECOND)
    assert {"overlay-new-flows@b1"} == set(world.verdicts().values()), world.story()
    since = world.now
    world.kill("b2")
    world.run(6 * SECOND)

    words = {world.verdicts()[name] for name in ("a1", "a2", "a3")}
    assert {"overlay-new-flows@b1"} == words, world.story(since=since)
    assert [] == [told for told in world.facts(out.VerdictChanged, since=since) if told.node in ("a1", "a2", "a3")]


class LateReader(World):
    """One node reads its answers late. The kernel's stamps say when they came: its estimate of delay learns nothing."""

    late: str = ""

    def _post(self, delay_ns: int, name: str, delivery: Delivery) -> None:
        own_ns = self.rng.randrange(LATE_NS) if name == self.late and isinstance(delivery, Reply) else 0
        super()._post(delay_ns + own_ns, name, delivery)


LATE_NS = 60 * MS


@pytest.mark.parametrize("is_measured", [False, True])
def test_a_process_that_is_late_itself_waits_longer(is_measured):
    """Its own lateness makes it doubt everybody, unless it knows of it: then it doubts and blames nobody."""
    world = LateReader(seed=3)
    world.run(2 * SECOND)
    if is_measured:
        world.nodes["a3"].engine.handle(LatenessMeasured(p99_ns=LATE_NS), world.now)
    world.run(SECOND)
    world.late, since = "a3", world.now
    world.run(5 * SECOND)

    doubts = world.facts(out.SessionSuspected, node="a3", since=since)
    assert is_measured is (doubts == [])
    assert not is_measured or world.accusations() == set()
    assert [] == world.switches
