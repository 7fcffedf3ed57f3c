"""A mesh that becomes another one under load: what is the same goes on, what is not is followed, traffic passes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.failover_facts import FailoverApplied, FailoverProposed, OverrideRetired
from meshwatchd.model.faults import FaultCode, Verdict
from meshwatchd.model.settings import MS, SECOND
from tests.sim import faults
from tests.sim.changing import LAB, ChangingWorld, settled_world
from tests.sim.parts import Told

B2_LEADS = {"cloud": ("b2", "b1", "", "b3"), "onprem": LAB["onprem"]}
WITH_EDGE = {**LAB, "edge": ("c1", "c2", "", "c3")}


def _run_watching(world: ChangingWorld, duration_ns: int, pairs, *, step_ns: int = 5 * MS) -> list:
    """Let time pass; every loss of real traffic between the pairs, with the instant."""
    lost, end = [], world.now + duration_ns
    while world.now < end:
        world.run(step_ns)
        lost += [(world.now, pair) for pair in world.loses(pairs)]
    return lost


def _verdicts(told: Iterable[Told]) -> list[Verdict]:
    return [each.fact.verdict for each in told if isinstance(each.fact, out.VerdictChanged)]


def _is_settled(world: ChangingWorld) -> bool:
    controllers = [c for node in world.mesh.node for c in world.nodes[node.name].engine.state.controllers.values()]
    return all(c.parting is None and c.watch.group(c.watch.primary).is_good for c in controllers)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_leader_change_is_followed_and_is_no_fault(seed):
    """b2 leads instead of b1: within a second of word of it all nodes probe the new paths; nobody is accused."""
    world = settled_world(seed=seed)
    began = world.now
    world.change(B2_LEADS)

    assert world.run_until(lambda: _leaders(world) == {"b2", "a1"}, limit_ns=SECOND), world.story(since=began)
    assert world.run_until(lambda: _is_settled(world), limit_ns=2 * SECOND), world.story(since=began)
    world.run(5 * SECOND)
    assert set() == world.accusations(since=began), world.story(since=began)
    assert [] == world.facts(FailoverProposed, since=began)
    assert {"leader"} == {world.nodes[name].engine.status(world.now, {}).role for name in ("a1", "b2")}
    assert "standby" == world.nodes["b1"].engine.status(world.now, {}).role
    assert [] == world.loses(world.crossings("cloud", "onprem"))


def _leaders(world: ChangingWorld) -> set[str]:
    controllers = [world.nodes[node.name].engine.state.controllers[0] for node in world.mesh.node]
    return {leader for c in controllers for leader in (c.watch.own_leader, c.watch.remote_leader)}


def test_the_new_leader_is_watched_like_the_old_one():
    """After the change a fault of b2 is named and healed over b1."""
    world = settled_world()
    world.change(B2_LEADS)
    world.run(3 * SECOND)
    began = world.now
    world.faults.append(faults.overlay_black_hole("b2"))

    assert world.run_until(lambda: not world.loses([("a3", "b3")]), limit_ns=SECOND), world.story(since=began)
    world.run(SECOND)
    assert ("overlay-black-hole", "b2") in world.accusations(since=began), world.story(since=began)
    assert "b1" in world.nodes["a3"].engine.state.controllers[0].mover.active.relays


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_standby_that_carries_traffic_becomes_leader(seed):
    """b1's overlay dies, traffic goes over b2, Kilo makes b2 leader: the path stays, and no packet is lost.

    The way back to Kilo's own path is not held up by b1, which sees neither path work.
    """
    world = settled_world(seed=seed)
    world.faults.append(faults.overlay_black_hole("b1"))
    moved = lambda: not world.loses([("a3", "b3"), ("a2", "b3"), ("a3", "b2")])  # noqa: E731
    assert world.run_until(moved, limit_ns=SECOND), world.story()
    world.run(SECOND)
    began = world.now
    world.change(B2_LEADS)

    crossings = [("a3", "b3"), ("a2", "b3"), ("a3", "b2"), ("a1", "b3")]
    assert [] == _run_watching(world, 3 * SECOND, crossings), world.story(since=began)
    assert {("b2", "a1")} == {node.controller.mover.active.relays for node in world.nodes.values()}
    assert {1} == {node.controller.mover.active.rank for node in world.nodes.values()}, world.story(since=began)
    assert 1 == len(world.nodes["b1"].rules), "it leads no more, and its pods go the way of the others"
    assert [] == world.facts(OverrideRetired, since=began)

    healthy, lost = [name for name in world.nodes if name != "b1"], []
    while any(world.nodes[name].rules for name in healthy) and world.now < began + 60 * SECOND:
        lost += _run_watching(world, SECOND, crossings, step_ns=20 * MS)
    lost += _run_watching(world, 2 * SECOND, crossings, step_ns=20 * MS)
    assert [] == lost, world.story(since=began)
    assert set() == set().union(*(world.nodes[name].rules for name in healthy)), world.story(since=began)


def test_a_path_that_the_mesh_still_has_is_kept_when_a_member_comes():
    """Traffic is on a standby path and b4 joins: nobody moves, nothing is lost, the failover stays what it was."""
    world = settled_world(later={"cloud": ("b1", "b2", "", "b3", "b4")})
    world.faults.append(faults.overlay_black_hole("b1"))
    assert world.run_until(lambda: not world.loses([("a3", "b3")]), limit_ns=SECOND), world.story()
    world.run(SECOND)
    began, ranks = world.now, {name: world.nodes[name].controller.active for name in ("a1", "a3", "b2", "b3")}
    verdict = world.verdict("a3")
    world.change({**LAB, "cloud": ("b1", "b2", "", "b3", "b4")})

    assert [] == _run_watching(world, 3 * SECOND, [("a3", "b3"), ("a2", "b3")]), world.story(since=began)
    assert ranks == {name: world.nodes[name].controller.active for name in ranks}
    assert verdict == world.verdict("a3")
    assert [] == world.facts(OverrideRetired, since=began)
    assert [] == world.loses([("a3", "b4")]), world.story(since=began)


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_third_location_comes_and_goes_and_moves_nobody(is_moved):
    """`edge` sorts between the two others, so that every number of theirs shifts, even under an override in use."""
    world = settled_world(later={"edge": WITH_EDGE["edge"]})
    between = world.crossings("cloud", "onprem")
    if is_moved:
        world.faults.append(faults.overlay_black_hole("b1"))
        between = [pair for pair in between if "b1" not in pair]
        assert world.run_until(lambda: not world.loses(between), limit_ns=SECOND), world.story()
        world.run(SECOND)
    began = world.now
    for places in (WITH_EDGE, LAB):
        world.change(places)
        assert [] == _run_watching(world, 13 * SECOND, between, step_ns=20 * MS), world.story(since=began)
        paths = {name: world.nodes[name].engine.state.controllers[world.pair(name, "onprem")] for name in ("b2", "b3")}
        relays = {name: controller.mover.active.relays for name, controller in paths.items()}
        assert {("b2", "a1") if is_moved else ("b1", "a1")} == set(relays.values()), world.story(since=began)
        if places is WITH_EDGE:
            # Behind a leader that was broken when edge came there is no path that ever was good, hence none to leave.
            lost = world.loses([("c3", "a3"), *([] if is_moved else [("c3", "b2")])])
            assert [] == lost, world.story(since=began)
    told = [each for each in world.facts(out.VerdictChanged, since=began) if each.node[0] in "ab"]
    assert {verdict.culprit for verdict in _verdicts(told)} <= {"", "b1" if is_moved else ""}, world.story(since=began)
    assert is_moved or [] == told, world.story(since=began)


@pytest.mark.parametrize("seed", range(2))
def test_a_pair_whose_paths_stay_is_not_disturbed(seed):
    """While leaders of another location change back and forth, sessions, evidence and verdicts between two go on."""
    world = settled_world(seed=seed, places=WITH_EDGE)
    world.faults.append(faults.random_loss(0.01))
    index = world.pair("a3", "cloud")
    watch = world.nodes["a3"].engine.state.controllers[index]
    sessions = {s.plan.session: (s, s.sent) for s in watch.watch.groups[watch.watch.primary.number].sessions}
    began = world.now
    for leader in ("c2", "c1", "c2"):
        other = "c1" if leader == "c2" else "c2"
        world.change({**WITH_EDGE, "edge": (leader, other, "", "c3")}, within_ns=world.rng.randrange(1, 800) * MS)
        world.run(3 * SECOND)
    controller = world.nodes["a3"].engine.state.controllers[index]

    assert controller is watch
    assert all(world.nodes["a3"].engine.state.schedule.session(number) is s for number, (s, _) in sessions.items())
    seconds = (world.now - began) / SECOND
    assert all(s.sent - sent >= 2 * seconds for s, sent in sessions.values()), "probing went on at its pace"
    here = [told for told in world.facts(out.VerdictChanged, since=began) if told.node[0] in "ab"]
    about = [verdict for verdict in _verdicts(here) if verdict.pair == index and verdict.fault is not FaultCode.NONE]
    assert [] == about, world.story(since=began)
    assert [] == world.facts(FailoverProposed, since=began), world.story(since=began)


def test_a_daemon_without_a_mesh_waits_for_it():
    """Nothing is probed and what is missing is said once; the mesh is taken over when it is known."""
    world = settled_world(places={"cloud": LAB["cloud"], "onprem": ("a1", "a2", "")}, later=LAB)
    node = world.nodes["a3"]
    world._feed(node, ev.SnapshotReceived(snapshot=world.snapshot("a3")))
    world._feed(node, ev.SnapshotReceived(snapshot=world.snapshot("a3")))
    assert node.engine.deadline() is None
    assert 1 == len(world.facts(out.TopologyRejected, node="a3"))
    world.change(LAB)

    assert world.run_until(lambda: len(node.engine.state.controllers) == 1, limit_ns=SECOND)
    world.run(2 * SECOND)
    assert node.controller.is_ready, world.story()
    assert 1 == len(world.facts(out.DaemonStarted, node="a3"))
    assert [] == world.loses([("a3", "b3")])


def test_a_mesh_that_is_not_told_any_more_stays_what_it_was():
    """An agent that was started anew has found out nothing yet: no reason to forget everything."""
    world = settled_world()
    world.known["a3"] = None
    world._feed(world.nodes["a3"], ev.SnapshotReceived(snapshot=world.snapshot("a3")))
    world.run(SECOND)

    assert [] == world.facts(out.TopologyRejected, node="a3")
    assert world.nodes["a3"].controller.watch.group(world.nodes["a3"].controller.watch.primary).is_good


def _break_tunnel(world: ChangingWorld, duration_ns: int) -> None:
    """Kilo's tunnel passes nothing for a while, as while a device is made anew and shakes hands."""
    until = world.now + duration_ns
    leaders = set(world.leaders.values())
    world.faults.append(
        lambda leg, _flow, _rng: world.now < until and leg.kind == "tunnel" and {leg.source, leg.target} <= leaders
    )


@pytest.mark.parametrize("told", ["by the kernel", "by its own look", ""])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kilo_that_starts_again_is_no_fault(seed, told):
    """kilo0 of b1 is made anew within 0.2 s: nobody is accused. The same silence untold is taken for a fault.

    Traffic may leave the path meanwhile: it comes home when Kilo has finished. Where its peers alone have gone the
    kernel tells nothing: b1 looks when it misses an answer, and the others have missed some by then.
    """
    world = settled_world(seed=seed)
    began = world.now
    _break_tunnel(world, 200 * MS)
    if told == "by its own look":
        assert world.run_until(lambda: bool(world.facts(out.SessionSuspected, node="b1", since=began)), limit_ns=SECOND)
    if told:
        world.stir("b1", is_rebuilding=False)
    world.run(began + 200 * MS - world.now)
    if told:
        world.stir("b1", is_rebuilding=True)
    world.run(3 * SECOND)

    accusations = world.accusations(since=began)
    is_taken_for_a_fault = bool(accusations or world.facts(FailoverApplied, since=began))
    assert not accusations if told else is_taken_for_a_fault, world.story(since=began)
    assert [] == world.loses(world.crossings("cloud", "onprem")), world.story(since=began)
    assert world.run_until(lambda: _is_at_home(world), limit_ns=90 * SECOND), world.story(since=began)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("pause_s", [6, 8])
def test_kilo_that_is_away_for_some_seconds_is_excused_when_it_starts_as_when_it_ended(seed, pause_s):
    """Two times of work, each with a silent tunnel; the patience with one is not spent by the other."""
    world = settled_world(seed=seed)
    began = world.now
    for _ in range(2):
        at = world.now
        _break_tunnel(world, 600 * MS)
        world.stir("b1", is_rebuilding=True)
        world.run(at + pause_s * SECOND - world.now)

    assert set() == world.accusations(since=began), world.story(since=began)


def _is_at_home(world: ChangingWorld) -> bool:
    return all(node.controller.mover.active.is_primary for node in world.nodes.values())


@pytest.mark.parametrize("seed", [1, 2])
def test_a_leader_change_by_kilo_is_followed_within_three_seconds_and_is_no_fault(seed):
    """Routes and devices change at once and the tunnel shakes hands; the daemons know 2 to 2.5 s later who leads."""
    world = settled_world(seed=seed)
    began = world.now
    world.change(B2_LEADS, after_ns=2 * SECOND)
    _break_tunnel(world, 300 * MS)
    world.stir("b1", is_rebuilding=False)
    world.stir("b2", is_rebuilding=True)

    assert world.run_until(lambda: _leaders(world) == {"b2", "a1"}, limit_ns=3 * SECOND), world.story(since=began)
    world.run(4 * SECOND)
    assert set() == world.accusations(since=began), world.story(since=began)
    assert [] == world.loses(world.crossings("cloud", "onprem"))
    assert world.run_until(lambda: _is_at_home(world), limit_ns=90 * SECOND), world.story(since=began)


def test_a_tunnel_that_stays_dead_behind_a_restart_is_left_at_once_and_named_when_patience_is_over():
    """Kilo takes kilo0 down and does not come back: nobody is accused for 0.4 s."""
    world = settled_world()
    began = world.now
    _break_tunnel(world, 60 * SECOND)
    world.stir("b1", is_rebuilding=False)

    moved = world.run_until(lambda: bool(world.facts(FailoverApplied, since=began)), limit_ns=SECOND)
    assert moved, world.story(since=began)
    assert world.run_until(lambda: not world.loses([("a3", "b3")]), limit_ns=SECOND), world.story(since=began)
    assert world.run_until(lambda: bool(world.accusations(since=began)), limit_ns=SECOND), world.story(since=began)
    assert world.now - began >= 390 * MS


def test_a_pin_is_on_a_path_and_not_on_its_rank():
    """A path is pinned, and its relay becomes leader: rank 1 is the path past it then, and nobody wants that one."""
    world = settled_world()
    pin = ev.OperatorRequested(
        request=1, verb=ev.OperatorVerb.PIN, name="ann", location="cloud", to_rank=1, duration_ns=600 * SECOND
    )
    assert world.operate("a1", pin).is_accepted
    world.run(3 * SECOND)
    relays = {name: node.controller.mover.active.relays for name, node in world.nodes.items()}
    assert {("b2", "a1")} == set(relays.values()), world.story()
    world.change(B2_LEADS)

    lost = _run_watching(world, 20 * SECOND, [("a3", "b3"), ("a2", "b3"), ("a1", "b3")], step_ns=20 * MS)
    assert [] == lost, world.story()
    assert relays == {name: node.controller.mover.active.relays for name, node in world.nodes.items()}, world.story()
