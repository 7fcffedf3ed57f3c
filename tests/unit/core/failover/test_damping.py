"""Hold-down, penalty and budgets: three ways in which a flapping path is used less and less readily."""

from __future__ import annotations

import pytest

from meshwatchd.core.failover.damping import DAY_NS, FLAP_MEMORY_NS, FLAP_PENALTY, MAX_DOUBLINGS, Damper
from meshwatchd.model.ids import LocationName, NodeName, PairIndex, PathNumber
from meshwatchd.model.policy_state import PairRecord, PathPenalty
from meshwatchd.model.settings import MINUTE, SECOND, PolicySettings
from meshwatchd.model.topology import Path

NOW = 1_000 * SECOND
POLICY = PolicySettings(
    hold_down=30 * SECOND, jitter_percent=0, actions_per_minute=3, actions_per_day=5, half_life=MINUTE
)


def _path(rank, *relays):
    return Path(
        number=PathNumber(rank),
        pair=PairIndex(0),
        rank=rank,
        preference=rank,
        locations=(LocationName("cloud"), LocationName("onprem")),
        relays=(NodeName(relays[0]), NodeName(relays[1])),
    )


HOME, OTHER, SPARE = _path(0, "b1", "a1"), _path(1, "b2", "a1"), _path(4, "b1", "a1")


def test_each_failover_doubles_the_hold_down():
    """30 s, 30 s, 60 s, 2 min, ... at most 32 times; failbacks do not count."""
    damper = Damper(POLICY)
    found = [damper.hold_down_ns(NOW)]
    for count in range(8):
        damper.record(NOW + count, is_failover=True)
        damper.record(NOW + count, is_failover=False)
        found.append(damper.hold_down_ns(NOW + count))

    assert [30 * factor * SECOND for factor in (1, 1, 2, 4, 8, 16, 32, 32, 32)] == found


def test_calm_forgets_one_level_after_the_other():
    """Ten minutes a level at least, twice its own hold-down where that is longer."""
    damper = Damper(POLICY)
    for count in range(3):
        damper.record(NOW + count, is_failover=True)

    assert 120 * SECOND == damper.hold_down_ns(NOW + FLAP_MEMORY_NS)
    assert 60 * SECOND == damper.hold_down_ns(NOW + 2 + FLAP_MEMORY_NS)
    assert 30 * SECOND == damper.hold_down_ns(NOW + 2 + 2 * FLAP_MEMORY_NS)


def test_a_fault_with_the_period_of_the_hold_down_meets_a_longer_one_each_time():
    """Resonance: the primary breaks at the very instant of each failback. The hold-down never begins anew."""
    damper = Damper(POLICY)
    at, waits = NOW, []
    for _ in range(20):
        damper.record(at, is_failover=True)
        waits.append(damper.hold_down_ns(at))
        at += waits[-1]

    assert waits == sorted(waits)
    assert [30 * SECOND << MAX_DOUBLINGS] * 15 == waits[5:]


def test_a_random_share_spreads_failbacks():
    """Up to the setting's percentage; drawn once for each failover."""
    damper = Damper(PolicySettings(hold_down=30 * SECOND, jitter_percent=20))
    damper.record(NOW, is_failover=True, dice=0.5)

    assert 33 * SECOND == damper.hold_down_ns(NOW)
    assert 33 * SECOND == damper.hold_down_ns(NOW + 1)


def test_a_penalty_halves_with_every_half_life():
    """RFC 2439's figure of merit, path by path."""
    damper = Damper(POLICY)
    damper.flapped(HOME, NOW)

    assert pytest.approx(FLAP_PENALTY) == damper.penalty(HOME, NOW)
    assert pytest.approx(FLAP_PENALTY / 8) == damper.penalty(HOME, NOW + 3 * MINUTE)
    assert 0.0 == damper.penalty(OTHER, NOW)


def test_a_third_flap_suppresses_until_the_penalty_is_below_reuse():
    """Two flaps within a minute are bad luck; from 2000 points on the path waits until 750 are left."""
    damper = Damper(POLICY)
    damper.flapped(HOME, NOW)
    damper.flapped(HOME, NOW + 10 * SECOND)
    assert not damper.is_suppressed(HOME, NOW + 10 * SECOND)
    damper.flapped(HOME, NOW + 20 * SECOND)

    assert damper.is_suppressed(HOME, NOW + 20 * SECOND)
    assert damper.is_suppressed(HOME, NOW + 20 * SECOND + MINUTE)
    assert not damper.is_suppressed(HOME, NOW + 20 * SECOND + 2 * MINUTE)
    assert not damper.is_suppressed(OTHER, NOW + 20 * SECOND)


def test_suppression_ends_four_half_lives_after_the_last_flap_at_the_latest():
    """A flap each second for five minutes does not condemn a path for a day."""
    damper = Damper(POLICY)
    for second in range(300):
        damper.flapped(HOME, NOW + second * SECOND)

    assert damper.is_suppressed(HOME, NOW + 299 * SECOND + 4 * MINUTE - SECOND)
    assert not damper.is_suppressed(HOME, NOW + 299 * SECOND + 4 * MINUTE)


def test_the_budgets_of_a_minute_and_of_a_day_are_kept():
    """Three moves in any minute, five in any day."""
    damper = Damper(POLICY)
    for at in (0, 1, 2):
        assert "" == damper.exhausted(NOW + at)
        damper.record(NOW + at, is_failover=False)
    assert "minute" == damper.exhausted(NOW + MINUTE - 1)
    assert "" == damper.exhausted(NOW + MINUTE)
    damper.record(NOW + MINUTE, is_failover=False)
    damper.record(NOW + 3 * MINUTE, is_failover=False)

    assert "day" == damper.exhausted(NOW + 9 * MINUTE)
    assert "" == damper.exhausted(NOW + DAY_NS)


def test_a_restart_forgets_nothing():
    """Neither level nor jitter, budget, penalty or suppression."""
    before = Damper(PolicySettings(hold_down=30 * SECOND, actions_per_minute=3))
    for at in (0, 1, 2):
        before.record(NOW + at, is_failover=True, dice=0.7)
        before.flapped(HOME, NOW + at)
    after = Damper(PolicySettings(hold_down=30 * SECOND, actions_per_minute=3))
    after.restore(before.export("cloud", NOW + 5, is_pinned=True), NOW + SECOND)

    later = NOW + 2 * SECOND
    assert before.hold_down_ns(later) == after.hold_down_ns(later)
    assert "minute" == after.exhausted(later)
    assert pytest.approx(before.penalty(HOME, later)) == after.penalty(HOME, later)
    assert after.is_suppressed(HOME, later)
    assert before.export("cloud", later, is_pinned=True).actions == after.export("cloud", later, is_pinned=True).actions


def test_the_spare_link_flaps_for_itself_though_its_relays_are_the_leaders():
    """Idle as it is, it would keep traffic from home, also after a restart."""
    before = Damper(POLICY)
    before.flapped(HOME, NOW)
    for _ in range(3):
        before.flapped(SPARE, NOW)
    after = Damper(POLICY)
    after.restore(before.export("cloud", NOW, is_pinned=False), NOW)

    for damper in (before, after):
        assert [FLAP_PENALTY, 3 * FLAP_PENALTY] == [damper.penalty(path, NOW) for path in (HOME, SPARE)]
        assert [False, True] == [damper.is_suppressed(path, NOW) for path in (HOME, SPARE)]


@pytest.mark.parametrize(("kept", "known"), [(1e308, 16 * 750.0), (-1e308, 0.0)])
def test_a_penalty_that_no_path_can_have_is_the_nearest_that_one_can(kept, known):
    """A file with odd digits: the engine reports it as a whole number, and frames carry none of any length."""
    damper = Damper(POLICY)
    penalty = PathPenalty(relays=HOME.relays, penalty=kept, at_ns=NOW)
    damper.restore(PairRecord(location="cloud", penalties=(penalty,)), NOW)

    assert known == damper.penalty(HOME, NOW)


def test_a_record_from_the_future_is_as_of_now():
    """Whatever a clock or an editor has done to the file, nothing stays suppressed for ever."""
    record = Damper(POLICY)
    record.record(NOW + 9 * DAY_NS, is_failover=True)
    record.flapped(HOME, NOW + 9 * DAY_NS)
    damper = Damper(POLICY)
    damper.restore(record.export("cloud", NOW + 9 * DAY_NS, is_pinned=False), NOW)

    assert pytest.approx(FLAP_PENALTY / 2) == damper.penalty(HOME, NOW + MINUTE)
    assert 30 * SECOND == damper.hold_down_ns(NOW + 2 * FLAP_MEMORY_NS)
