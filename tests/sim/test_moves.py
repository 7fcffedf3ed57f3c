"""Moves under adversity: restarts, refusals of the kernel, second faults, flapping leaders, operators."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.failover_facts import FailoverApplied, FailoverRolledBack, OverrideAdopted, PlanRefused
from meshwatchd.model.ids import FlowClass
from meshwatchd.model.settings import MS, SECOND, PolicySettings, ProbeProfile, Settings
from tests.sim import faults, routes
from tests.sim.healthy import healthy_world
from tests.sim.world import World
from tests.support.lab_mesh import NAMES

IMPATIENT = PolicySettings(hold_down=2 * SECOND, wait_to_restore=SECOND)


def _on_standby(*, seed: int = 3) -> World:
    """A world in which b1's overlay is dead and traffic is on path 1."""
    world = healthy_world(seed=seed, policy=IMPATIENT)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(800 * MS)
    assert world.are_on(1), world.story()
    return world


def _heals(world: World) -> None:
    since = world.now
    world.faults.clear()
    assert world.run_until(lambda: world.are_on(0), limit_ns=20 * SECOND), world.story(since=since)
    # A standby that was broken a third of the time may have all the evidence against it that the quarter's arm holds:
    # 100 answers at five a second take it away.
    world.run_until(lambda: {"none"} == set(world.verdicts().values()), limit_ns=25 * SECOND)
    assert {"none"} == set(world.verdicts().values()), world.story(since=since)


@pytest.mark.parametrize("names", [NAMES, ("a1",), ("b2",), ("b3",)], ids="+".join)
def test_a_restart_during_a_failover_touches_nothing(names):
    """Every daemon, a relay, a member: the override is adopted, traffic never notices, and home is found in the end."""
    world = _on_standby()
    before, changes = world.rules(), sum(node.changes for node in world.nodes.values())
    since = world.now
    for name in names:
        world.restart(name)
    assert not world.run_until(lambda: not world.carries("a3", "b3"), limit_ns=3 * SECOND)

    assert before == world.rules()
    assert changes == sum(node.changes for node in world.nodes.values())
    holders = {name for name in names if before[name]}
    assert holders == {told.node for told in world.facts(OverrideAdopted, since=since)}
    assert {1} == set(world.active_ranks().values()), world.story(since=since)
    _heals(world)


@pytest.mark.parametrize("seed", [1, 2])
def test_relays_that_start_in_the_middle_of_a_fault_agree_to_go_around_it(seed):
    """All of b's daemons are killed before anybody has moved; to those that come up nothing has ever answered."""
    world = healthy_world(seed=seed)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(10 * MS)
    for name in ("b1", "b2", "b3"):
        world.restart(name)

    # The standbys were silent for as long as the daemons were down, and are asked a few times a second.
    assert world.run_until(lambda: world.carries("a3", "b3"), limit_ns=25 * SECOND), world.story()
    assert all(switch.is_target_good for switch in world.switches if switch.add), world.story()


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (("a1", "b1", "b2", "b3"), faults.overlay_black_hole("b1")),
        (("b1", "b2", "b3"), faults.overlay_new_flows("b1", remembered=0.17)),
    ],
    ids=["both relays", "stray answers"],
)
def test_the_word_of_those_who_saw_the_path_up_is_enough_to_leave_it(names, fault):
    """The relays of the standby are killed before anybody has moved, and the path hardly answers them ever after."""
    world = healthy_world(seed=1)
    world.faults.append(fault)
    world.run(10 * MS)
    for name in names:
        world.restart(name)

    is_around = lambda: world.carries("a3", "b3") and (world.are_on(1) or world.are_on(3))  # noqa: E731
    assert world.run_until(is_around, limit_ns=25 * SECOND), world.story()
    assert all(switch.is_target_good for switch in world.switches if switch.add), world.story()
    _heals(world)


def test_relays_that_have_forgotten_how_many_moves_there_were_bring_everybody_home():
    """All relays but one restart; the others remember a generation that theirs would not reach for long."""
    world = _on_standby()
    for node in world.nodes.values():
        node.controller.mover.generation = 9
    world.run(SECOND)
    for name in ("a1", "b1", "b2"):
        world.restart(name)
    world.run(3 * SECOND)

    _heals(world)


def test_daemons_restarted_one_after_the_other_move_nothing():
    """A rolling upgrade of a healthy mesh.

    Nobody waits for the node before: of forty seeds nine to eleven name b1 while b2 and b3 are silent, and none moves.
    """
    world = healthy_world(seed=1, policy=IMPATIENT)
    for name in NAMES:
        world.restart(name, down_ns=700 * MS)
        world.run(SECOND)
    world.run(2 * SECOND)

    assert [] == world.switches
    assert set() == world.accusations(), world.story()


@pytest.mark.parametrize("name", ["a1", "b2", "b3"])
def test_without_a_daemon_on_one_node_its_kernel_stays_as_it_is(name):
    """Fail-static: killed on standby, the rules stay and traffic passes."""
    world = _on_standby()
    rules = set(world.nodes[name].rules)
    world.kill(name)
    assert not world.run_until(lambda: not world.carries("a3", "b3"), limit_ns=2 * SECOND), world.story()

    assert rules == world.nodes[name].rules


@pytest.mark.parametrize(("name", "has_other_way"), [("a1", True), ("b2", False)])
def test_a_relay_whose_kernel_refuses_leaves_no_half_switched_mesh(name, has_other_way):
    """The others take the next path, or, where every standby needs that relay, go back: nobody moves alone."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    world.nodes[name].refusal = "Operation not supported"
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(4 * SECOND)

    assert set() == world.nodes[name].rules
    assert world.facts(PlanRefused, node=name)
    assert len(world.facts(PlanRefused, node=name)) <= 12, world.story()
    for node in world.nodes.values():
        assert set(node.controller.context.planner.override(node.controller.mover.active)) == node.rules, world.story()
    assert has_other_way == world.carries("a3", "b3"), world.story()
    world.nodes[name].refusal = ""
    _heals(world)


def test_a_path_on_which_established_flows_die_is_left():
    """A firewall between the leaders has forgotten its connections, and all new flows are answered."""
    world = healthy_world(seed=3)
    world.faults.append(
        lambda leg, flow, _rng: (leg.kind, {leg.source, leg.target}, flow) == ("tunnel", {"a1", "b1"}, FlowClass.PINNED)
    )
    assert world.run_until(lambda: world.are_on(1), limit_ns=SECOND), world.story()
    assert world.carries("a3", "b3", FlowClass.PINNED)
    world.run(10 * SECOND)

    assert world.are_on(1), world.story()


def test_a_second_fault_on_standby_leads_to_the_next_rank():
    """The link in use breaks while b1 is still sick: path 3 remains."""
    world = _on_standby()
    since = world.now
    world.faults.append(faults.tunnel_blocked("a1", "b2"))

    assert world.run_until(lambda: world.are_on(3), limit_ns=2 * SECOND), world.story(since=since)
    assert world.carries("a3", "b3")
    _heals(world)


def test_a_second_fault_leads_home_when_home_is_good_again():
    """Without waiting for the hold-down: the path in use is broken."""
    world = _on_standby()
    world.faults.clear()
    world.run(400 * MS)
    since = world.now
    world.faults.append(faults.tunnel_blocked("a1", "b2"))

    assert world.run_until(lambda: world.are_on(0), limit_ns=1_500 * MS), world.story(since=since)


def test_a_dead_relay_on_standby_is_left():
    """b2 dies while it carries everything, and b1 is sick: only b1's own paths remain, and they are not good."""
    world = _on_standby()
    since = world.now
    world.faults.append(faults.dead("b2"))
    world.run(2 * SECOND)

    assert [] == world.facts(FailoverApplied, since=since), world.story(since=since)
    assert "all-paths-down@b1" == world.verdict("a1")
    _heals(world)


def _sent(world: World) -> int:
    return sum(session.sent for node in world.nodes.values() for session in node.engine.state.schedule.sessions)


def _rested(fault: faults.Fault) -> World:
    """A fault that has stood for so long that traffic on the standby is watched as at home."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    world.faults.append(fault)
    assert world.run_until(lambda: world.are_on(1, but="b1"), limit_ns=SECOND), world.story()
    world.run(5 * SECOND)
    busy, verdicts = _sent(world), world.verdicts()
    world.run(5 * SECOND)
    busy = _sent(world) - busy
    world.run(90 * SECOND)
    since, rest = world.now, _sent(world)
    world.run(5 * SECOND)
    assert (_sent(world) - rest) * 5 < busy, "everybody asks at full pace still"
    assert verdicts == world.verdicts(), world.story(since=since)
    return world


@pytest.mark.parametrize(
    "fault",
    [faults.overlay_black_hole("b1"), faults.not_forwarding("b1"), faults.tunnel_blocked("a1", "b1")],
    ids=["overlay", "forwarding", "tunnel"],
)
def test_an_hour_on_a_standby_costs_as_little_as_at_home(fault):
    """What was said stands, a second fault is met as ever, and home is found when it works."""
    world = _rested(fault)
    since = world.now
    world.faults.append(faults.tunnel_blocked("a1", "b2"))
    assert world.run_until(lambda: world.are_on(2) or world.are_on(3), limit_ns=SECOND), world.story(since=since)
    assert world.carries("a3", "b3")
    _heals(world)


def test_everybody_looks_before_traffic_goes_home():
    """Home may have worked for a minute at rest; what is decided rests on what was asked at full pace."""
    policy = PolicySettings(hold_down=60 * SECOND, wait_to_restore=SECOND, jitter_percent=0)
    world = healthy_world(seed=3, policy=policy)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(2 * SECOND)
    world.faults.clear()
    began = world.now

    def awake() -> set[str]:
        return {name for name, node in world.nodes.items() if node.controller.is_awake(world.now)}

    world.run(45 * SECOND)
    assert set() == awake(), "at rest meanwhile"
    world.run(11 * SECOND)
    assert world.are_on(1)
    assert set(NAMES) == awake()
    assert world.run_until(lambda: world.are_on(0), limit_ns=6 * SECOND), world.story(since=began)


def test_a_leader_that_dies_long_after_traffic_left_it_is_named():
    """Its overlay was at fault before: a segment that answered all the time and then does not wakes everybody."""
    world = _rested(faults.overlay_black_hole("b1"))
    since = world.now
    world.faults.append(faults.dead("b1"))
    others = [name for name in NAMES if name != "b1"]

    is_named = world.run_until(
        lambda: {"leader-dead@b1"} == {world.verdict(name) for name in others}, limit_ns=15 * SECOND
    )
    assert is_named, world.story(since=since)
    world.faults.clear()
    _heals(world)


def test_a_flapping_leader_is_trusted_less_each_time():
    """Broken for a second, well for two, again and again: the hold-down grows, moves stay within the budget."""
    world = healthy_world(
        seed=11, policy=PolicySettings(hold_down=SECOND, wait_to_restore=500 * MS, half_life=2 * SECOND)
    )
    began = world.now
    for _ in range(6):
        world.faults.append(faults.overlay_black_hole("b1"))
        world.run(SECOND)
        world.faults.clear()
        world.run(2 * SECOND)

    moves = [told.at for told in world.facts(FailoverApplied, node="b2", since=began)]
    assert len(moves) <= 6, world.story(since=began)
    applied = [(told.at, told.fact) for told in world.facts(FailoverApplied, node="b2")]
    homecomings = [at for at, fact in applied if isinstance(fact, FailoverApplied) and fact.to_rank == 0]
    assert len(homecomings) < 4
    _heals(world)


def _ask(verb: OperatorVerb, rank: int | None = None) -> OperatorRequested:
    return OperatorRequested(request=1, verb=verb, to_rank=rank)


@pytest.mark.parametrize("seed", range(1, 13))
def test_an_operator_moves_a_healthy_mesh_and_back(seed):
    """Asked on a relay, both sides move; what an operator chose stays until the operator says otherwise.

    A node that learns of the move by a banner, the one that was asked among them, stays as well.
    """
    world = healthy_world(seed=seed, policy=IMPATIENT)
    assert world.operate("a2", _ask(OperatorVerb.FAILOVER, 3)).is_accepted
    assert world.run_until(lambda: world.are_on(3), limit_ns=SECOND), world.story()
    world.run(6 * SECOND)
    assert world.are_on(3), world.story()
    assert world.carries("a3", "b3")

    assert world.operate("b2", _ask(OperatorVerb.FAILBACK)).is_accepted
    assert world.run_until(lambda: world.are_on(0), limit_ns=SECOND), world.story()


def test_an_operators_choice_does_not_outlive_its_path():
    """A broken path is left, whoever chose it."""
    world = healthy_world(seed=3, policy=IMPATIENT)
    world.operate("a2", _ask(OperatorVerb.FAILOVER, 3))
    world.run(SECOND)
    world.faults.append(faults.tunnel_blocked("a2", "b2"))

    assert world.run_until(lambda: world.are_on(0), limit_ns=2 * SECOND), world.story()


@pytest.mark.parametrize("seed", [15, 27, 47, 49])
def test_two_agreements_at_once_end_on_one_path(seed):
    """b2 with a1 and a2 with b1 agree at the same moment, in the same generation: everybody takes the lower rank."""
    world = healthy_world(seed=seed)
    world.run(seed % 7 * 7 * MS)
    world.faults.append(faults.tunnel_blocked("a1", "b1"))

    assert world.run_until(lambda: world.are_on(1) or world.are_on(2), limit_ns=4 * SECOND), world.story()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_leaders_that_fail_together_are_both_gone_around(seed):
    """a1 and b1 sick at once: path 3 avoids both."""
    world = healthy_world(seed=seed, policy=IMPATIENT)
    world.faults += [faults.overlay_black_hole("a1"), faults.overlay_black_hole("b1")]

    assert world.run_until(lambda: world.are_on(3), limit_ns=3 * SECOND), world.story()
    assert world.carries("a3", "b3")
    _heals(world)


@pytest.mark.parametrize("profile", [ProbeProfile.DEFAULT, ProbeProfile.WAN])
def test_a_move_over_a_satellite_is_proven_when_answers_can_be_there(profile, monkeypatch):
    """600 ms there and back: at the first looks no probe has an outcome, and that is no word against the path."""
    monkeypatch.setattr(routes, "TUNNEL_NS", 300 * MS)

    def slow(settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, probe=msgspec.structs.replace(settings.probe, profile=profile))

    world = World(seed=3, adjust=slow)
    world.run(30 * SECOND)
    since = world.now
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(20 * SECOND)

    assert [] == world.facts(FailoverRolledBack, since=since)
    assert world.are_on(1), world.story(since=since)
