"""One session: its states, its answers, and the ones that come late."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.session.rtt_estimator import DelayEstimator
from meshwatchd.core.session.session import (
    HISTORY,
    MAX_LATE_NS,
    TRANSITIONS,
    UP_AFTER_HITS,
    Input,
    Outcome,
    Session,
    SessionState,
)
from meshwatchd.core.session.source_ports import KnownPorts
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.port_map import STRANGE_PORT
from meshwatchd.model.settings import MS

INIT, UP, SUSPECT, DOWN = SessionState
RTT_NS = 10 * MS


def _session():
    plan = SessionPlan(
        session=SessionId(0),
        peer=NodeName("b2"),
        layer=Layer.RELAY,
        path=0,
        flow=FlowClass.FRESH,
        source="192.0.2.1",
        destination="192.0.2.2",
        port=18620,
    )
    return Session(plan, KnownPorts(range(10_000, 10_100), 50 * MS), DelayEstimator(30 * MS))


def _hit(session, *, at=0, count=1):
    for _ in range(count):
        outcome = session.answered(session.begin(at), RTT_NS, at + RTT_NS)
    return outcome


def _miss(session, *, at=0, count=1):
    for _ in range(count):
        outcome = session.expired(session.begin(at), at + 30 * MS)
    return outcome


def _up():
    session = _session()
    _hit(session, count=UP_AFTER_HITS)
    return session


@pytest.mark.parametrize(
    ("state", "cause", "following"),
    [
        (INIT, Input.PROVEN, UP),
        (UP, Input.DOUBTED, SUSPECT),
        (UP, Input.CONDEMNED, DOWN),
        (SUSPECT, Input.ACQUITTED, UP),
        (SUSPECT, Input.CONDEMNED, DOWN),
        (DOWN, Input.RECOVERED, UP),
    ],
)
def test_each_transition_leads_where_the_table_says(state, cause, following):
    """The whole table; `_move` is the only way through it."""
    session = _session()
    session.state = state
    session._move(cause)

    assert following is session.state
    assert 6 == sum(len(row) for row in TRANSITIONS.values())


@pytest.mark.parametrize(
    ("state", "cause"),
    [(state, cause) for state in SessionState for cause in Input if cause not in TRANSITIONS[state]],
)
def test_every_other_transition_is_a_bug(state, cause):
    """A session that recovers without having been down has lost its mind: better a crash than a wrong verdict."""
    session = _session()
    session.state = state

    with pytest.raises(KeyError):
        session._move(cause)


def test_three_answers_make_a_session_up():
    """In a row: a miss begins anew, and is no evidence against what never worked."""
    session = _session()
    _hit(session, count=2)
    _miss(session)
    _hit(session, count=2)
    assert INIT is session.state
    assert not session.is_proven
    _hit(session)

    assert UP is session.state
    assert session.is_good
    assert 0.0 == session.cusum.nats


def test_a_session_that_never_was_up_is_never_down():
    """Silence from the start proves a missing route as well as a fault."""
    session = _session()
    _miss(session, count=100)

    assert (INIT, 0.0, 100) == (session.state, session.cusum.nats, session.lost)


def test_a_miss_makes_suspect_and_answers_acquit():
    """One lost packet on a good path."""
    session = _up()
    assert Outcome.MISS is _miss(session)
    assert SUSPECT is session.state
    _hit(session, count=4)

    assert UP is session.state


def test_ten_misses_take_a_session_down_and_ten_answers_bring_it_back():
    """Fast down, slow up: the test trips, and has to be outweighed."""
    session = _up()
    _miss(session, count=15)
    assert DOWN is session.state
    _hit(session, count=9)
    assert DOWN is session.state
    _hit(session)

    assert UP is session.state


def test_three_answers_end_any_doubt_about_a_closed_port():
    """It is asked once a second: what ends a doubt of others after a minute and a half would do so here."""
    others, closed = _up(), _up()
    closed.plan = msgspec.structs.replace(closed.plan, layer=Layer.POD_NETWORK, port=STRANGE_PORT)
    for session in (others, closed):
        _miss(session, count=20)
        _hit(session, count=UP_AFTER_HITS - 1)
    states = [closed.state]
    for session in (others, closed):
        _hit(session)

    assert [DOWN, UP, DOWN] == [*states, closed.state, others.state]
    assert closed.is_calm


def test_a_late_answer_heals_its_miss():
    """The path was slow, not broken: neither lost nor suspicious any more."""
    session = _up()
    seq = session.begin(0)
    session.expired(seq, 30 * MS)
    assert SUSPECT is session.state

    assert Outcome.LATE is session.answered(seq, 80 * MS, 80 * MS)
    assert (UP, 0) == (session.state, session.lost)
    assert session.delay.wait_ns(80 * MS) >= 160 * MS


def test_a_late_answer_counts_once():
    """Verification looks at the history: one probe is one answer there."""
    session = _session()
    seq = session.begin(0)
    session.expired(seq, 30 * MS)
    session.answered(seq, 80 * MS, 80 * MS)

    assert (1, 0) == session.since(0)


def test_an_answer_counts_once():
    """Duplicates and answers nobody waits for are unknown, and change nothing."""
    session = _up()
    seq = session.begin(0)
    session.answered(seq, RTT_NS, RTT_NS)
    heard = session.last_heard

    assert Outcome.UNKNOWN is session.answered(seq, RTT_NS, 5 * RTT_NS)
    assert Outcome.UNKNOWN is session.answered(999, RTT_NS, 5 * RTT_NS)
    assert heard == session.last_heard


def test_a_wait_that_ends_after_the_answer_is_no_miss():
    """Every probe has its expiry in the heap; most find nothing to do."""
    session = _up()
    seq = session.begin(0)
    session.answered(seq, RTT_NS, RTT_NS)

    assert Outcome.UNKNOWN is session.expired(seq, 30 * MS)
    assert 0 == session.lost


def test_a_miss_is_not_healed_for_ever():
    """After a second the prober's socket is gone; what comes then is no answer of that probe."""
    session = _up()
    old = session.begin(0)
    session.expired(old, 30 * MS)
    session.expired(session.begin(0), MAX_LATE_NS + 1)

    assert Outcome.UNKNOWN is session.answered(old, MAX_LATE_NS, MAX_LATE_NS + 2)


def test_a_cancelled_probe_was_never_sent():
    """A busy source port says nothing about the path."""
    session = _up()
    sent = session.sent
    seq = session.begin(0)
    session.cancel(seq)
    session.cancel(seq)

    assert sent == session.sent
    assert Outcome.UNKNOWN is session.expired(seq, 30 * MS)


def test_what_nobody_saw_is_neither_hit_nor_miss():
    """Whether its wait is over or not; it counts once."""
    session = _session()
    _hit(session, count=3)
    session.unseen(session.begin(0), 0)
    seq = session.begin(0)
    session.expired(seq, 0)
    assert (SUSPECT, 1) == (session.state, session.lost)
    for _ in range(2):
        session.unseen(seq, 0)

    assert (UP, 3, 0, 0) == (session.state, session.sent, session.lost, session.waiting)
    assert 3 == len(session.history)


def test_since_counts_by_the_instant_of_sending():
    """A probe sent before the fault proves nothing about it, whenever its answer comes."""
    session = _up()
    _hit(session, at=100 * MS)
    _miss(session, at=200 * MS)
    _hit(session, at=300 * MS, count=2)

    assert (2, 1) == session.since(200 * MS)
    assert (2, 0) == session.since(201 * MS)
    assert (0, 0) == session.since(301 * MS)


def test_a_streak_ends_at_a_miss_and_at_the_instant():
    """What was answered before a miss, or sent too early, does not count."""
    session = _up()
    _hit(session, at=100 * MS, count=3)
    assert 3 == session.streak(100 * MS)
    assert 0 == session.streak(101 * MS)
    _miss(session, at=200 * MS)
    assert 0 == session.streak(0)
    _hit(session, at=300 * MS, count=2)

    assert 2 == session.streak(100 * MS)


def test_history_is_bounded():
    """A daemon that runs for a year holds as much as one that runs for a minute."""
    session = _up()
    _hit(session, at=1, count=10 * HISTORY)

    assert (HISTORY, 0) == session.since(0)


def test_forgetting_clears_suspicion_but_keeps_a_verdict():
    """After a stall: outstanding probes cannot become misses, and a condemned session stays condemned."""
    suspect, down = _up(), _up()
    _miss(suspect)
    _miss(down, count=15)
    seq = suspect.begin(0)
    suspect.forget_outstanding()
    down.forget_outstanding()

    assert (UP, DOWN) == (suspect.state, down.state)
    assert Outcome.UNKNOWN is suspect.expired(seq, 30 * MS)


def test_round_trip_time_is_the_legs():
    """What `status` shows."""
    assert RTT_NS == _up().rtt_ns


def test_a_loss_begins_with_the_first_of_the_probes_in_a_row_that_were_missed():
    """Where an outage is measured from; an answer in between begins anew, a healthy session has lost nothing."""
    session = _up()
    assert 0 == session.first_loss
    _miss(session, at=100 * MS)
    _hit(session, at=150 * MS)
    _miss(session, at=200 * MS)
    _miss(session, at=250 * MS)
    assert 200 * MS == session.first_loss
