"""Propose, grant, refuse, follow: every answer a relay can give, and what it never does on one node's word."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import LOST_NS, View, encode
from meshwatchd.core.failover.confirm_burst import ASK_AFTER_NS
from meshwatchd.core.failover.state_machine import BACK_OFF_NS, PATIENCE_NS, REPEAT_NS, MoveState
from meshwatchd.model.events import ActivePath, Banner, CoordinationKind, MeshStirred, Reason
from meshwatchd.model.failover_facts import FailoverApplied, FailoverHeld, FailoverProposed, ProposalAnswered
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import ApplySwitch, SendProbe
from meshwatchd.model.settings import MS, SECOND, Mode, PolicySettings
from tests.support.bench import Bench, message, primary_is_silent, ready
from tests.support.lab_mesh import settings_for

PROPOSE, GRANT, REFUSE, NOTICE = CoordinationKind


def _broken(name, *, wait_ns=200 * MS, **words):
    """A node whose primary path died: it has been suspected for a while."""
    bench = ready(name, **words)
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    bench.run(wait_ns)
    return bench


def _proposal(**words: Any):
    chosen: dict[str, Any] = {"rank": 1, "target": "b2"} | words
    return message(PROPOSE, **chosen)


def _answers(bench, since):
    return [(m.kind, m.reason) for kind in (GRANT, REFUSE) for m in bench.spoken(kind, since=since)]


# -- asking -----------------------------------------------------------------------------------------------------


def test_a_relay_asks_its_partner_over_the_path_it_wants():
    """With the next generation and a nonce of its own; told once, asked again until an answer comes."""
    bench = _broken("b2")
    asked = bench.spoken(PROPOSE)
    probe = next(p for p in bench.said(SendProbe) if p.coordination is not None)

    assert {("a1", 1, 1, Reason.BROKEN)} == {(m.target, m.rank, m.generation, m.reason) for m in asked}
    assert 1 == len({m.nonce for m in asked}) == len(bench.said(FailoverProposed))
    assert (Layer.RELAY, 1) == (bench.plans[probe.session].layer, bench.plans[probe.session].path)
    times = [at for at, o in bench.outputs if isinstance(o, SendProbe) and o.coordination is not None]
    assert len(times) > 2
    assert all(REPEAT_NS <= after - before for before, after in itertools.pairwise(times))


def test_nothing_changes_while_the_partner_is_silent():
    """One relay's word moves nothing; it gives up, says so, and leaves the path alone for a while."""
    bench = _broken("b2", wait_ns=PATIENCE_NS + 200 * MS)

    assert [] == bench.said(ApplySwitch)
    assert ["the other relay does not answer the proposal"] == [f.reason for f in bench.said(FailoverHeld)][:1]
    assert bench.controller.switchover.banned_until[1] > bench.now


def test_a_member_never_asks():
    """It is told by its relay."""
    bench = _broken("b3", wait_ns=SECOND)

    assert [] == bench.said(FailoverProposed)
    assert [] == bench.said(ApplySwitch)


def test_a_grant_moves_the_asker():
    """Only with the proposal's nonce, and only from the partner."""
    bench = _broken("b2")
    nonce = bench.spoken(PROPOSE)[0].nonce
    for sender, number in (("a1", nonce + 1), ("a2", nonce), ("b3", nonce)):
        bench.hear(sender, message(GRANT, rank=1, target="b2", nonce=number))
        assert [] == bench.said(ApplySwitch)
    bench.hear("a1", message(GRANT, rank=1, target="b2", nonce=nonce))
    bench.run(MS)

    assert 1 == len(bench.said(ApplySwitch))
    assert [(0, 1, 1)] == [(f.from_rank, f.to_rank, f.generation) for f in bench.said(FailoverApplied)]


def _with_a_standby_that_fails_after_all():
    """b2 has asked for path 1, and misses its answers before it hears of a grant."""
    bench = _broken("b2")
    group = bench.controller.watch.groups[1]
    assert group.is_good
    for session in group.sessions:
        for _ in range(3):
            group.observe(session, session.expired(session.begin(bench.now), bench.now), bench.now)
    assert not group.is_good
    return bench


def test_a_grant_for_a_path_that_fails_meanwhile_moves_nobody():
    """It was good when it was proposed; the other relay's banner calls as soon as it is good again."""
    bench = _with_a_standby_that_fails_after_all()
    bench.hear("a1", message(GRANT, rank=1, target="b2", nonce=bench.spoken(PROPOSE)[0].nonce))
    assert [] == bench.said(ApplySwitch)
    assert "granted, and the path does not answer any more" == bench.said(FailoverHeld)[-1].reason
    bench.banners["a1"] = Banner(active=(ActivePath(pair=0, rank=1, generation=1),))
    bench.run(BACK_OFF_NS // 2)

    assert 1 == len(bench.said(ApplySwitch))


def test_a_path_that_fails_meanwhile_is_not_asked_for():
    """Until it answers again: a relay that was away would grant what nobody should take."""
    bench = _with_a_standby_that_fails_after_all()
    since = bench.now
    bench.run(2 * MS)
    bench.controller.mover.next_step = bench.now
    assert [] == list(bench.controller.negotiation.press(bench.now))
    bench.run(PATIENCE_NS // 2)

    assert bench.spoken(PROPOSE, since=since)


def test_a_refusal_is_told_and_the_next_path_gets_its_chance():
    """The refused path is left alone for the hold-down; a second later path 3 is asked for."""
    bench = ready("b2")
    bench.silent = lambda plan: primary_is_silent(plan) or plan.path == 2
    bench.run_until_suspected()
    bench.run(200 * MS)
    nonce = bench.spoken(PROPOSE)[0].nonce
    bench.hear("a1", message(REFUSE, rank=1, target="b2", nonce=nonce, generation=0, reason=Reason.MODE))
    assert "the other relay refuses: mode" == bench.said(FailoverHeld)[-1].reason
    assert MoveState.IDLE is bench.controller.mover.state
    bench.run(BACK_OFF_NS + 200 * MS)

    assert [1, 3] == [f.to_rank for f in bench.said(FailoverProposed)]


def test_a_stale_asker_learns_the_generation():
    """And asks again for the same path: nothing was wrong with it."""
    bench = _broken("b2")
    nonce = bench.spoken(PROPOSE)[0].nonce
    bench.hear("a1", message(REFUSE, rank=1, target="b2", nonce=nonce, generation=6, reason=Reason.STALE))
    bench.run(BACK_OFF_NS + 200 * MS)

    assert [(1, 1), (1, 7)] == [(f.to_rank, f.generation) for f in bench.said(FailoverProposed)]


# -- answering --------------------------------------------------------------------------------------------------


def test_a_supported_proposal_is_granted_once_the_kernel_has_moved():
    """Its own probes say the same: one fact, one change, one grant with the nonce of the question."""
    bench = _broken("b2", wait_ns=70 * MS)
    since = bench.now
    bench.hear("a1", _proposal())
    assert [] == bench.spoken(GRANT, since=since)
    bench.run(MS)

    assert [(1, 99, "a1")] == [(m.rank, m.nonce, m.target) for m in bench.spoken(GRANT, since=since)]
    assert [("a1", True)] == [(f.peer, f.is_granted) for f in bench.said(ProposalAnswered)]
    assert 1 == len(bench.said(ApplySwitch))


def test_a_repeated_proposal_is_answered_with_the_same_grant():
    """The first grant may have been lost; nothing is changed twice, nothing told twice."""
    bench = _broken("b2", wait_ns=70 * MS)
    for _ in range(3):
        bench.hear("a1", _proposal())
        bench.run(5 * MS)

    assert [99] * 3 == [m.nonce for m in bench.spoken(GRANT)]
    assert (1, 1) == (len(bench.said(ApplySwitch)), len(bench.said(ProposalAnswered)))


def test_two_proposals_that_cross_become_one_move():
    """Both relays ask at once: each grants, each moves once, to the same generation."""
    bench = _broken("b2")
    assert MoveState.PROPOSING is bench.controller.mover.state
    bench.hear("a1", _proposal(nonce=7))
    bench.run(MS)
    bench.hear("a1", message(GRANT, rank=1, target="b2", nonce=bench.spoken(PROPOSE)[0].nonce))
    bench.run(MS)

    assert [7] == [m.nonce for m in bench.spoken(GRANT)]
    assert 1 == len(bench.said(ApplySwitch))
    assert (1, 1) == (bench.controller.mover.active.rank, bench.controller.mover.generation)


def test_an_unsupported_proposal_is_met_with_silence_and_a_burst():
    """The path is good as seen from here: no answer, but a closer look, so that the next repeat finds evidence."""
    bench = ready("b2")
    since = bench.now
    bench.hear("a1", _proposal())
    bench.run(100 * MS)

    assert [] == _answers(bench, since)
    assert [] == bench.said(ApplySwitch)
    assert sum(probe.is_confirm for probe in bench.said(SendProbe, since=since)) > 20


@pytest.mark.parametrize(
    ("doubter", "is_silent", "age_ns", "is_granted"),
    [("b3", True, 0, True), ("a1", True, 0, False), ("b3", False, 0, False), ("b3", True, 2 * LOST_NS, False)],
    ids=["another-doubts-and-an-answer-is-overdue", "only-the-asker", "every-answer-arrives", "a-word-of-long-ago"],
)
def test_another_nodes_miss_stands_in_for_one_that_is_not_certain_yet(doubter, is_silent, age_ns, is_granted):
    """The wait for a miss is for who accuses; who is asked by a condemner, and hears a third, need not see it out."""
    bench = ready("b2")
    dead, known = encode({(0, View.RELAY_PATH): Leg.DEAD})
    banner = Banner(view_up=dead, view_known=known, active=(bench.controller.active,))
    bench.banners[doubter] = banner
    bench.run(12 * MS)
    bench.hear(doubter, None, banner)
    bench.silent = lambda plan: age_ns > 0 and plan.peer == doubter
    bench.run(age_ns)
    if is_silent:
        bench.silent = lambda plan: primary_is_silent(plan) or (age_ns > 0 and plan.peer == doubter)
    since = bench.now
    for _ in range(5):
        bench.hear("a1", _proposal())
        bench.run(5 * MS)
    assert not bench.controller.watch.group(bench.controller.watch.primary).is_suspect, "no miss of its own"
    assert is_granted is bool(bench.spoken(GRANT, since=since))


def test_a_standby_that_does_not_answer_here_is_not_granted():
    """Broken path or not: the one to be used must be good from both ends."""
    bench = ready("b2")
    bench.silent = lambda plan: primary_is_silent(plan) or plan.path == 1
    bench.run(150 * MS)
    since = bench.now
    bench.hear("a1", _proposal())
    bench.run(300 * MS)

    assert (GRANT, Reason.BROKEN) not in _answers(bench, since)
    assert 1 not in [f.to_rank for f in bench.said(FailoverApplied)]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_without_leave_to_act_every_proposal_is_refused(mode):
    """The proposer learns why, and the fact is told once for each proposal."""
    bench = ready("b2", settings=settings_for("b2", mode=mode))
    since = bench.now
    for _ in range(4):
        bench.hear("a1", _proposal())
    bench.hear("a1", _proposal(nonce=100))

    assert {(REFUSE, Reason.MODE)} == set(_answers(bench, since))
    assert [False, False] == [f.is_granted for f in bench.said(ProposalAnswered)]
    assert [] == bench.said(ApplySwitch)


def test_an_old_generation_is_refused_with_the_current_one():
    """A proposer that slept through a move learns where things stand."""
    bench = _broken("b2", wait_ns=70 * MS)
    bench.controller.mover.generation = 5
    since = bench.now
    bench.hear("a1", _proposal(generation=5))

    assert [(REFUSE, Reason.STALE)] == _answers(bench, since)
    assert 5 == bench.spoken(REFUSE)[0].generation


def test_a_spent_budget_is_refused_but_not_to_an_operator():
    """More moves than the budget are a flap; a person may know better."""
    settings = settings_for("b2", policy=PolicySettings(actions_per_minute=1))
    bench = _broken("b2", wait_ns=100 * MS, settings=settings)
    bench.controller.context.damper.record(bench.now, is_failover=True)
    since = bench.now
    bench.hear("a1", _proposal())
    assert [(REFUSE, Reason.BUDGET)] == _answers(bench, since)
    bench.hear("a1", _proposal(nonce=8, reason=Reason.OPERATOR))
    bench.run(MS)

    assert (GRANT, Reason.OPERATOR) in _answers(bench, since)


def test_a_better_path_is_pointed_out():
    """a2 asks for path 3 while path 1 is good from here: a1 will agree on that one."""
    bench = _broken("b2")
    since = bench.now
    bench.hear("a2", _proposal(rank=3))

    assert [(REFUSE, Reason.BETTER_PATH)] == _answers(bench, since)


@pytest.mark.parametrize(
    ("name", "sender", "rank"),
    [("b2", "a2", 1), ("b2", "a3", 1), ("b2", "b1", 1), ("b3", "a1", 1), ("b1", "a1", 1), ("b2", "a1", 0)],
)
def test_only_the_paths_two_relays_have_a_say(name, sender, rank):
    """Whoever else asks, or is asked, is not heard; neither is a failback from where traffic is not."""
    bench = _broken(name, wait_ns=70 * MS)
    since = bench.now
    bench.hear(sender, _proposal(rank=rank, target=name))
    bench.run(MS)

    assert [] == _answers(bench, since)
    assert [] == bench.said(ApplySwitch)


def test_a_path_that_does_not_exist_is_ignored():
    """A peer with another configuration must not crash us."""
    bench = _broken("b2", wait_ns=70 * MS)

    assert [] == [o for o in bench.hear("a1", _proposal(rank=7)) if not isinstance(o, SendProbe)]


def test_a_message_for_somebody_else_is_ignored():
    """Probes of a relay reach many nodes; the target is named."""
    bench = _broken("b2", wait_ns=70 * MS)
    since = bench.now
    bench.hear("a1", _proposal(target="b3"))

    assert [] == _answers(bench, since)


def test_a_failback_is_granted_when_the_own_path_has_been_clean_here_too():
    """At half the wait to restore: the two clocks did not start at one instant."""
    bench = ready("b2")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    since = bench.now
    home = _proposal(rank=0, generation=2, reason=Reason.RESTORED)
    bench.silent = primary_is_silent
    bench.run(SECOND)
    bench.hear("a1", home)
    assert [] == _answers(bench, since)
    bench.silent = lambda _plan: False
    bench.vouch()
    bench.run(5 * SECOND)
    bench.hear("a1", home)
    bench.run(MS)

    assert [(GRANT, Reason.RESTORED)] == _answers(bench, since)
    assert 0 == bench.controller.mover.active.rank


def _away():
    """A relay with traffic on path 1, to whom the primary path has long been clean; nothing moves by itself."""
    bench = ready("b2", settings=settings_for("b2", policy=PolicySettings(revertive=False, wait_to_restore=2 * SECOND)))
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    return bench


@pytest.mark.parametrize(
    ("vouches", "dead", "is_granted"),
    [(True, (), True), (False, (), False), (True, ("a3",), False), (True, ("b3",), False)],
    ids=["members vouch", "members do not know", "one beyond objects", "one here objects"],
)
def test_a_failback_is_granted_on_the_word_of_members_only(vouches, dead, is_granted):
    """Relays' own probes do not cross the overlay of the leaders' members."""
    bench = _away()
    if vouches:
        bench.vouch()
    bench.object(*dead)
    bench.run(6 * SECOND)
    since = bench.now
    bench.hear("a1", _proposal(rank=0, generation=2, reason=Reason.RESTORED))
    bench.run(MS)

    assert ([(GRANT, Reason.RESTORED)] if is_granted else []) == _answers(bench, since)
    assert (0 if is_granted else 1) == bench.controller.mover.active.rank


def test_a_failback_is_refused_while_the_mesh_is_rewritten_but_not_to_an_operator():
    """The proposer learns why; a person may know better."""
    bench = _away()
    bench.vouch()
    bench.run(6 * SECOND)
    since = bench.now
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    bench.hear("a1", _proposal(rank=0, generation=2, reason=Reason.RESTORED))
    bench.run(MS)
    assert [(REFUSE, Reason.CHANGING)] == _answers(bench, since)
    since = bench.now
    bench.hear("a1", _proposal(rank=0, generation=2, nonce=8, reason=Reason.OPERATOR))
    bench.run(MS)

    assert [(GRANT, Reason.OPERATOR)] == _answers(bench, since)


def test_a_way_off_the_primary_path_is_granted_while_the_mesh_is_rewritten():
    """The standby link does not depend on what Kilo does meanwhile."""
    bench = ready("b2")
    bench.feed(MeshStirred(what="kilo0 has other peers", is_rebuilding=True))
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    bench.run(ASK_AFTER_NS + 60 * MS)
    bench.hear("a1", _proposal())
    bench.run(MS)

    assert [(GRANT, Reason.BROKEN)] == _answers(bench, 0)
    assert 1 == bench.controller.mover.active.rank


# -- following --------------------------------------------------------------------------------------------------


def test_a_member_follows_its_relay():
    """A notice, or the banner on any packet, with a newer generation."""
    for notice, banner in (
        (message(NOTICE, rank=1, target="b3"), None),
        (None, Banner(active=(ActivePath(pair=0, rank=1, generation=1),))),
    ):
        bench = ready("b3")
        bench.hear("b2", notice, banner)
        bench.run(MS)

        assert [(1, 1)] == [(f.to_rank, f.generation) for f in bench.said(FailoverApplied)]


@pytest.mark.parametrize(
    ("sender", "words"),
    [("a3", {}), ("b2", {"generation": 0}), ("a2", {"rank": 1, "generation": 0})],
)
def test_a_member_follows_nobody_else(sender, words):
    """Only a relay of the path in use or of the one to use, and only news."""
    bench = ready("b3")
    bench.hear(sender, message(NOTICE, **{"rank": 1, "target": "b3"} | words))
    bench.run(MS)

    assert [] == bench.said(ApplySwitch)


def test_a_member_does_not_follow_onto_a_path_that_is_not_good_here():
    """But undoing a move is followed without a question."""
    bench = ready("b3")
    bench.silent = lambda plan: plan.path == 1
    bench.run(2 * SECOND)
    bench.hear("b2", message(NOTICE, rank=1, target="b3"))
    bench.run(MS)
    assert [] == bench.said(ApplySwitch)
    bench.hear("b2", message(NOTICE, rank=1, target="b3", reason=Reason.ROLLED_BACK))
    bench.run(MS)

    assert 1 == len(bench.said(ApplySwitch))


def test_who_has_just_started_follows_onto_no_path_before_it_has_answered():
    """The banner of its relay is true, and this node has yet to see that the path works from here."""
    bench = Bench("a2")
    word = Banner(active=(ActivePath(pair=0, rank=2, generation=3),))
    bench.hear("b1", None, word)
    assert [] == bench.said(ApplySwitch)

    bench.run(2 * SECOND)
    bench.hear("b1", None, word)
    assert 1 == len(bench.said(ApplySwitch))


def test_of_two_moves_in_one_generation_the_lower_rank_wins():
    """Both ways round agree at once: who is on rank 2 comes over to rank 1, and nobody goes the other way."""
    for first, second, ends_on in ((2, 1, [2, 1]), (1, 2, [1])):
        bench = ready("b3")
        relay_of = {1: "b2", 2: "b1"}
        for rank in (first, second):
            bench.hear(relay_of[rank], message(NOTICE, rank=rank, target="b3"))
            bench.run(MS)

        assert ends_on == [f.to_rank for f in bench.said(FailoverApplied)]


def test_who_was_refused_as_stale_still_follows_the_move_it_has_missed():
    """The generation of a refusal is heard of, not reached: b1 comes to rank 1 when b2's banner says so."""
    bench = _broken("b1")
    nonce = bench.spoken(PROPOSE)[0].nonce
    bench.hear("a2", message(REFUSE, rank=2, target="b1", nonce=nonce, generation=1, reason=Reason.STALE))
    bench.run(BACK_OFF_NS + 10 * MS)
    bench.hear("b2", None, Banner(active=(ActivePath(pair=0, rank=1, generation=1),)))
    bench.run(MS)

    assert (1, 1) == (bench.controller.mover.active.rank, bench.controller.mover.generation)


def test_a_newer_generation_of_the_same_path_is_only_noted():
    """Nothing to change."""
    bench = ready("b3")
    bench.hear("b1", None, Banner(active=(ActivePath(pair=0, rank=0, generation=9),)))

    assert [] == bench.said(ApplySwitch)
    assert 9 == bench.controller.mover.generation


def test_who_only_observes_does_not_follow():
    """Not even its own relay."""
    bench = ready("b3", settings=settings_for("b3", mode=Mode.OBSERVE))
    bench.hear("b2", message(NOTICE, rank=1, target="b3"))
    bench.run(MS)

    assert [] == bench.said(ApplySwitch)
