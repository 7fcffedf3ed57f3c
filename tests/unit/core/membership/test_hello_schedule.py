"""New addresses are greeted soon, known ones seldom, and a thousand of them never at once."""

from __future__ import annotations

import itertools
import random

from meshwatchd.core.membership.cadence import KNOWN_NS
from meshwatchd.core.membership.hello_schedule import (
    ANSWER_GAP_NS,
    BURST,
    MAX_REMEMBERED,
    OTHER_NS,
    RATE,
    Answers,
    Pace,
    Ring,
)
from meshwatchd.model.settings import SECOND


def _run(pace, until_ns, start_ns=0):
    """Every hello with its instant, as the adapter would send them."""
    sent, now = [], start_ns
    while (due_ns := pace.deadline()) is not None and max(now, due_ns) < until_ns:
        now = max(now, due_ns)
        sent += [(now, each) for each in pace.due(now)]
    return sent


def _gaps(sent, address):
    instants = [at for at, each in sent if each.address == address]
    return [later - earlier for earlier, later in itertools.pairwise(instants)]


def test_a_new_address_is_greeted_at_once_and_ever_more_seldom():
    """Nobody may be there yet, or for ever."""
    pace = Pace(random.Random(1))
    pace.aim(known={}, others={"10.2.0.11": OTHER_NS}, now=0)
    sent = _run(pace, 600 * SECOND)
    gaps = _gaps(sent, "10.2.0.11")

    assert 0 == sent[0][0]
    assert gaps[0] < SECOND
    assert 0.8 * OTHER_NS <= gaps[-1] <= 1.2 * OTHER_NS
    assert all(each.asks for _, each in sent)


def test_a_known_address_is_told_seldom_and_need_not_answer():
    """It tells us by itself."""
    pace = Pace(random.Random(1))
    pace.aim(known={"10.2.0.11": KNOWN_NS}, others={}, now=0)
    sent = _run(pace, 600 * SECOND)

    assert 0.8 * KNOWN_NS <= _gaps(sent, "10.2.0.11")[-1] <= 1.2 * KNOWN_NS
    assert sent[0][1].asks
    assert not sent[-1][1].asks


def test_a_change_is_told_at_once_and_again():
    """A hello may be lost, and a new leader cannot wait for half a minute."""
    pace = Pace(random.Random(1))
    pace.aim(known={"10.2.0.11": KNOWN_NS}, others={"10.2.0.12": OTHER_NS}, now=0)
    _run(pace, 300 * SECOND)
    pace.hurry(300 * SECOND)
    told = [at for at, each in _run(pace, 302 * SECOND, 300 * SECOND) if each.address == "10.2.0.11"]

    assert 300 * SECOND == told[0]
    assert 2 <= len(told)


def test_a_change_is_told_to_urgent_addresses_as_well():
    """Somebody is there who has to hear of it; to the others it is told in their turn."""
    pace = Pace(random.Random(1))
    pace.aim(known={}, others=dict.fromkeys(["10.42.2.0", "10.2.0.12"], OTHER_NS), urgent={"10.42.2.0"}, now=0)
    _run(pace, 300 * SECOND)
    pace.hurry(300 * SECOND)
    told = [(at, each.address) for at, each in _run(pace, 302 * SECOND, 300 * SECOND)]

    assert (300 * SECOND, "10.42.2.0") == told[0]
    assert {"10.42.2.0"} == {address for _, address in told}


def test_addresses_that_are_not_aimed_at_any_more_are_left_alone():
    """A node that was forgotten is not greeted for ever."""
    pace = Pace(random.Random(1))
    pace.aim(known={"10.2.0.11": KNOWN_NS}, others={}, now=0)
    pace.due(0)
    pace.aim(known={}, others={}, now=1)

    assert [] == _run(pace, 600 * SECOND)


def test_a_thousand_nodes_are_greeted_within_the_rate():
    """At the start all are due at one instant; in calm they are spread over half a minute."""
    pace = Pace(random.Random(1))
    pace.aim(known={f"10.3.{n // 250}.{n % 250}": KNOWN_NS for n in range(1000)}, others={}, now=0)
    sent = [at for at, _ in _run(pace, 400 * SECOND)]

    busiest = max(sum(start <= at < start + SECOND for at in sent) for start in range(0, 20 * SECOND, SECOND))
    calm = [at for at in sent if at >= 300 * SECOND]
    assert busiest <= RATE + BURST
    assert 1000 <= sum(at < 6 * SECOND for at in sent)
    assert 1.3 * 1000 * 100 * SECOND / KNOWN_NS >= len(calm)


RING = tuple(f"10.2.0.{n:02}" for n in range(20))


def _in_turn(step_ns=10 * SECOND):
    pace = Pace(random.Random(1))
    known = dict.fromkeys(RING, len(RING) * step_ns)
    pace.aim(known=known, others={}, rings=[Ring(name="b", addresses=RING, step_ns=step_ns)], now=0)
    return pace


def test_a_ring_is_greeted_one_after_the_other():
    """After a beginning in which each is greeted ever more seldom."""
    sent = [(at, each) for at, each in _run(_in_turn(), 2000 * SECOND) if at > 800 * SECOND]
    order = [RING.index(each.address) for _, each in sent]

    assert {1} == {(later - earlier) % len(RING) for earlier, later in itertools.pairwise(order)}
    assert {True} == {8 * SECOND <= each <= 12 * SECOND for each in _steps(sent)}
    assert not any(each.asks for _, each in sent)


def _steps(sent):
    return [later - earlier for (earlier, _), (later, _) in itertools.pairwise(sent)]


def test_a_change_is_told_to_a_ring_at_once_and_again_until_its_turn_comes():
    """A way that is cut for long hears of it as late after its end as it was cut, at most."""
    pace = _in_turn()
    _run(pace, 1000 * SECOND)
    pace.hurry(1000 * SECOND)
    told = [at - 1000 * SECOND for at, each in _run(pace, 1200 * SECOND, 1000 * SECOND) if each.address == RING[3]]

    assert 0 == told[0]
    assert all(later <= 2.5 * earlier + SECOND for earlier, later in itertools.pairwise(told))


def test_one_word_to_a_node_of_a_ring_is_repeated():
    """Two nodes agree on a key by single hellos; elsewhere the next comes soon anyway."""
    pace = _in_turn()
    _run(pace, 1000 * SECOND)
    pace.repeat(RING[3], 1000 * SECOND)
    told = {each.address for at, each in _run(pace, 1005 * SECOND, 1000 * SECOND) if each.asks}

    assert {RING[3]} == told


def test_a_location_that_shrinks_is_greeted_as_a_small_one():
    """Each node of it again, and within the shorter interval."""
    pace = _in_turn()
    _run(pace, 1000 * SECOND)
    few = RING[:5]
    pace.aim(known=dict.fromkeys(few, KNOWN_NS), others={}, now=1000 * SECOND)
    sent = _run(pace, 1100 * SECOND, 1000 * SECOND)

    assert set(few) == {each.address for at, each in sent if at <= 1000 * SECOND + KNOWN_NS}
    assert {True} == {_gaps(sent, address)[-1] <= 1.2 * KNOWN_NS for address in few}


def test_one_epoch_of_a_node_is_answered_now_and_then():
    """Another epoch of it, or another place, is somebody else."""
    answers, asker = Answers(), ("10.0.0.1", "b1", 7)
    assert answers.is_due(asker, 0)
    assert not answers.is_due(asker, ANSWER_GAP_NS - 1)
    assert answers.is_due(("10.0.0.1", "b1", 8), 1)
    assert answers.is_due(("10.0.0.2", "b1", 7), 1)
    assert answers.is_due(asker, ANSWER_GAP_NS)


def test_answers_are_remembered_within_bounds():
    """Epochs without end use up a moment's memory."""
    answers = Answers()
    for epoch in range(3 * MAX_REMEMBERED):
        answers.is_due(("10.0.0.1", "b1", epoch), 0)

    assert MAX_REMEMBERED >= len(answers._last_ns)
