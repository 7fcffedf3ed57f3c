"""The arithmetic of the sequential test: how rarely it trips on bad luck, how soon on a fault."""

from __future__ import annotations

import math
import random
from collections import defaultdict

import pytest

from meshwatchd.core.detector import (
    FALSE_TRIP_RATE,
    HIT_NATS,
    LOSS_BROKEN,
    LOSS_HEALTHY,
    MISS_NATS,
    RECOVER_NATS,
    TRIP_NATS,
    Cusum,
    probes_to_trip,
)

SEED = 489


def _trip_rate(loss_ratio, *, steps=600):
    """The exact probability of a first trip at the last of so many probes.

    Between two visits to zero the sum is fixed by the misses and hits since, so the chain has a few hundred states.
    """
    states = {(0, 0): 1.0}
    tripped = 0.0
    for _ in range(steps):
        following: dict[tuple[int, int], float] = defaultdict(float)
        tripped = 0.0
        for (misses, hits), weight in states.items():
            if (misses + 1) * MISS_NATS + hits * HIT_NATS >= TRIP_NATS:
                tripped += weight * loss_ratio
            else:
                following[misses + 1, hits] += weight * loss_ratio
            is_zero = misses * MISS_NATS + (hits + 1) * HIT_NATS <= 0
            following[(0, 0) if is_zero else (misses, hits + 1)] += weight * (1 - loss_ratio)
        states = following
    return tripped


def _probes_until_trip(loss_ratio, rng, *, limit=10_000):
    cusum = Cusum()
    for count in range(1, limit):
        (cusum.miss if rng.random() < loss_ratio else cusum.hit)(0)
        if cusum.is_tripped:
            return count
    return math.inf


def test_five_percent_loss_trips_less_than_once_in_ten_billion_probes():
    """The stated rate, by the exact chain and not by Lorden's bound alone; at 2 % it is hardly ever."""
    assert 0 < _trip_rate(LOSS_HEALTHY) <= FALSE_TRIP_RATE
    assert _trip_rate(0.02) < 1e-13


def test_ten_percent_loss_still_trips_less_than_once_an_hour():
    """5 % on each way is what an operator calls 5 % loss: 100 probes a second must survive it for an hour."""
    assert _trip_rate(0.0975) * 100 * 3600 < 1


@pytest.mark.parametrize("loss_ratio", [0.5, 0.53, 0.83, 1.0])
def test_a_fault_trips_after_as_many_probes_as_stated(loss_ratio):
    """Down to 47 % to 50 % of survivors, which an hour of probing leaves; overshoot costs a few probes more."""
    rng = random.Random(SEED)
    mean = sum(_probes_until_trip(loss_ratio, rng) for _ in range(400)) / 400

    assert probes_to_trip(loss_ratio) <= mean <= probes_to_trip(loss_ratio) + 6


def test_ten_misses_in_a_row_trip_and_nine_do_not():
    """A dead path costs ten probes, whoever sends them."""
    cusum = Cusum()
    for _ in range(9):
        cusum.miss(0)
    assert cusum.nats < TRIP_NATS
    cusum.miss(0)

    assert cusum.is_tripped
    assert 10 == round(probes_to_trip(1.0))


def test_healthy_loss_never_drifts_towards_a_trip():
    """Where hits outweigh misses there is no mean time to a trip."""
    assert math.inf == probes_to_trip(LOSS_HEALTHY)
    assert math.isfinite(probes_to_trip(LOSS_BROKEN))


def test_one_miss_is_suspicious_and_four_answers_acquit():
    """Out of the blue: a reason to look, and nothing more."""
    cusum = Cusum()
    suspicions = []
    for outcome in (cusum.miss, cusum.hit, cusum.hit, cusum.hit):
        outcome(0)
        suspicions.append(cusum.is_suspect)
    cusum.hit(0)

    assert [True, False, False, False] == suspicions
    assert 0.0 == cusum.nats


def test_the_sum_never_falls_below_zero():
    """An hour of health buys no credit: the next fault is found as soon as the first."""
    cusum = Cusum()
    for _ in range(10_000):
        cusum.hit(0)
    for _ in range(10):
        cusum.miss(0)

    assert cusum.is_tripped


def test_a_trip_is_over_after_ten_answers():
    """A hit is worth the same whether it comes before or after; misses in between cost what they weigh."""
    cusum = _tripped()
    for _ in range(9):
        cusum.hit(0)
    assert TRIP_NATS == cusum.nats
    cusum.hit(0)

    assert (False, 0.0) == (cusum.is_tripped, cusum.nats)
    assert pytest.approx(10 * -HIT_NATS) == RECOVER_NATS


def test_a_tripped_path_with_survivors_stays_tripped():
    """Half of the probes answered is no recovery."""
    cusum, rng = _tripped(), random.Random(SEED)
    for _ in range(2_000):
        (cusum.miss if rng.random() < LOSS_BROKEN else cusum.hit)(0)

    assert cusum.is_tripped


def test_a_late_answer_takes_its_miss_back():
    """Ten slow answers are ten answers."""
    cusum = Cusum()
    cusum.miss(0)
    cusum.miss(0)
    cusum.heal(0)
    cusum.heal(0)

    assert 0.0 == cusum.nats


def test_reset_forgets_evidence_but_no_verdict():
    """A stalled process may have gathered nonsense; what was condemned before stays condemned."""
    doubtful, tripped = Cusum(), _tripped()
    doubtful.miss(0)
    tripped.hit(0)
    doubtful.reset()
    tripped.reset()

    assert (0.0, False) == (doubtful.nats, doubtful.is_suspect)
    assert (TRIP_NATS, True) == (tripped.nats, tripped.is_tripped)


def test_a_short_stall_is_held_off():
    """Ten probes of one burst share one fate: only when the doubt is old enough does the next miss condemn."""
    cusum = Cusum(hold_off_ns=100)
    for _ in range(50):
        cusum.miss(1_000)
    cusum.miss(1_099)
    is_held_off = not cusum.is_tripped
    cusum.miss(1_100)

    assert is_held_off
    assert cusum.is_tripped


def test_the_hold_off_counts_from_the_first_doubt_of_this_time():
    """An earlier suspicion that was cleared does not shorten it."""
    cusum = Cusum(hold_off_ns=100)
    cusum.miss(0)
    for _ in range(4):
        cusum.hit(10)
    for _ in range(20):
        cusum.miss(150)

    assert not cusum.is_tripped


def _tripped():
    cusum = Cusum()
    for _ in range(10):
        cusum.miss(0)
    return cusum
