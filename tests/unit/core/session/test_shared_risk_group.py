"""Sessions that share a leg are judged together, and one dead node never condemns the leg."""

from __future__ import annotations

import random

import msgspec
import pytest

from meshwatchd.core.session.cusum import TRIP_NATS
from meshwatchd.core.session.rtt_estimator import TRUSTED_AFTER_NS, DelayEstimator
from meshwatchd.core.session.session import Session, SessionState
from meshwatchd.core.session.shared_risk_group import ABSENT_NS, STREAK, Group
from meshwatchd.core.session.source_ports import KnownPorts
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.settings import MS, ProbeProfile
from meshwatchd.model.timers import TIMERS

AT_ONCE = msgspec.structs.replace(TIMERS[ProbeProfile.DEFAULT], silence_ns=0, selective_ns=0)
"""Timers without a hold-off, for what does not depend on it."""


class _Leg:
    """A group with a clock: each probe takes a millisecond of it."""

    def __init__(self, names, *, is_up=True, timers=AT_ONCE):
        self.now = 1_000 * MS
        self.sessions = {name: _session(index, name) for index, name in enumerate(names)}
        self.controls = {name: _session(100 + index, name, FlowClass.PINNED) for index, name in enumerate(names)}
        self.group = Group(tuple(self.sessions.values()), tuple(self.controls.values()), timers)
        if is_up:
            self.probe(hits=names, rounds=3)
            self.probe(hits=names, rounds=3, known=True)

    def probe(self, *, hits=(), misses=(), rounds=1, known=False):
        for _ in range(rounds):
            for name in (*hits, *misses):
                self.now += MS
                session = (self.controls if known else self.sessions)[name]
                seq = session.begin(self.now)
                won = name in hits
                outcome = session.answered(seq, MS, self.now) if won else session.expired(seq, self.now)
                self.group.observe(session, outcome, self.now)


def _session(index, name, flow=FlowClass.FRESH):
    plan = SessionPlan(
        session=SessionId(index),
        peer=NodeName(name),
        layer=Layer.RELAY,
        path=0,
        flow=flow,
        source="192.0.2.1",
        destination="192.0.2.2",
        port=18620,
    )
    return Session(plan, KnownPorts(range(10_000, 10_100), 50 * MS), DelayEstimator(30 * MS, 10 * MS))


@pytest.mark.parametrize(
    ("is_told", "is_heard_elsewhere", "has_answers", "expected"),
    [
        (True, True, False, True),
        (False, True, False, False),
        (True, False, False, False),
        (True, True, True, False),
    ],
)
def test_a_leg_that_never_came_up_is_down_by_another_nodes_word(is_told, is_heard_elsewhere, has_answers, expected):
    """And only where a node behind it answers over another path, and hardly ever over this one."""
    leg = _Leg(["b2", "b3"], is_up=False)
    other = _Leg(["b2"], is_up=is_heard_elsewhere)
    leg.group.elsewhere = tuple(other.sessions.values())
    leg.probe(misses=["b2", "b3"], rounds=6)
    for _ in range(2):
        leg.probe(hits=["b3"] if has_answers else [], rounds=2)
        leg.probe(misses=["b2", "b3"])
    leg.now += ABSENT_NS
    leg.group.condemned_at = leg.now if is_told else leg.group.condemned_at
    leg.probe(hits=["b2"])
    leg.probe(misses=["b2", "b3"])

    assert expected is leg.group.is_down
    leg.probe(hits=["b2", "b3"], rounds=3)
    assert not leg.group.is_down
    assert leg.group.is_good


def test_a_group_that_was_never_up_is_neither_good_nor_down():
    """Nothing is concluded from the silence of what never answered."""
    leg = _Leg(["b2", "b3"], is_up=False)
    leg.probe(misses=["b2", "b3"], rounds=50)

    assert (False, False, False) == (leg.group.is_proven, leg.group.is_good, leg.group.is_down)


def test_a_dead_leg_is_condemned_after_fifteen_probes_of_all_sessions_together():
    """Two sessions, eight rounds: the leg is watched as often as all of them."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b2", "b3"], rounds=7)
    assert (True, False) == (leg.group.is_suspect, leg.group.is_down)
    leg.probe(misses=["b2", "b3"])

    assert (False, True, False) == (leg.group.is_suspect, leg.group.is_down, leg.group.is_good)


def test_down_and_suspect_remember_since_when():
    """Evidence is counted from the suspicion on, so its instant must not slide."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b2"])
    began = leg.now
    leg.probe(misses=["b3", "b2"], rounds=8)

    assert began == leg.group.suspect_since
    assert began < leg.group.down_since <= leg.now


def test_one_dead_node_never_condemns_the_leg():
    """Its neighbour answers over the same leg, however long it is silent."""
    leg = _Leg(["b2", "b3"])
    leg.probe(hits=["b2"], misses=["b3"], rounds=200)

    assert not leg.group.is_down
    assert leg.group.is_good
    assert ["b3"] == [session.plan.peer for session in leg.group.isolated()]


def test_a_dead_node_cannot_trip_the_leg_even_when_its_neighbour_is_probed_less():
    """Unanimity, not majority: ten misses of one against one answer of the other."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b3"], rounds=50)
    leg.probe(hits=["b2"])

    assert not leg.group.is_down


def test_an_isolated_node_comes_back_once_it_is_up():
    """And counts again: the next fault needs its voice too."""
    leg = _Leg(["b2", "b3"])
    leg.probe(hits=["b2"], misses=["b3"], rounds=20)
    leg.probe(hits=["b2", "b3"], rounds=20)
    assert () == leg.group.isolated()
    leg.probe(hits=["b3"], misses=["b2"], rounds=9)

    assert not leg.group.is_down


def test_the_leg_is_condemned_though_one_node_was_dead_before():
    """A node that is known to be dead has no veto."""
    leg = _Leg(["b2", "b3"])
    leg.probe(hits=["b2"], misses=["b3"], rounds=20)
    leg.probe(misses=["b2", "b3"], rounds=15)

    assert leg.group.is_down


def test_a_leg_to_a_single_node_is_condemned_with_it():
    """There is no neighbour to ask."""
    leg = _Leg(["b1"])
    leg.probe(misses=["b1"], rounds=15)

    assert leg.group.is_down


def test_a_leg_recovers_when_answers_come_back():
    """Ten answers in a row of any of its sessions; then the time of being good begins anew."""
    leg = _Leg(["b2", "b3"])
    good_since = leg.group.good_since
    leg.probe(misses=["b2", "b3"], rounds=8)
    down_since = leg.group.down_since
    leg.probe(hits=["b2", "b3"], rounds=10)

    assert down_since > 0
    assert not leg.group.is_down
    assert leg.group.is_good
    assert leg.group.good_since > good_since


def test_a_condemned_leg_revives_when_all_its_nodes_answer_after_the_last_miss():
    """Before the test acquits it; one node that is silent still is enough to doubt it."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b2", "b3"], rounds=8)
    assert not leg.group.is_reviving
    leg.probe(hits=["b2"], rounds=2)
    assert not leg.group.is_reviving
    leg.probe(hits=["b3"])
    assert (True, True) == (leg.group.is_down, leg.group.is_reviving)
    leg.probe(misses=["b2"])

    assert not leg.group.is_reviving


def test_a_leg_on_which_established_flows_die_does_not_revive_by_its_new_ones():
    """Every fresh probe is answered all the time: what has condemned the leg goes on."""
    leg = _Leg(["b2", "b3"])
    while not leg.group.is_down:
        leg.probe(hits=["b2", "b3"])
        leg.probe(misses=["b2", "b3"], rounds=2, known=True)
    leg.probe(hits=["b2", "b3"])
    assert not leg.group.is_reviving
    leg.probe(hits=["b2"], known=True)
    assert not leg.group.is_reviving
    leg.probe(hits=["b3"], known=True)

    assert (True, True) == (leg.group.is_down, leg.group.is_reviving)


def test_an_established_flow_of_a_node_that_is_dead_alone_keeps_no_leg_from_reviving():
    """b3 was set aside in both classes before the leg broke: its misses speak of b3."""
    leg = _Leg(["b2", "b3"])
    for known in (False, True) * 20:
        leg.probe(hits=["b2"], misses=["b3"], known=known)
    leg.probe(misses=["b2", "b3"], rounds=20)
    assert (True, False) == (leg.group.is_down, leg.group.is_reviving)
    leg.probe(misses=["b3"], known=True)
    leg.probe(hits=["b2"])
    leg.probe(hits=["b2"], known=True)

    assert leg.group.is_reviving


def test_everyday_loss_does_not_disturb():
    """Two misses are suspicious, but the wait to restore goes on; the third restarts it."""
    leg = _Leg(["b2", "b3"])
    good_since = leg.group.good_since
    leg.probe(misses=["b2", "b3"])
    assert (True, True) == (leg.group.is_suspect, leg.group.is_good)
    leg.probe(misses=["b2"])
    assert 0 == leg.group.good_since
    leg.probe(hits=["b2", "b3"], rounds=10)

    assert leg.group.is_good
    assert leg.group.good_since > good_since


def test_verified_means_that_every_live_session_answered_since():
    """One node's answers do not speak for the other's, and old ones for nobody."""
    leg = _Leg(["b2", "b3"])
    instant = leg.now + 1
    assert not leg.group.verified_since(instant)
    leg.probe(hits=["b2"])
    assert not leg.group.verified_since(instant)
    leg.probe(hits=["b3"])
    assert leg.group.verified_since(instant)
    leg.probe(misses=["b2"])

    assert not leg.group.verified_since(instant)


def test_one_miss_in_eight_is_verified_still():
    """A lossy standby is better than a broken primary."""
    leg = _Leg(["b2", "b3"])
    instant = leg.now + 1
    leg.probe(hits=["b2", "b3"], rounds=3)
    leg.probe(misses=["b2"])
    assert not leg.group.verified_since(instant)
    leg.probe(hits=["b3"])

    assert leg.group.verified_since(instant)


def test_a_streak_of_each_session_is_verified_whatever_was_missed_before():
    """The first answers are lost while six machines burst; what comes after them counts."""
    leg = _Leg(["b2", "b3"])
    instant = leg.now + 1
    leg.probe(hits=["b2"], misses=["b3"], rounds=2)
    leg.probe(hits=["b2", "b3"], rounds=STREAK - 1)
    assert not leg.group.verified_since(instant)
    leg.probe(hits=["b3"])
    assert leg.group.verified_since(instant)
    leg.probe(misses=["b2"])

    assert not leg.group.verified_since(instant)


def test_forgetting_ends_a_suspicion_and_keeps_a_verdict():
    """What a stalled process gathered is dropped, what stood before stands."""
    suspect, down = _Leg(["b2", "b3"]), _Leg(["b2", "b3"])
    suspect.probe(misses=["b2", "b3"])
    down.probe(misses=["b2", "b3"], rounds=8)
    suspect.group.forget(suspect.now)
    down.group.forget(down.now)

    assert (False, True) == (suspect.group.is_suspect, down.group.is_down)


def test_sessions_are_condemned_on_their_own_evidence():
    """The group's trip is not theirs: after eight misses each session is only suspect."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b2", "b3"], rounds=8)

    assert {SessionState.SUSPECT} == {session.state for session in leg.sessions.values()}


def _condemned_after(leg, *, with_control):
    """How long everything fresh must be missing until the leg is condemned."""
    began = leg.now
    while not leg.group.is_down:
        leg.probe(misses=["b2", "b3"])
        if with_control:
            leg.probe(hits=["b2", "b3"], known=True)
    return leg.now - began


def test_a_leg_that_is_silent_altogether_is_given_time():
    """A tunnel that rekeys is silent for a moment too; a leg on which old flows still pass is not stalled."""
    timers = TIMERS[ProbeProfile.DEFAULT]
    silent = _condemned_after(_Leg(["b2", "b3"], timers=timers), with_control=False)
    selective = _condemned_after(_Leg(["b2", "b3"], timers=timers), with_control=True)

    assert timers.silence_ns <= silent <= timers.silence_ns + 5 * MS
    assert timers.selective_ns <= selective <= timers.selective_ns + 20 * MS


@pytest.mark.parametrize("known", [True, False])
def test_a_leg_that_answers_again_is_not_condemned_for_what_it_missed_before(known):
    """Waits end after the silence itself: what left before the first answer says nothing of the leg from then on."""
    leg = _Leg(["b2", "b3"], timers=TIMERS[ProbeProfile.DEFAULT])
    leg.probe(misses=["b2", "b3"], rounds=4)
    waiting = [(session, session.begin(leg.now)) for _ in range(8) for session in leg.sessions.values()]
    leg.probe(hits=["b2"], known=known)
    leg.now += TIMERS[ProbeProfile.DEFAULT].silence_ns
    for session, seq in waiting:
        leg.group.observe(session, session.expired(seq, leg.now), leg.now)
    assert leg.group.nats > TRIP_NATS / 2
    assert (False, False) == (leg.group.is_down, leg.group.is_selective)
    leg.probe(misses=["b2", "b3"])

    assert (True, known) == (leg.group.is_down, leg.group.is_selective)


@pytest.mark.parametrize("known", [True, False])
def test_what_leaves_together_speaks_of_one_time(known):
    """Where a thousand nodes share the budget, the four probes that leave at once are all that a leg has for long."""
    leg = _Leg(["b2", "b3"], timers=TIMERS[ProbeProfile.DEFAULT])
    leg.probe(misses=["b2", "b3"], rounds=4)
    waiting = [(session, session.begin(leg.now)) for _ in range(8) for session in leg.sessions.values()]
    answered = (leg.controls if known else leg.sessions)["b2"]
    leg.group.observe(answered, answered.answered(answered.begin(leg.now), MS, leg.now + MS), leg.now + MS)
    leg.now += TIMERS[ProbeProfile.DEFAULT].silence_ns
    for session, seq in waiting:
        leg.group.observe(session, session.expired(seq, leg.now), leg.now)

    assert (True, known) == (leg.group.is_down, leg.group.is_selective)


def test_a_trusted_leg_is_judged_at_once():
    """It has not stalled for a minute; a suspicion that went far and came to nothing ends that."""
    timers = TIMERS[ProbeProfile.DEFAULT]
    leg = _Leg(["b2", "b3"], timers=timers)
    leg.now += TRUSTED_AFTER_NS
    leg.probe(hits=["b2", "b3"])
    delay = leg.sessions["b2"].delay
    delay._calm_since = leg.now - TRUSTED_AFTER_NS
    leg.probe(misses=["b2", "b3"], rounds=5)
    leg.probe(hits=["b2", "b3"], rounds=30)
    assert not leg.sessions["b2"].delay.is_trusted(leg.now)
    leg.sessions["b2"].delay._calm_since = leg.sessions["b3"].delay._calm_since = leg.now - TRUSTED_AFTER_NS

    assert timers.calm_silence_ns <= _condemned_after(leg, with_control=False) <= timers.calm_silence_ns + 5 * MS


def test_new_flows_that_die_are_not_outvoted_by_known_ones():
    """Ten answers on known flows for each miss of a fresh one: the fresh test has its own sum."""
    leg = _Leg(["b2", "b3"])
    for _ in range(8):
        leg.probe(misses=["b2", "b3"])
        leg.probe(hits=["b2", "b3"], rounds=10, known=True)

    assert leg.group.is_down
    assert leg.group.is_selective


def test_known_flows_condemn_a_dead_path_though_fresh_ones_are_rare():
    """They are asked as often as the profile says, fresh ones by a budget: both classes are one test."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b2", "b3"])
    leg.probe(misses=["b2", "b3"], rounds=7, known=True)

    assert leg.group.is_down


def test_a_broken_quarter_of_the_buckets_is_condemned():
    """One known flow in four is dead for good, every fourth fresh one dies: each session answers most of the time."""
    leg, rng = _Leg(["b2", "b3"]), random.Random(489)
    for turn in range(400):
        for known in (False, True):
            for name in ("b2", "b3"):
                is_lost = turn % 8 in {2, 5} if known else rng.random() < 0.25
                leg.probe(**{"misses" if is_lost else "hits": [name]}, known=known)
        if leg.group.is_down:
            break

    assert leg.group.is_down


def test_a_dead_node_among_many_condemns_nothing():
    """Nor do two: a rack without power. Its sessions are set aside one by one."""
    names = [f"n{index}" for index in range(10)]
    leg = _Leg(names)
    for known in (False, True) * 30:
        leg.probe(hits=names[2:], misses=names[:2], known=known)
        assert not leg.group.is_down

    assert names[:2] == [session.plan.peer for session in leg.group.isolated()]


def test_a_leg_to_hundreds_is_condemned_before_all_of_them_were_asked():
    """Fifteen probes to fifteen nodes; the others are not innocent, they were not asked."""
    names = [f"n{index}" for index in range(300)]
    leg = _Leg(names)
    leg.probe(misses=names[:14])
    assert not leg.group.is_down
    leg.probe(misses=names[14:15])

    assert leg.group.is_down


def test_passing_answers_by_changes_nothing():
    """The same outcomes, taken in one by one and in full, lead to the same verdicts at the same instants."""
    for seed in range(20):
        rng = random.Random(seed)
        quick, full = _Leg(["b1", "b2", "b3"]), _Leg(["b1", "b2", "b3"])
        for step in range(600):
            loss = 0.9 if 200 < step < 260 else 0.05
            name, is_known, is_missed = rng.choice(["b1", "b2", "b3"]), rng.random() < 0.4, rng.random() < loss
            for leg in (quick, full):
                leg.group._is_calm &= leg is quick
                leg.probe(hits=() if is_missed else (name,), misses=(name,) if is_missed else (), known=is_known)
            assert _verdict(full.group) == _verdict(quick.group), (seed, step)


def _verdict(group):
    return (
        group.nats,
        group.down_since,
        group.suspect_since,
        group.good_since,
        group.is_selective,
        group.is_about_new_flows,
        [session.plan.session for session in group.isolated()],
    )


def test_a_leg_that_recovers_is_not_held_down_by_a_node_that_has_died_meanwhile():
    """b2's misses speak of b2 once it has been silent for a second, in every flow, while b3 answers."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b2", "b3"], rounds=10)
    assert leg.group.is_down
    for _ in range(2_000):
        leg.probe(hits=["b3"], misses=["b2"])
        leg.probe(hits=["b3"], misses=["b2"], known=True)
        if leg.group.is_good:
            break

    assert (False, True) == (leg.group.is_down, leg.group.is_good)
    assert [leg.sessions["b2"]] == list(leg.group.isolated())


def test_a_leg_that_loses_new_flows_stays_condemned_while_known_ones_pass():
    """However long b2's new flows are silent: its known ones say that it lives."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b2", "b3"], rounds=10)
    for _ in range(1_500):
        leg.probe(misses=["b2", "b3"])
        leg.probe(hits=["b2", "b3"], known=True)
    assert leg.group.is_down


def test_a_leg_that_recovers_is_not_held_down_by_a_node_that_loses_its_new_flows_alone():
    """b3's established flows pass, so it is not dead: while b2 is well its misses speak of its own overlay."""
    leg = _Leg(["b2", "b3"])
    leg.probe(misses=["b2", "b3"], rounds=20)
    assert leg.group.is_down
    for _ in range(100):
        leg.probe(hits=["b2"], misses=["b3"])
        leg.probe(hits=["b2", "b3"], known=True)

    assert (False, True) == (leg.group.is_down, leg.group.is_good)
    assert [leg.sessions["b3"]] == list(leg.group.isolated())


@pytest.mark.parametrize("seed", [5, 9])
def test_a_leg_that_loses_new_flows_stays_condemned_though_a_node_has_luck(seed):
    """The network remembers half of the flows: one node is well for a moment while the other is down."""
    leg, rng = _Leg(["b2", "b3"]), random.Random(seed)
    leg.probe(misses=["b2", "b3"], rounds=20)
    for _ in range(1_000):
        for name in ("b2", "b3"):
            leg.probe(**{"hits" if rng.random() < 0.5 else "misses": [name]})
        leg.probe(hits=["b2", "b3"], known=True)
        assert leg.group.is_down
