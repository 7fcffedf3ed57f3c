"""One size tried on one path: what the answers and the silence prove."""

from __future__ import annotations

import pytest

from meshwatchd.core.pmtu.probe_round import Trial
from meshwatchd.core.pmtu.search import Outcome
from meshwatchd.model.mtu import SMALL_BYTES

PAIRS = 4


def _run(trial, answer):
    """Send everything; `answer(position, size)` says whether a probe arrives and whether its answer comes back."""
    count = 0
    for seq in range(100, 100 + 2 * trial.pairs + 1):
        size = trial.next(seq)
        arrives, returns = answer(seq - 100, size)
        if arrives and returns:
            trial.answered(seq, count)
        count += arrives
        if trial.is_decided:
            break
    return trial.outcome()


def _limit(there, back):
    return lambda _position, size: (size <= there, size <= back)


def test_small_probes_stand_around_each_large_one():
    """Between any two large ones there is a small one, and at both ends."""
    trial = Trial(1450, 2)

    assert [SMALL_BYTES, 1450, SMALL_BYTES, 1450, SMALL_BYTES] == [trial.next(seq) for seq in range(5)]
    assert trial.is_sent


def test_one_answer_decides():
    """It is proof, so nothing more is sent."""
    trial = Trial(1450, PAIRS)

    assert Outcome.ECHOED is _run(trial, _limit(1500, 1500))
    assert not trial.is_sent


@pytest.mark.parametrize(
    ("there", "back", "outcome"),
    [(1400, 1500, Outcome.LOST), (1400, 1400, Outcome.LOST), (1500, 1400, Outcome.ARRIVED)],
)
def test_the_count_tells_the_way_there_from_the_way_back(there, back, outcome):
    """The reflector counts what arrives, answered or not."""
    assert outcome is _run(Trial(1450, PAIRS), _limit(there, back))


def test_without_small_answers_nothing_is_said_of_sizes():
    """The path is down, or this process was asleep."""
    assert None is _run(Trial(1450, PAIRS), lambda *_: (False, False))


def test_a_look_that_is_lost_says_nothing():
    """One packet may always be lost."""
    assert None is _run(Trial(1450, 0), lambda *_: (False, False))


def test_a_small_answer_that_is_lost_does_not_change_the_count():
    """Requests are counted where they arrive, so a lost answer leaves no trace in the difference."""
    kept = _limit(1500, 1400)

    def answer(position, size):
        arrives, returns = kept(position, size)
        return arrives, returns and position != 4

    assert Outcome.ARRIVED is _run(Trial(1450, PAIRS), answer)


def test_a_count_that_stands_still_is_taken_for_loss():
    """A reflector that counts nothing (its table is full) proves no arrival."""
    trial = Trial(1450, PAIRS)
    for seq in range(2 * PAIRS + 1):
        if trial.next(seq) == SMALL_BYTES:
            trial.answered(seq, 0)

    assert Outcome.LOST is trial.outcome()


def test_the_own_device_decides_at_once():
    """EMSGSIZE is no guess."""
    trial = Trial(9000, PAIRS)
    trial.next(0)
    trial.refused()

    assert trial.is_decided
    assert Outcome.LOST is trial.outcome()
