"""One worker's way around its leg: on proof alone, watched while it lasts, left on proof."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.failover.leg_detour import MAX_REASSERTS
from meshwatchd.model.detour import DETOUR_PAIR
from meshwatchd.model.events import Banner
from meshwatchd.model.failover_facts import DetourLeft, DetourTaken, PlanRefused
from meshwatchd.model.ids import NO_PATH, FlowClass, Layer, LocationName, NodeName
from meshwatchd.model.mesh_profile import SUBMARINER
from meshwatchd.model.outputs import ApplySwitch, ObjectReasserted
from meshwatchd.model.plan import Rule
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import MINUTE, MS, SECOND
from meshwatchd.model.source_ports import BURST_LEAD
from meshwatchd.model.topology import Location, Node, Topology
from meshwatchd.profiles import PROFILES
from tests.sim.star import star_mesh, star_snapshot, star_topology
from tests.support.leg_bench import BY_A1, BY_A2, PRIMARY, LegBench, ready, star_planner, without_leg

RULE = Rule(priority=5479, table=7780)
BY_NEIGHBOUR = Rule(priority=5479, table=7781)


def _on_detour():
    bench = ready()
    bench.answers = without_leg(bench)
    bench.run(SECOND)
    assert {RULE} == bench.rules
    return bench


def test_a_dead_leg_is_gone_around_by_the_gateway_first():
    """One rule, and what it rests on."""
    bench = ready()
    bench.answers = without_leg(bench)
    bench.run(400 * MS)

    assert {RULE} == bench.rules
    (fact,) = bench.said
    assert isinstance(fact, DetourTaken)
    assert ("a1", "lan-of-a1", "eth0") == (fact.relay, fact.via, fact.device)
    assert ("ip rule add pref 5479 from all lookup 7780 protocol 117",) == fact.operations
    assert "over the leg to a1" in fact.because[0]
    assert "by a1, via lan-of-a1 on eth0" == bench.leg.describe()


def test_without_an_answer_by_any_detour_nothing_moves():
    """What is dead by all ways is not the leg."""
    bench = ready()
    bench.answers = lambda _plan: False
    bench.run(30 * SECOND)

    assert (set(), []) == (bench.rules, bench.said)


def test_what_the_overlay_to_the_gateway_loses_proves_nothing():
    """Answers over it go by the gateway's own frames, which pods never need."""
    bench = ready()
    bench.answers = lambda plan: not (plan.layer is Layer.OVERLAY and plan.path == NO_PATH)
    bench.run(30 * SECOND)

    assert (set(), []) == (bench.rules, bench.said)


@pytest.mark.parametrize("is_known", [True, False], ids=["lost", "never answered"])
def test_a_silence_that_lasts_and_harms_nobody_keeps_no_node_busy(is_known):
    """An entry that the gateway's overlay misses, or a gateway without a daemon."""
    bench = ready() if is_known else LegBench()
    bench.answers = lambda plan: not (plan.layer is Layer.OVERLAY and plan.path == NO_PATH)
    bench.run(70 * SECOND)
    asked, looks = bench.asked_around(), bench.looks
    bench.run(30 * SECOND)

    assert bench.asked_around() - asked <= 14, "two ways, each every five seconds"
    assert bench.looks - looks <= 40


def test_a_leg_that_has_been_down_for_long_keeps_no_node_busy():
    """Traffic goes around it, and what is asked over the leg at rest tells when it is well."""
    bench = _on_detour()
    bench.run(5 * SECOND)
    looks = bench.looks
    bench.run(30 * SECOND)

    assert bench.looks - looks <= 40


def test_the_next_candidate_is_taken_where_the_first_does_not_answer():
    """By the neighbour's own leg."""
    bench = ready()
    bench.answers = lambda plan: plan.path == BY_A2 or plan.layer is Layer.EFFECTIVE
    bench.run(SECOND)
    assert {BY_NEIGHBOUR} == bench.rules


def test_a_relay_that_is_being_drained_is_passed_over():
    """It says so in its packets."""
    bench = ready()
    bench.parts.views.note(_node("a1"), Banner(is_admin_down=True), bench.now)
    bench.answers = without_leg(bench)
    bench.run(500 * MS)
    assert {BY_NEIGHBOUR} == bench.rules


def test_a_relay_that_is_drained_later_is_left_for_another_that_answers():
    """While it still forwards: nothing is lost."""
    bench = _on_detour()
    bench.parts.views.note(_node("a1"), Banner(is_admin_down=True), bench.now)
    bench.run(2 * SECOND)

    assert {BY_NEIGHBOUR} == bench.rules
    assert ("a1 is being drained, a2 answers",) == bench.said[-1].because


def test_a_relay_that_is_drained_later_is_left_for_the_leg_where_that_answers():
    """Before the hold-down is over."""
    bench = _on_detour()
    bench.answers = lambda _plan: True
    bench.run(1500 * MS)
    assert {RULE} == bench.rules
    bench.parts.views.note(_node("a1"), Banner(is_admin_down=True), bench.now)
    bench.run(1500 * MS)

    assert set() == bench.rules


def test_a_relay_that_is_drained_is_kept_where_nothing_else_answers():
    """It forwards until it goes."""
    bench = _on_detour()
    bench.answers = lambda plan: plan.path == BY_A1 or plan.layer is Layer.EFFECTIVE
    bench.run(20 * SECOND)
    bench.parts.views.note(_node("a1"), Banner(is_admin_down=True), bench.now)
    bench.run(5 * SECOND)

    assert {RULE} == bench.rules


def test_the_leg_is_taken_again_when_it_has_been_well_for_long_enough():
    """The hold-down is 5 s and the wait to restore 2 s here; a last burst has the final word."""
    bench = _on_detour()
    bench.answers = lambda _plan: True
    bench.run(3 * SECOND)
    assert {RULE} == bench.rules
    bench.run(20 * SECOND)

    assert set() == bench.rules
    assert isinstance(bench.said[-1], DetourLeft)
    assert ("ip rule del pref 5479 from all lookup 7780 protocol 117",) == bench.said[-1].operations
    assert "" == bench.leg.describe()


def test_a_leg_that_loses_part_of_the_last_burst_is_not_taken():
    """Probes that come seldom are answered, and the leg is called good; of sixteen in a row most are lost."""
    bench = _on_detour()
    last = [0]

    def answers(plan):
        if (plan.path, plan.layer, plan.peer, plan.flow) != (PRIMARY, Layer.RELAY, "b1", FlowClass.FRESH):
            return True
        was, last[0] = last[0], bench.now
        return bench.now - was > 5 * MS

    bench.answers = answers
    bench.run(90 * SECOND)
    assert ({RULE}, [DetourTaken]) == (bench.rules, [type(fact) for fact in bench.said])


def test_a_burst_without_ports_for_all_of_it_goes_on_until_it_is_whole():
    """Doubt has used up the ports of bursts, and a short hold-down ends before the clock has given enough back."""
    bench = LegBench(settings=_held_down_for(250 * MS))
    bench.run(20 * SECOND)
    bench.answers = without_leg(bench)
    bench.run(SECOND)
    bench.schedule.confirm(bench.schedule.select(path=PRIMARY, layer=Layer.RELAY), bench.now, rounds=2 * BURST_LEAD)
    bench.run(20 * SECOND)
    assert {RULE} == bench.rules
    bench.answers = lambda _plan: True
    bench.run(30 * SECOND)

    assert set() == bench.rules


def _held_down_for(hold_down_ns):
    settings = star_planner("a3").settings
    return msgspec.structs.replace(
        settings, policy=msgspec.structs.replace(settings.policy, hold_down=hold_down_ns, jitter_percent=0)
    )


@pytest.mark.parametrize("is_known", [False, True], ids=["never heard", "died meanwhile"])
def test_a_dead_gateway_of_a_third_cluster_keeps_nobody_from_coming_home(is_known):
    """It is answered by no way at all, and says nothing of the leg."""
    bench = LegBench(planner=_of_three_clusters())
    if is_known:
        bench.run(20 * SECOND)
        bench.answers = lambda plan: plan.peer != "c1"
        bench.run(60 * SECOND)
    else:
        bench.answers = lambda plan: plan.peer != "c1"
        bench.run(20 * SECOND)
    over_leg = without_leg(bench)
    bench.answers = lambda plan: plan.peer != "c1" and over_leg(plan)
    bench.run(SECOND)
    assert {RULE} == bench.rules
    bench.answers = lambda plan: plan.peer != "c1"
    bench.run(40 * SECOND)

    assert set() == bench.rules


def test_a_detour_that_dies_gives_way_to_the_leg_at_once_and_else_to_another():
    """Without any wait: neither would be worse."""
    bench = _on_detour()
    bench.answers = lambda plan: plan.path == BY_A2 or plan.layer is Layer.EFFECTIVE
    bench.run(15 * SECOND)
    assert {BY_NEIGHBOUR} == bench.rules
    bench.answers = lambda plan: plan.path < BY_A1
    bench.run(20 * SECOND)
    assert set() == bench.rules


@pytest.mark.parametrize("well_ns", [1500 * MS, 2300 * MS, 3100 * MS, 3900 * MS])
def test_a_detour_that_dies_is_left_within_a_second_for_a_leg_that_is_well(well_ns):
    """It is watched as what carries traffic, though nothing speaks against the leg any more."""
    bench = _on_detour()
    bench.answers = lambda _plan: True
    bench.run(well_ns)
    assert {RULE} == bench.rules
    bench.answers = lambda plan: plan.path < BY_A1
    bench.run(SECOND)

    assert set() == bench.rules


def test_a_detour_that_dies_is_left_within_a_second_for_another_long_after_the_leg_died():
    """How often the leg is asked by then does not count."""
    bench = _on_detour()
    bench.run(60 * SECOND)
    over_detours = bench.answers
    bench.answers = lambda plan: plan.path != BY_A1 and over_detours(plan)
    bench.run(SECOND)

    assert {BY_NEIGHBOUR} == bench.rules


def test_a_detour_by_which_no_real_traffic_arrives_is_left_and_not_taken_again_soon():
    """Its probes are answered, and the rule moves nothing."""
    bench = ready()
    bench.answers = lambda plan: plan.path in (BY_A1, BY_A2)
    bench.run(2 * SECOND)

    assert ["a1", "a1", "a2", "a2"] == [fact.relay for fact in bench.said]
    assert set() == bench.rules
    assert not bench.leg.is_carrying()


def test_it_carries_once_real_traffic_was_seen_to_arrive():
    """Until then nothing worse than a broken leg is told away."""
    bench = ready()
    bench.answers = without_leg(bench)
    bench.run(250 * MS)
    assert {RULE} == bench.rules
    assert not bench.leg.is_carrying()
    bench.run(400 * MS)
    assert bench.leg.is_carrying()


def test_a_kernel_that_refuses_is_told_once_and_the_next_candidate_is_asked():
    """Traffic stays where it was."""
    bench = ready()
    bench.is_obeying, bench.answers = False, without_leg(bench)
    bench.run(4 * SECOND)

    assert {PlanRefused} == {type(fact) for fact in bench.said}
    assert len(bench.said) <= 3
    assert "" == bench.leg.describe()


def test_another_mesh_keeps_the_same_way_and_moves_its_rule_to_the_new_place():
    """The window of rules has moved; and a way that is no more is left at once."""
    bench = _on_detour()
    narrow = RuleWindow(first=146, is_narrow=True)
    bench.use(star_planner("a3", msgspec.structs.replace(star_topology("a3"), windows=(narrow,))))
    assert {Rule(priority=148, table=7780)} == bench.rules
    assert [DetourTaken] == [type(fact) for fact in bench.said]

    moved = msgspec.structs.replace(star_topology("a3"), detours=(), windows=(narrow,))
    bench.use(star_planner("a3", moved))
    assert set() == bench.rules
    assert isinstance(bench.said[-1], DetourLeft)


def test_the_rule_of_an_earlier_process_is_adopted():
    """And left when the leg is well."""
    bench = LegBench()
    bench.rules = {RULE}
    bench.leg.adopt((RULE, Rule(priority=5460, table=7700)), bench.now)
    assert (RULE,) == bench.leg.rules()
    bench.run(40 * SECOND)
    assert set() == bench.rules


def test_a_rule_that_somebody_removes_is_put_back_a_few_times():
    """A fight would be worse than either."""
    bench = _on_detour()
    outputs = [each for _ in range(MAX_REASSERTS + 2) for each in bench.leg.reassert(RULE.render(), bench.now)]
    assert MAX_REASSERTS == sum(isinstance(each, ObjectReasserted) for each in outputs)
    assert {DETOUR_PAIR} == {each.pair for each in outputs if isinstance(each, ApplySwitch)}
    assert [] == list(bench.leg.compare((), bench.now))
    assert [] == list(bench.leg.compare((RULE,), bench.now + MINUTE))
    assert 2 == len(list(bench.leg.compare((), bench.now + MINUTE)))


def test_a_mode_that_changes_nothing_changes_nothing():
    """Without selectors a detour could not be proven either."""
    bench = ready()
    bench.use(bench.planner, is_enforcing=False)
    bench.answers = without_leg(bench)
    bench.run(5 * SECOND)
    assert (set(), []) == (bench.rules, bench.said)


def test_a_leader_has_no_leg():
    """And nothing to look at."""
    bench = LegBench("a1")
    assert bench.leg.deadline() is None
    assert () == star_topology("a1", star_snapshot("a1", star_mesh())).detours


def _of_three_clusters():
    mesh, south = star_mesh(), LocationName("south")
    c1 = Node(
        name=NodeName("c1"),
        location=south,
        node_ip="10.246.1.1",
        pod_cidr="10.246.1.0/24",
        overlay_ip="240.3.0.11",
        wireguard_ip="10.246.1.1",
    )
    wider = msgspec.structs.replace(
        mesh, location=(*mesh.location, Location(name=south, leader=c1.name)), node=(*mesh.node, c1)
    )
    topology = PROFILES[SUBMARINER].recognise(star_snapshot("a3", wider), wider, NodeName("a3"))
    assert isinstance(topology, Topology)
    return star_planner("a3", topology)


def _node(name):
    return next(node.name for node in star_mesh().node if node.name == name)
