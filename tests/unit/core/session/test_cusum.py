"""The arithmetic of the sequential test: how rarely it trips on bad luck, how soon on a fault."""

from __future__ import annotations

import math
import random

import pytest

from meshwatchd.core.session.cusum import (
    ARMS,
    FALSE_TRIP_RATE,
    HALF,
    HIT_NATS,
    LOSS_EACH_WAY,
    LOSS_HEALTHY,
    QUARTER,
    RECOVER_NATS,
    TOLD_NS,
    TOLD_PAUSE_NS,
    TRIP_NATS,
    Cusum,
)
from tests.support.run_length import mean_run_length, probes_between_false_trips, probes_to_trip

SEED = 489
DEATH = 15
"""Misses in a row that condemn."""


def test_the_stated_rate_is_kept_where_a_twentieth_is_lost_each_way():
    """By the exact chain and not by Lorden's bound alone; with 2 % each way it is hardly ever, and less below."""
    assert pytest.approx(1 - 0.95**2) == LOSS_HEALTHY
    assert LOSS_EACH_WAY == 0.05
    assert probes_between_false_trips(LOSS_HEALTHY) >= 1 / FALSE_TRIP_RATE * 0.99
    assert probes_between_false_trips(0.0396) > 1e18
    assert all(mean_run_length(arm, LOSS_HEALTHY) > math.exp(TRIP_NATS) for arm in ARMS)


@pytest.mark.parametrize(("arm", "loss_ratio"), [(HALF, 0.3), (HALF, 0.35), (QUARTER, 0.2), (QUARTER, 0.25)])
def test_the_mean_run_length_is_exact(arm, loss_ratio):
    """One arm, thrown often enough: the renewal argument against dice."""
    rng = random.Random(SEED)
    total, trips, nats = 0, 0, 0.0
    while trips < 1_500:
        total += 1
        nats = max(0.0, nats + (arm.miss_nats if rng.random() < loss_ratio else arm.hit_nats))
        if nats >= TRIP_NATS:
            nats, trips = 0.0, trips + 1

    assert pytest.approx(total / trips, rel=0.08) == mean_run_length(arm, loss_ratio)


def _probes_until_trip(loss_ratio, rng, *, limit=10_000):
    cusum = Cusum()
    for count in range(1, limit):
        (cusum.miss if rng.random() < loss_ratio else cusum.hit)(0)
        if cusum.is_tripped:
            return count
    return math.inf


@pytest.mark.parametrize("loss_ratio", [0.25, 0.5, 0.53, 0.83, 1.0])
def test_a_fault_trips_after_as_many_probes_as_stated(loss_ratio):
    """From a broken quarter to a dead path; both arms together need at most what the faster one needs alone."""
    rng = random.Random(SEED)
    mean = sum(_probes_until_trip(loss_ratio, rng) for _ in range(400)) / 400

    assert 0.8 * probes_to_trip(loss_ratio) <= mean <= 1.05 * probes_to_trip(loss_ratio)


def test_fifteen_misses_in_a_row_trip_and_fourteen_do_not():
    """A dead path costs fifteen probes, whoever sends them."""
    cusum = Cusum()
    for _ in range(DEATH - 1):
        cusum.miss(0)
    assert cusum.nats < TRIP_NATS
    cusum.miss(0)

    assert HALF is cusum.tripped_by
    assert DEATH == round(probes_to_trip(1.0))


def test_a_broken_quarter_is_found_by_its_own_arm():
    """The arm for a half would wait for ever: three hits outweigh a miss."""
    cusum, rng = Cusum(), random.Random(SEED)
    while not cusum.is_tripped:
        (cusum.miss if rng.random() < QUARTER.loss_ratio else cusum.hit)(0)

    assert QUARTER is cusum.tripped_by
    assert mean_run_length(HALF, 0.25) > 4 * mean_run_length(QUARTER, 0.25)


def test_one_miss_is_suspicious_and_an_answer_acquits():
    """Out of the blue: a reason to look, and nothing more; six answers and nothing is left of it in either arm."""
    cusum = Cusum()
    suspicions = []
    for outcome in (cusum.miss, cusum.hit, cusum.hit, cusum.hit):
        outcome(0)
        suspicions.append(cusum.is_suspect)
    for _ in range(3):
        cusum.hit(0)

    assert [True, False, False, False] == suspicions
    assert 0.0 == cusum.nats


def test_the_sum_never_falls_below_zero():
    """An hour of health buys no credit: the next fault is found as soon as the first."""
    cusum = Cusum()
    for _ in range(10_000):
        cusum.hit(0)
    for _ in range(DEATH):
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
        (cusum.miss if rng.random() < HALF.loss_ratio else cusum.hit)(0)

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
    cusum = _held_off()
    cusum.miss(1_099)
    is_held_off = not cusum.is_tripped
    cusum.miss(1_100)

    assert is_held_off
    assert cusum.is_tripped


def test_what_was_about_to_condemn_is_over_after_ten_answers_as_well():
    """All that lacked was time. Were it not so, who was spared a trip would doubt for longer than who was not."""
    cusum = _held_off()
    for _ in range(9):
        cusum.hit(1_010)
    is_suspect = cusum.is_suspect
    cusum.hit(1_010)

    assert is_suspect
    assert (False, 0.0) == (cusum.is_suspect, cusum.nats)


def test_misses_in_between_count_against_what_was_about_to_condemn():
    """Nine answers, four misses and nine more are no recovery, and misses condemn once the doubt is old enough."""
    cusum = _held_off()
    for at in (1_010, 1_020):
        for _ in range(9):
            cusum.hit(at)
        for _ in range(4):
            cusum.miss(at)
    assert cusum.is_suspect
    assert cusum.nats > TRIP_NATS / 2
    for _ in range(DEATH):
        cusum.miss(1_200)

    assert cusum.is_tripped


def test_an_ordinary_doubt_recovers_by_its_own_weight():
    """Only what sufficed to condemn is forgotten at once; six misses are outweighed answer by answer."""
    cusum = Cusum(hold_off_ns=100)
    for _ in range(6):
        cusum.miss(0)
    for _ in range(10):
        cusum.hit(0)

    assert cusum.nats > 0.0


def test_the_hold_off_counts_from_the_first_doubt_of_this_time():
    """An earlier suspicion that was cleared does not shorten it."""
    cusum = Cusum(hold_off_ns=100)
    cusum.miss(0)
    for _ in range(4):
        cusum.hit(10)
    for _ in range(20):
        cusum.miss(150)

    assert not cusum.is_tripped


@pytest.mark.parametrize(
    ("told_at", "expected"),
    [(950, True), (951, False), (1_050 - TOLD_NS, False)],
    ids=["old-enough", "too-young", "forgotten"],
)
def test_a_doubt_is_as_old_as_the_word_of_another_node_just_before(told_at, expected):
    """One stall, or one fault: who was told of it decides as soon as who has told."""
    cusum = Cusum(hold_off_ns=100)
    cusum.told(told_at)
    for _ in range(DEATH):
        cusum.miss(1_050)

    assert expected is cusum.is_tripped


def test_the_word_of_another_node_makes_no_doubt_older_that_was_there_before():
    """It came later than this node's own first miss."""
    cusum = Cusum(hold_off_ns=100)
    cusum.miss(1_000)
    cusum.told(1_050)
    for _ in range(DEATH):
        cusum.miss(1_099)

    assert not cusum.is_tripped
    cusum.miss(1_100)
    assert cusum.is_tripped


def test_who_doubts_without_end_hurries_nobody():
    """One word counts, and none after it for a while: a stolen node could take the hold-off away for good."""
    cusum = Cusum(hold_off_ns=100)
    for now in range(0, TOLD_PAUSE_NS, TOLD_PAUSE_NS // 100):
        cusum.told(now)
    for _ in range(DEATH):
        cusum.miss(TOLD_PAUSE_NS - 1)
    assert not cusum.is_tripped

    later = Cusum(hold_off_ns=100)
    later.told(0)
    later.told(TOLD_PAUSE_NS)
    for _ in range(DEATH):
        later.miss(TOLD_PAUSE_NS + 100)
    assert later.is_tripped


def test_what_the_arm_of_a_half_condemns_recovers_by_its_measure():
    """The other arm has doubted for longer, and its hold-off is over first: that must not cost 32 answers."""
    cusum = Cusum(hold_off_ns=100)
    cusum.miss(0)
    for _ in range(3):
        cusum.hit(10)
    for now in range(50, 120):
        cusum.miss(now)
    assert cusum.tripped_by is None
    for now in range(120, 160):
        cusum.miss(now)

    assert HALF is cusum.tripped_by


def test_a_trip_for_a_broken_quarter_is_not_over_after_ten_answers():
    """Where three in four pass, ten answers in a row are no news; two and thirty are."""
    cusum, rng = Cusum(), random.Random(SEED)
    while not cusum.is_tripped:
        (cusum.miss if rng.random() < QUARTER.loss_ratio else cusum.hit)(0)
    for _ in range(31):
        cusum.hit(0)
    assert cusum.is_tripped
    cusum.hit(0)

    assert not cusum.is_tripped


def _held_off():
    """A doubt that lacks nothing to condemn but age; it began at 1 000 ns and is held off for 100."""
    cusum = Cusum(hold_off_ns=100)
    for _ in range(50):
        cusum.miss(1_000)
    return cusum


def _tripped():
    cusum = Cusum()
    for _ in range(DEATH):
        cusum.miss(0)
    return cusum
