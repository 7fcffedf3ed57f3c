"""Sessions that are down beside an innocent one lose their say, and get it back with an answer."""

from __future__ import annotations

import pytest

from meshwatchd.core.session.class_sessions import UNANSWERED, ClassSessions, WitnessedTest
from meshwatchd.core.session.rtt_estimator import DelayEstimator
from meshwatchd.core.session.session import Outcome, Session, SessionState
from meshwatchd.core.session.source_ports import KnownPorts
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.settings import MS


class _Members:
    """Sessions to some nodes, and the test that their outcomes feed."""

    def __init__(self, *names):
        self.now = 1_000 * MS
        self.test = WitnessedTest()
        self.sessions = {name: _session(number, name) for number, name in enumerate(names)}
        self.members = ClassSessions(tuple(self.sessions.values()), (self.test,))

    def probe(self, *, hits=(), misses=(), rounds=1):
        for _ in range(rounds):
            for name in (*hits, *misses):
                self.now += MS
                session = self.sessions[name]
                number = session.begin(self.now)
                won = name in hits
                outcome = session.answered(number, MS, self.now) if won else session.expired(number, self.now)
                self.test.feed(name, outcome, self.now)
                self.members.update(session)


def _session(number, name):
    plan = SessionPlan(
        session=SessionId(number),
        peer=NodeName(name),
        layer=Layer.RELAY,
        path=0,
        flow=FlowClass.FRESH,
        source="192.0.2.1",
        destination="192.0.2.2",
        port=18620,
    )
    return Session(plan, KnownPorts(range(10_000, 10_100), 50 * MS), DelayEstimator(30 * MS, 10 * MS))


@pytest.fixture
def one_down():
    """b2 answers; b3 did, and is down."""
    members = _Members("b2", "b3")
    members.probe(hits=["b2", "b3"], rounds=3)
    members.probe(hits=["b2"], misses=["b3"], rounds=40)
    assert SessionState.DOWN is members.sessions["b3"].state
    return members


def test_a_session_that_is_down_alone_is_set_aside_once(one_down):
    """The node behind it is no witness any more."""
    assert {"b2": 1, "b3": 1} == one_down.test.nodes
    assert one_down.members.isolate()
    assert {"b2": 1} == one_down.test.nodes
    assert not one_down.members.isolate()
    assert one_down.members.has_down
    assert one_down.members.has_live


def test_an_answer_gives_it_its_say_back(one_down):
    """From then on it counts as any other."""
    one_down.members.isolate()
    one_down.probe(hits=["b3"], rounds=10)

    assert {"b2": 1, "b3": 1} == one_down.test.nodes
    assert not one_down.members.has_down


def test_nobody_is_set_aside_where_none_is_innocent():
    """A leg of which all sessions are down is what has to be condemned."""
    members = _Members("b2", "b3")
    members.probe(hits=["b2", "b3"], rounds=3)
    members.probe(misses=["b2", "b3"], rounds=40)

    assert not members.members.isolate()
    assert {"b2": 1, "b3": 1} == members.test.nodes


def test_nodes_that_are_known_to_be_dead_are_excluded_by_name(one_down):
    """Only sessions that are down, and only to those nodes."""
    one_down.members.exclude_down({"b2", "b3"})

    assert {"b2": 1} == one_down.test.nodes


def test_a_change_of_nodes_keeps_who_was_set_aside(one_down):
    """The sessions of a leg are classified anew then."""
    one_down.members.isolate()
    one_down.test.forget_nodes(["b4"])
    again = ClassSessions(tuple(one_down.sessions.values()), (one_down.test,))
    for session in one_down.sessions.values():
        again.update(session)
    again.set_aside(one_down.members.alone)

    assert {"b2": 1} == one_down.test.nodes
    assert list(one_down.members.alone) == list(again.alone)


def test_a_test_speaks_when_all_its_nodes_have_lost():
    """One node's misses condemn nothing while another one that is asked has lost none."""
    test = WitnessedTest()
    for name in ("b2", "b3"):
        test.count(name, 1)
    said = []
    for instant, name in enumerate([*["b2"] * 30, "b3"], 1):
        test.feed(name, Outcome.MISS, instant * MS)
        said.append(test.is_conclusive)
    test.restart()

    assert [False] * 30 + [True] == said
    assert not test.is_conclusive


def test_behind_a_condemned_leg_a_session_has_to_be_silent_for_long(one_down):
    """b3's new flows are lost for good, and one answer long ago does not save it; a recent one does."""
    one_down.probe(hits=["b3"])
    one_down.probe(misses=["b3"], rounds=UNANSWERED - 1)
    one_down.members.exclude_unanswered()
    assert [] == list(one_down.members.alone)
    one_down.probe(misses=["b3"])
    one_down.members.exclude_unanswered()

    assert [one_down.sessions["b3"].plan.session] == list(one_down.members.alone)


def test_without_an_innocent_neighbour_silence_says_nothing_of_a_node():
    """Both are down: it is the leg."""
    members = _Members("b2", "b3")
    members.probe(hits=["b2", "b3"], rounds=3)
    members.probe(misses=["b2", "b3"], rounds=40)
    members.members.exclude_unanswered()

    assert [] == list(members.members.alone)
