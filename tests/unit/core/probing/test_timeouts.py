"""Waits for answers: cut short by what was sent later and is answered, by nothing else."""

from __future__ import annotations

import random

import pytest

from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.probing.session_kinds import kinds_of
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.session.session import Outcome
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import MS, SECOND, ProbeProfile, Settings
from meshwatchd.model.timers import TIMERS
from tests.support.lab_mesh import planner_of

TIMERS_DEFAULT = TIMERS[ProbeProfile.DEFAULT]
START = 10 * SECOND
RTT_NS = 1 * MS


class _Leg:
    """Fresh and known sessions of a3 over the path in use, and what they miss."""

    def __init__(self):
        self.schedule, planner = Schedule(Settings(), random.Random(3), "a3"), planner_of("a3")
        plans = lay_out(planner, has_standby=True)
        # Nothing is due by itself for as long as a test lasts.
        self.schedule.start(plans, START + 60 * SECOND, kinds_of(planner, plans))
        self.missed = []

    def ask(self, peer, flow, at):
        (session,) = self.schedule.select(layer=Layer.RELAY, path=0, flow=flow, peer=peer)
        return session, self.schedule.probe(session, at).seq

    def answer(self, asked, at, *, rtt_ns=RTT_NS):
        session, seq = asked
        assert Outcome.HIT is session.answered(seq, rtt_ns, at)
        self.schedule.answered(session)

    def misses_at(self):
        """When the first wait ends; None while none is left."""
        now = self.schedule.deadline()
        if now is None or now > START + SECOND:
            return None
        self.schedule.advance(now, lambda session, _before: self.missed.append(session))
        return now


def test_without_an_answer_the_whole_wait_is_seen_out():
    """The leg may stall: nothing says that it does not."""
    leg = _Leg()
    lost = leg.ask("b2", FlowClass.FRESH, START)
    leg.ask("b2", FlowClass.PINNED, START + MS)

    assert START + TIMERS_DEFAULT.miss_ns == leg.misses_at()
    assert [lost[0]] == leg.missed


def test_what_a_later_probe_to_the_same_node_has_outrun_is_missed_soon():
    """The calm wait from when it left: a leg that has just carried an answer does not stall."""
    leg = _Leg()
    lost = leg.ask("b2", FlowClass.FRESH, START)
    later = leg.ask("b2", FlowClass.PINNED, START + 2 * MS)
    leg.answer(later, START + 3 * MS)

    assert START + TIMERS_DEFAULT.calm_miss_ns == leg.misses_at()
    assert [lost[0]] == leg.missed


@pytest.mark.parametrize(
    ("peer", "order"),
    [("b3", (FlowClass.FRESH, FlowClass.PINNED)), ("b2", (FlowClass.PINNED, FlowClass.FRESH))],
)
def test_another_node_or_an_earlier_probe_outruns_nothing(peer, order):
    """One node's machine may stall alone, and an answer to what left before says nothing of what left after."""
    leg = _Leg()
    first = leg.ask("b2", order[0], START)
    second = leg.ask(peer, order[1], START + MS)
    answered, lost, sent_at = (second, first, START) if peer == "b3" else (first, second, START + MS)
    leg.answer(answered, START + 2 * MS)

    assert sent_at + TIMERS_DEFAULT.miss_ns == leg.misses_at()
    assert [lost[0]] == leg.missed


def test_answers_that_take_longer_by_themselves_are_given_that_time():
    """On a leg of 25 ms the calm wait is over before the answer can be there."""
    leg = _Leg()
    for turn in range(20):
        leg.answer(leg.ask("b2", FlowClass.PINNED, START + turn * MS), START + (turn + 25) * MS, rtt_ns=25 * MS)
    sent_at = START + 100 * MS
    leg.ask("b2", FlowClass.FRESH, sent_at)
    leg.answer(leg.ask("b2", FlowClass.PINNED, sent_at + MS), sent_at + 26 * MS, rtt_ns=25 * MS)

    missed_at = leg.misses_at()
    assert missed_at is not None
    assert sent_at + 25 * MS < missed_at < sent_at + 50 * MS


def test_who_was_not_run_waits_the_whole_wait_and_longer():
    """Answers that are there already may be read in any order; and a process that is late adds its lateness."""
    leg = _Leg()
    leg.ask("b2", FlowClass.FRESH, START)
    leg.answer(leg.ask("b2", FlowClass.PINNED, START + MS), START + 2 * MS)
    leg.schedule.postpone(20 * MS)
    assert START + TIMERS_DEFAULT.miss_ns + 20 * MS == leg.misses_at()

    late = _Leg()
    late.schedule.widen(15 * MS)
    late.ask("b2", FlowClass.FRESH, START)
    late.answer(late.ask("b2", FlowClass.PINNED, START + MS), START + 2 * MS)
    assert START + TIMERS_DEFAULT.calm_miss_ns + 15 * MS == late.misses_at()
