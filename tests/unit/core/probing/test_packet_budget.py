"""All that one node sends is bounded, and what is short is shared fairly."""

from __future__ import annotations

import random

import msgspec
import pytest

from meshwatchd.core.failover.confirm_burst import SLICE, VERIFY_ROUNDS
from meshwatchd.core.probing.packet_budget import (
    BURST_BUDGET,
    DEPTH,
    FEW_PAIRS,
    LATE_NS,
    MOVES,
    Allowance,
    Pace,
    Share,
    Use,
)
from meshwatchd.model import outputs as out
from meshwatchd.model.events import CoordinationKind, Tick
from meshwatchd.model.failover_facts import FailoverApplied, FailoverRolledBack, FailoverVerified
from meshwatchd.model.load import ProbesFreed, ProbesHeld
from meshwatchd.model.mtu import SendSizeProbe
from meshwatchd.model.settings import MS, SECOND, ProbeSettings
from tests.support.bench import Bench, message, primary_is_silent, ready
from tests.support.bounds import busiest, most_probes
from tests.support.lab_mesh import settings_for

START = 1_000 * SECOND


def _of(pairs, packets_per_second=2_000):
    allowance = Allowance(packets_per_second)
    allowance.begin(pairs)
    allowance.left(START)
    return allowance


def _leave(allowance, probes, now):
    """So many are left."""
    allowance.book(int(allowance.left(now)) - probes, now)


@pytest.mark.parametrize("packets_per_second", [50, 1_000, 2_000, 100_000])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_asked_for_no_span_has_more_than_the_bound(packets_per_second, seed):
    """All uses in any order and number, pauses of any length between them, as late as a burst may leave."""
    dice = random.Random(seed)
    allowance, pace = Allowance(packets_per_second), Pace(packets_per_second)
    shares = [Share() for _ in range(49)]
    now, left = START, []
    while now < START + 20 * SECOND:
        now += dice.choice((0, 0, 0, 1, MS, MS, 20 * MS, dice.randrange(3 * SECOND)))
        allowance.begin(dice.choice((1, 5, 49)))
        many = dice.choice((1, 20, 300, 9_000))
        if dice.random() < 0.1:
            left += [max(now, allowance.book(min(many, 300), now)) + dice.randrange(LATE_NS)] * min(many, 300)
        use, share = dice.choice(list(Use)), dice.choice((None, *shares))
        left += [now + dice.randrange(LATE_NS)] * allowance.take(many, now, use, share, of=dice.choice((1, many)))
        left += [pace.book(now) for _ in range(dice.choice((1, 100)))]
    left.sort()

    for span_ns in (10 * MS, SECOND, 10 * SECOND):
        assert busiest(left, span_ns) <= most_probes(packets_per_second, span_ns)
    assert busiest(left, SECOND) > DEPTH / 2, "it is the bound that holds"


@pytest.mark.parametrize("pairs", range(1, FEW_PAIRS + 1))
def test_few_pairs_get_whatever_they_ask_for(pairs):
    """All of them burst for a second, at a probe a millisecond each: their own budgets end that first."""
    allowance, shares = _of(pairs), [Share() for _ in range(pairs)]
    for step in range(50):
        for share in shares:
            assert SLICE == allowance.take(SLICE, START + step * 20 * MS, Use.DOUBT, share)
    assert allowance.news(START + SECOND) is None


def test_few_pairs_have_what_is_theirs_for_chance_misses():
    """Half of each one's own budget, all at once."""
    allowance, shares = _of(FEW_PAIRS), [Share() for _ in range(FEW_PAIRS)]
    wanted = BURST_BUDGET // 2 // SLICE // 2
    for _ in range(wanted):
        assert [SLICE] * FEW_PAIRS == [allowance.take(SLICE, START, Use.CHANCE, share) for share in shares]


@pytest.mark.parametrize("pairs", [20, 49, 59])
def test_each_pair_gets_two_slices_whoever_came_first(pairs):
    """The first takes all that it can get, then the second, and so on to the last."""
    allowance, got = _of(pairs), []
    for share in [Share() for _ in range(pairs)]:
        slices = 0
        while slices < 100 and allowance.take(SLICE, START, Use.DOUBT, share, of=SLICE):
            slices += 1
        got.append(slices)

    assert min(got) >= 2
    assert got[0] > 50, "a leader that fails alone is not made to wait for others"
    assert allowance.left(START) >= MOVES - SLICE


def test_who_had_less_comes_first_and_numbers_play_no_part():
    """Fifty pairs in doubt for half a minute, asked in the order of their numbers: all get about as much."""
    allowance, shares, got = _of(49), [Share() for _ in range(49)], [0] * 49
    for step in range(1_500):
        for number, share in enumerate(shares):
            got[number] += allowance.take(SLICE, START + step * 20 * MS, Use.DOUBT, share, of=SLICE)

    assert sum(got) > 15_000
    assert max(got) - min(got) <= 3 * SLICE


def test_everyday_misses_cost_no_first_slices():
    """Fifty pairs lose a few percent for a minute, and then the own leader dies."""
    allowance, shares = _of(49), [Share() for _ in range(49)]
    for step in range(3_000):
        for share in shares:
            allowance.take(SLICE, START + step * 20 * MS, Use.CHANCE, share, of=SLICE)
    for share in shares:
        for _ in range(2):
            assert SLICE == allowance.take(SLICE, START + 60 * SECOND, Use.DOUBT, share)


def test_confirmed_doubt_comes_before_a_chance_miss():
    """And what a move needs before both."""
    allowance, old = _of(49), Share()
    old.had(Use.DOUBT, START, 0)
    old.add(Use.DOUBT, 200)
    _leave(allowance, 5_500, START)
    assert 0 == allowance.take(SLICE, START, Use.CHANCE, Share())
    assert SLICE == allowance.take(SLICE, START, Use.DOUBT, old)
    _leave(allowance, MOVES + 2 * SLICE, START)
    assert 0 == allowance.take(SLICE, START, Use.DOUBT, old)
    assert SLICE == allowance.take(SLICE, START, Use.DOUBT, Share())
    _leave(allowance, MOVES, START)
    assert 0 == allowance.take(SLICE, START, Use.DOUBT, Share())
    assert SLICE == allowance.take(SLICE, START, Use.REPEAT)
    _leave(allowance, 1, START)
    assert 0 == allowance.take(1, START, Use.REPEAT)
    assert 1 == allowance.take(1, START, Use.MUST)
    assert 0 == allowance.take(1, START, Use.MUST)


def test_what_must_leave_is_given_a_time():
    """500 probes a second come in; and nobody else gets any before."""
    allowance = _of(49)
    _leave(allowance, 50, START)
    assert START == allowance.book(50, START)
    assert START + 200 * MS == allowance.book(100, START)
    assert START + 300 * MS == allowance.book(50, START)
    assert 0 == allowance.take(1, START + 299 * MS, Use.MUST)


def test_rounds_are_whole():
    """A question is put to all who could answer it, or to none of them."""
    allowance = _of(1)
    _leave(allowance, 25, START)
    assert 20 == allowance.take(30, START, Use.MUST, of=10)


def test_it_is_told_once_that_probes_are_held_back_and_once_that_they_are_not():
    """A log of fifty pairs that wait would be of no use."""
    bench = ready("a1")
    _leave(bench.engine.state.allowance, 0, bench.now)
    since = bench.now
    bench.silent = primary_is_silent
    bench.run(3 * SECOND)
    assert 1 == len(bench.said(ProbesHeld, since=since))
    assert [] == bench.said(ProbesFreed, since=since)
    bench.silent = lambda _plan: False
    bench.run(20 * SECOND)
    assert 1 == len(bench.said(ProbesHeld, since=since))
    freed = bench.said(ProbesFreed, since=since)
    assert 1 == len(freed)
    assert freed[0].held > 0


def _bursts(bench, since):
    return [probe for probe in bench.said(out.SendProbe, since=since) if probe.is_confirm]


def test_without_room_for_bursts_regular_probes_condemn():
    """Nothing leaves that was not granted; it takes longer, and ends the same."""
    bench = ready("a2")
    bench.engine.state.allowance._per_ns = 20 / SECOND
    _leave(bench.engine.state.allowance, 0, bench.now)
    since = bench.now
    bench.silent = primary_is_silent
    bench.run(2 * SECOND)

    assert len(_bursts(bench, since)) <= 40
    assert bench.controller.watch.group(bench.controller.watch.primary).is_down


def test_where_there_is_no_room_for_a_message_it_is_as_good_as_lost():
    """A relay that is told to move says it to its neighbours as soon as it can, with the repeats."""
    for rate, least, most in ((1, 0, 2), (20_000, 2, 40)):
        bench = ready("b2")
        bench.engine.state.allowance._per_ns = rate / SECOND
        _leave(bench.engine.state.allowance, 0, bench.now)
        since = bench.now
        bench.hear("a1", message(CoordinationKind.NOTICE, rank=1, target="b2"))
        bench.run(200 * MS)
        assert bench.said(FailoverApplied, since=since)
        assert least <= len(bench.spoken(CoordinationKind.NOTICE, since=since)) <= most


def test_the_look_at_a_move_waits_for_the_probes_that_verify_it():
    """Without that it would be undone, since nothing arrives of what was not sent."""
    bench = ready("b3")
    bench.engine.state.allowance._per_ns = 40 / SECOND
    _leave(bench.engine.state.allowance, 0, bench.now)
    since = bench.now
    bench.hear("b2", message(CoordinationKind.NOTICE, rank=1, target="b3"))
    bench.run(100 * MS)
    assert bench.said(FailoverApplied, since=since)
    wait_ns = VERIFY_ROUNDS * len(bench.controller.watch.effective) * SECOND // 40
    bench.run(wait_ns - 150 * MS)
    assert [] == _bursts(bench, since)
    assert [] == bench.said(FailoverVerified, since=since)
    bench.run(250 * MS)

    (fact,) = bench.said(FailoverVerified, since=since)
    assert fact.received == fact.sent >= 8
    assert [] == bench.said(FailoverRolledBack, since=since)


def _sizes(bench, since):
    return len(bench.said(SendSizeProbe, since=since))


def test_sizes_wait_for_room_as_well():
    """They go on where they were."""
    bench = ready("a3")
    bench.engine.state.allowance._per_ns = 1 / SECOND
    _leave(bench.engine.state.allowance, 0, bench.now)
    since = bench.now + 1
    bench.run(3 * SECOND)
    assert 0 == _sizes(bench, since)
    bench.engine.state.allowance._per_ns = 2_000 / SECOND
    since = bench.now
    bench.run(3 * SECOND)
    assert _sizes(bench, since) > 10


def test_many_new_sessions_share_the_budget_of_regular_probes():
    """At start all of them are watched closely, on top of those that are asked often anyway."""
    for packets_per_second in (50, 200):
        probe = ProbeSettings(packets_per_second=packets_per_second)
        bench = Bench("a1", settings=msgspec.structs.replace(settings_for("a1"), probe=probe))
        bench.run(12 * SECOND)
        left = [at for at, said in bench.outputs if isinstance(said, out.SendProbe) and not said.is_confirm]
        # A place on the grid may be a few milliseconds behind the one that was booked.
        assert busiest(left, SECOND) <= packets_per_second * (1 / 8 + 9 / 8 * 1.01) + 1
        assert bench.controller.is_ready


def _regular(bench, since):
    return sum(not probe.is_confirm for probe in bench.said(out.SendProbe, since=since))


def test_after_a_stall_not_everything_leaves_at_once():
    """All sessions are due, and an eighth of a second's worth may go."""
    probe = ProbeSettings(packets_per_second=100)
    bench = Bench("a1", settings=msgspec.structs.replace(settings_for("a1"), probe=probe))
    bench.run(10 * SECOND)
    bench.now += 5 * SECOND
    since = bench.now
    bench.feed(Tick())
    assert 1 <= _regular(bench, since) <= 100 // 8
    bench.run(SECOND)
    assert _regular(bench, since) <= 100 // 8 + 100 * 9 // 8 + 1
