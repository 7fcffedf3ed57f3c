"""Carrying a move out: kernel first, then the word to the others, then the proof, or the undoing."""

from __future__ import annotations

import pytest

from meshwatchd.core.failover.state_machine import BACK_OFF_NS, NOTICE_REPEATS, MoveState
from meshwatchd.core.failover.switchover import DOUBT_ATTEMPTS, VERIFY_ATTEMPTS, VERIFY_NS
from meshwatchd.model.events import CoordinationKind, ObjectLost, Reason, SwitchApplied, SwitchFailed
from meshwatchd.model.failover_facts import (
    FailoverApplied,
    FailoverDoubted,
    FailoverRolledBack,
    FailoverVerified,
    PlanRefused,
)
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import ApplySwitch, ObjectReasserted
from meshwatchd.model.plan import Rule, Switch
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import message, primary_is_silent, ready

NOTICE = CoordinationKind.NOTICE
RULE = Rule(priority=5460, table=7701)


def _told(name, *, rank=1, sender="b2", **words):
    """A node that is told to move."""
    bench = ready(name, **words)
    bench.hear(sender, message(NOTICE, rank=rank, target=name))
    return bench


def test_the_kernel_is_asked_before_anything_is_said():
    """The move counts from the acknowledgement; a late one of another generation is not it."""
    bench = _told("b3")
    assert [Switch(add=(RULE,))] == [command.switch for command in bench.said(ApplySwitch)]
    assert [] == bench.said(FailoverApplied)
    bench.feed(SwitchApplied(pair=0, generation=2))
    bench.feed(SwitchFailed(pair=0, generation=2, error="late"))
    assert [] == bench.said(FailoverApplied)
    bench.run(MS)

    (fact,) = bench.said(FailoverApplied)
    assert (0, 1, ("b2", "a1")) == (fact.from_rank, fact.to_rank, fact.relays)
    assert ("ip rule add pref 5460 from all lookup 7701 protocol 117",) == fact.operations
    assert fact.because


def test_where_nothing_has_to_move_only_the_mind_moves():
    """b1 is bypassed by path 1: no rule, no kernel, but its banner and its probes follow."""
    bench = _told("b1", sender="b2")

    assert [] == bench.said(ApplySwitch)
    assert 1 == bench.controller.mover.active.rank
    assert () == bench.said(FailoverApplied)[0].operations


def test_a_move_is_verified_by_probes_that_follow_real_traffic():
    """Most of those sent after the move must have arrived."""
    bench = _told("b3")
    bench.run(VERIFY_NS + 20 * MS)
    (fact,) = bench.said(FailoverVerified)

    assert (1, True) == (fact.rank, fact.sent >= 8)
    assert fact.received == fact.sent
    assert MoveState.IDLE is bench.controller.mover.state


def test_a_relay_tells_its_neighbours_and_repeats_it():
    """Over the underlay, a few times: a lost notice costs a member its traffic."""
    bench = ready("b2")
    bench.hear("a1", message(NOTICE, rank=1, target="b2"))
    bench.run(300 * MS)
    notices = bench.spoken(NOTICE)

    assert {"b1": NOTICE_REPEATS + 1, "b3": NOTICE_REPEATS + 1} == {
        name: sum(1 for m in notices if m.target == name) for name in ("b1", "b3")
    }
    assert {(1, 1)} == {(m.rank, m.generation) for m in notices}


def test_a_member_tells_nobody():
    """Otherwise every move would echo for ever."""
    bench = _told("b3")
    bench.run(300 * MS)

    assert [] == bench.spoken(NOTICE)


def test_a_refusal_of_the_kernel_moves_nothing():
    """Told with the kernel's own words; the path is left alone, and nothing is tried for a second."""
    bench = ready("b3")
    bench.kernel = "add rule 5460: Operation not supported"
    bench.hear("b2", message(NOTICE, rank=1, target="b3"))
    bench.run(MS)

    assert [bench.kernel] == [fact.reason for fact in bench.said(PlanRefused)]
    assert (0, 0) == (bench.controller.mover.active.rank, bench.controller.mover.generation)
    bench.hear("b2", message(NOTICE, rank=1, target="b3"))
    assert 1 == len(bench.said(ApplySwitch))
    bench.kernel = ""
    bench.run(BACK_OFF_NS)
    bench.hear("b2", message(NOTICE, rank=1, target="b3"))
    bench.run(MS)
    assert 1 == bench.controller.mover.active.rank


def test_a_relay_whose_kernel_refuses_says_no():
    """The other relay must not move alone."""
    bench = ready("b2")
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    bench.run(70 * MS)
    bench.kernel = "no"
    bench.hear("a1", message(CoordinationKind.PROPOSE, rank=1, target="b2"))
    bench.run(MS)

    assert [] == bench.spoken(CoordinationKind.GRANT)
    assert [Reason.NOT_GOOD] == [m.reason for m in bench.spoken(CoordinationKind.REFUSE)]
    assert bench.controller.switchover.banned_until[1] > bench.now


def _useless_move():
    """A relay that moves, and whose real traffic is lost afterwards."""
    bench = ready("b2")
    bench.silent = lambda plan: plan.layer is Layer.EFFECTIVE
    bench.hear("a1", message(NOTICE, rank=1, target="b2"))
    bench.run(VERIFY_ATTEMPTS * VERIFY_NS + 100 * MS)
    return bench


def test_a_move_that_made_nothing_better_is_undone():
    """After three looks: back to where it was, with a newer generation, told to the neighbours, and the path banned."""
    bench = _useless_move()
    (fact,) = bench.said(FailoverRolledBack)

    assert 1 == fact.rank
    assert fact.reason.startswith("only 0 of ")
    assert [Switch(add=(RULE,)), Switch(delete=(RULE,))] == [command.switch for command in bench.said(ApplySwitch)]
    assert (0, 2) == (bench.controller.mover.active.rank, bench.controller.mover.generation)
    assert Reason.ROLLED_BACK in {m.reason for m in bench.spoken(NOTICE)}
    assert bench.controller.switchover.banned_until[1] > bench.now + SECOND


def test_a_move_that_carries_little_stays_where_what_was_left_carries_nothing():
    """A slow or lossy way round is worth more than a dead path: going back would take away what arrives."""
    bench = ready("b2")
    count = iter(range(10**9))
    bench.silent = lambda plan: (
        (plan.layer is Layer.RELAY and plan.path == 0) or (plan.layer is Layer.EFFECTIVE and next(count) % 3 > 0)
    )
    bench.hear("a1", message(NOTICE, rank=1, target="b2"))
    bench.run(DOUBT_ATTEMPTS * VERIFY_NS + 100 * MS)
    (fact,) = bench.said(FailoverDoubted)

    assert (1, 0) == (fact.rank, fact.left_received)
    assert 0 < fact.received * 2 < fact.sent
    assert fact.left_sent
    assert [] == bench.said(FailoverRolledBack)
    assert (1, MoveState.IDLE) == (bench.controller.mover.active.rank, bench.controller.mover.state)


def test_a_move_that_carries_less_than_what_was_left_is_undone():
    """The same share over the new path, and the one that was left answers."""
    bench = ready("b2")
    count = iter(range(10**9))
    bench.silent = lambda plan: plan.layer is Layer.EFFECTIVE and next(count) % 3 > 0
    bench.hear("a1", message(NOTICE, rank=1, target="b2"))
    bench.run(VERIFY_ATTEMPTS * VERIFY_NS + 100 * MS)

    assert [] == bench.said(FailoverDoubted)
    assert 1 == len(bench.said(FailoverRolledBack))


def _home_that_reaches_few(lost):
    """A relay goes home, and the primary path reaches all but some nodes, whom path 1 reaches."""
    bench = ready("b2")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    bench.vouch()
    bench.run(6 * SECOND)
    bench.hear("a1", message(CoordinationKind.PROPOSE, rank=0, target="b2", generation=2, reason=Reason.RESTORED))
    bench.run(MS)
    assert 0 == bench.controller.mover.active.rank
    bench.silent = lambda plan: plan.layer is Layer.EFFECTIVE and plan.peer in lost
    bench.run(VERIFY_ATTEMPTS * VERIFY_NS + 100 * MS)
    return bench


def test_a_way_home_that_does_not_reach_a_node_is_undone():
    """Two of three nodes answer, more than half of the probes; the third answers over the path that was left alone."""
    bench = _home_that_reaches_few({"a3"})
    (fact,) = bench.said(FailoverRolledBack)

    assert (0, "the primary path does not reach a3, and the path that was left does") == (fact.rank, fact.reason)
    assert Switch(add=(RULE,)) == bench.said(ApplySwitch)[-1].switch
    assert 1 == bench.controller.mover.active.rank
    since = bench.now
    bench.run(4 * SECOND)
    assert [] == [m for m in bench.spoken(CoordinationKind.PROPOSE, since=since) if m.rank == 0], "for the hold-down"


@pytest.mark.parametrize(("lost", "level"), [({"a3"}, 1), (set(), 0)], ids=["undone", "kept"])
def test_a_way_home_that_is_undone_counts_as_a_failover(lost, level):
    """The hold-down doubles with each, or a home that never reaches a node would be tried again and again."""
    bench = _home_that_reaches_few(lost)
    record = bench.controller.context.damper.export("onprem", bench.now, is_pinned=False)

    assert level == record.level


def test_a_way_home_that_reaches_every_node_is_kept():
    """Nothing is undone without a node that speaks for it."""
    bench = _home_that_reaches_few(set())

    assert [] == bench.said(FailoverRolledBack)
    assert [0] == [fact.rank for fact in bench.said(FailoverVerified)]


def test_after_a_move_answers_are_waited_for_as_long_as_the_new_path_takes():
    """A way round over a distant relay is no worse for taking ten times as long."""
    bench = ready("b2")
    watch = bench.controller.watch
    over = watch.group(watch.paths[1]).sessions[0].delay
    over.sample(300 * MS, bench.now)
    before = watch.effective[0].delay.wait_ns(bench.now)
    bench.hear("a1", message(NOTICE, rank=1, target="b2"))
    bench.run(MS)

    assert before < 300 * MS < watch.effective[0].delay.wait_ns(bench.now) == over.wait_ns(bench.now)


def test_a_dead_relay_that_was_left_does_not_speak_against_the_path_taken():
    """It answers nothing over any path, and the others miss some while they follow: a third of theirs."""
    bench = ready("a1")
    count = iter(range(10**9))
    bench.silent = lambda plan: plan.layer is Layer.EFFECTIVE and (plan.peer == "b1" or next(count) % 3 == 0)
    bench.hear("b2", message(NOTICE, rank=1, target="a1"))
    bench.run(VERIFY_ATTEMPTS * VERIFY_NS + 100 * MS)

    assert [] == bench.said(FailoverRolledBack)
    assert 1 == bench.controller.mover.active.rank


def test_a_path_that_was_rolled_back_is_not_used_again_soon():
    """Though it is good by its own probes: the next one is asked for."""
    bench = _useless_move()
    bench.silent = lambda plan: primary_is_silent(plan) or plan.path == 2
    bench.run(2 * SECOND)

    asked = [m.rank for m in bench.spoken(CoordinationKind.PROPOSE)]
    assert asked
    assert 1 not in asked


def test_a_member_leaves_the_undoing_to_its_relay():
    """It may be the only one who sees nothing."""
    bench = ready("b3")
    bench.silent = lambda plan: plan.layer is Layer.EFFECTIVE
    bench.hear("b2", message(NOTICE, rank=1, target="b3"))
    bench.run(VERIFY_ATTEMPTS * VERIFY_NS + 300 * MS)

    assert [] == bench.said(FailoverRolledBack)
    assert (1, MoveState.IDLE) == (bench.controller.mover.active.rank, bench.controller.mover.state)


def test_an_override_that_somebody_removed_is_put_back():
    """Only the one in use; a rule that failback has just removed is not missed."""
    bench = _told("b3")
    bench.run(300 * MS)
    since = bench.now
    bench.feed(ObjectLost(what=f"rule {RULE.render()}"))
    assert [Switch(add=(RULE,))] == [command.switch for command in bench.said(ApplySwitch, since=since)]
    assert 1 == len(bench.said(ObjectReasserted, since=since))
    other = ready("b3")
    other.feed(ObjectLost(what=f"rule {RULE.render()}"))

    assert [] == other.said(ApplySwitch)
    assert [] == other.said(ObjectReasserted)


def test_an_override_that_is_removed_again_and_again_is_left_to_who_does_it():
    """Five times a second: put back five times, then told once with a remedy, and tried again a minute later."""
    bench = ready("a1")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    (rule,) = bench.controller.context.planner.override(bench.controller.mover.active)
    lost = ObjectLost(what=f"rule {rule.render()}")
    since = bench.now
    for _ in range(20):
        bench.feed(lost)
        bench.run(200 * MS)

    assert 5 == len(bench.said(ApplySwitch, since=since))
    (refused,) = bench.said(PlanRefused, since=since)
    assert "ManageForeignRoutingPolicyRules=no" in refused.reason
    bench.run(60 * SECOND)
    later = bench.now
    bench.feed(lost)
    assert 1 == len(bench.said(ApplySwitch, since=later))


def test_an_override_left_to_somebody_is_put_back_when_the_minute_is_over():
    """Without another word of its removal: it is gone already, and traffic is on the path that was condemned."""
    bench = ready("a1")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    for _ in range(6):
        bench.feed(ObjectLost(what=f"rule {RULE.render()}"))
        bench.run(200 * MS)
    since = bench.now
    bench.run(60 * SECOND)

    assert [Switch(add=(RULE,))] == [command.switch for command in bench.said(ApplySwitch, since=since)]
    bench.run(120 * SECOND)
    assert 1 == len(bench.said(ApplySwitch, since=since))


def test_an_override_that_the_kernel_does_not_take_back_is_tried_again():
    """Its refusal is told once, and is nobody's removal: it is tried for as long as it takes."""
    bench = ready("a1")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    bench.kernel = "add rule 5460: No buffer space available"
    since = bench.now
    bench.feed(ObjectLost(what=f"rule {RULE.render()}"))
    bench.run(10 * SECOND)
    assert 10 <= len(bench.said(ApplySwitch, since=since))
    assert [bench.kernel] == [fact.reason for fact in bench.said(PlanRefused, since=since)]
    bench.kernel = ""
    bench.run(2 * SECOND)
    since = bench.now
    bench.run(60 * SECOND)

    assert [] == bench.said(ApplySwitch, since=since)
    assert 1 == len(bench.said(ObjectReasserted))


def test_an_override_that_is_about_to_be_left_is_not_put_back():
    """Its rule would stay behind the change that has removed it."""
    bench = ready("b3")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    since = bench.now
    bench.hear("b2", message(NOTICE, rank=3, target="b3", generation=2))
    assert MoveState.APPLYING is bench.controller.mover.state
    bench.feed(ObjectLost(what=f"rule {RULE.render()}"))
    bench.run(5 * SECOND)

    moved = Switch(add=(Rule(priority=5460, table=7703),), delete=(RULE,))
    assert [moved] == [command.switch for command in bench.said(ApplySwitch, since=since)]
