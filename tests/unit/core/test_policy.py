"""Fast down, slow up, never towards what is not known to be good."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from meshwatchd.core.policy import FLAP_MEMORY_NS, Damper, Move, Situation, Stay, decide, is_restored
from meshwatchd.model.events import Reason
from meshwatchd.model.settings import MINUTE, SECOND, PolicySettings
from tests.support.lab_mesh import topology_of

PATHS = topology_of("a2").local_paths()
NOW = 1_000 * SECOND
POLICY = PolicySettings(hold_down="30s", wait_to_restore="10s", actions_per_minute=3)


def _group(*, good_since=1, down_since=0, suspect_since=0, verified=True):
    return SimpleNamespace(
        is_down=bool(down_since),
        down_since=down_since,
        suspect_since=suspect_since,
        is_suspect=bool(suspect_since) and not down_since,
        is_good=bool(good_since) and not down_since,
        good_since=good_since,
        verified_since=lambda instant: verified and instant in (down_since, suspect_since, NOW - 1),
    )


GOOD, SUSPECT = _group(), _group(suspect_since=NOW)
DOWN = _group(down_since=NOW - 1, suspect_since=NOW - 1)
STALE = _group(verified=False)


def _situation(*groups, active=0, moved_at=0, is_pinned=False, is_revertive=True):
    return Situation(
        paths=PATHS,
        group=lambda path: groups[path.rank],
        active=PATHS[active],
        moved_at=moved_at,
        is_pinned=is_pinned,
        is_revertive=is_revertive,
        wait_to_restore_ns=10 * SECOND,
    )


def _decide(situation, damper=None):
    return decide(situation, damper or Damper(POLICY), NOW)


def test_a_good_path_is_kept():
    """Nothing is broken, nothing is done."""
    assert Stay() == _decide(_situation(GOOD, GOOD, GOOD, GOOD))


def test_a_suspect_path_is_kept():
    """Suspicion asks for probes, not for moves."""
    assert Stay() == _decide(_situation(SUSPECT, GOOD, GOOD, GOOD))


def test_a_condemned_path_is_left_at_once_for_the_best_good_one():
    """Fast down: no timer but the test's own."""
    assert Move(PATHS[1], Reason.BROKEN) == _decide(_situation(DOWN, GOOD, GOOD, GOOD))
    assert Move(PATHS[3], Reason.BROKEN) == _decide(_situation(DOWN, DOWN, DOWN, GOOD))


@pytest.mark.parametrize(
    "bad", [DOWN, SUSPECT, STALE, _group(good_since=0)], ids=["down", "suspect", "stale", "unproven"]
)
def test_traffic_never_goes_to_a_standby_that_is_not_known_to_be_good_now(bad):
    """Answers from before the suspicion prove nothing about this instant."""
    assert Move(PATHS[2], Reason.BROKEN) == _decide(_situation(DOWN, bad, GOOD, GOOD))
    assert Stay("the path in use is broken and no other path answers") == _decide(_situation(DOWN, bad, bad, bad))


def test_from_a_broken_standby_the_way_home_is_first_choice():
    """Rank 0 is a candidate like the others when the path in use breaks, without waiting."""
    assert Move(PATHS[0], Reason.BROKEN) == _decide(_situation(GOOD, DOWN, GOOD, GOOD, active=1, moved_at=NOW - 1))


def test_home_is_taken_back_slowly():
    """Clean for the wait to restore, and the hold-down over: both, to the nanosecond."""
    clean = _group(good_since=NOW - 10 * SECOND)
    young = _group(good_since=NOW - 10 * SECOND + 1)
    late, early = NOW - 30 * SECOND, NOW - 30 * SECOND + 1

    assert Move(PATHS[0], Reason.RESTORED) == _decide(_situation(clean, GOOD, GOOD, GOOD, active=1, moved_at=late))
    assert Stay() == _decide(_situation(clean, GOOD, GOOD, GOOD, active=1, moved_at=early))
    assert Stay() == _decide(_situation(young, GOOD, GOOD, GOOD, active=1, moved_at=late))


def test_failback_can_be_left_to_the_operator():
    """Not revertive, or pinned by an operator: a good standby is kept for ever, a broken one is left all the same."""
    for words in ({"is_revertive": False}, {"is_pinned": True}):
        assert Stay() == _decide(_situation(GOOD, GOOD, GOOD, GOOD, active=1, **words))
        assert isinstance(_decide(_situation(GOOD, DOWN, GOOD, GOOD, active=1, **words)), Move)


def test_restored_means_good_for_long_enough():
    """What the other relay asks before it grants a failback."""
    assert is_restored(_group(good_since=NOW - 5), 5, NOW)
    assert not is_restored(_group(good_since=NOW - 4), 5, NOW)
    assert not is_restored(replace_group(DOWN, good_since=1), 0, NOW)


def replace_group(group, **changes):
    """The same group with other attributes."""
    return SimpleNamespace(**{**vars(group), **changes})


def test_each_recent_failover_doubles_the_hold_down():
    """30 s, 30 s, 60 s, 2 min, ... at most 32 times; failbacks do not count, and ten minutes forget."""
    damper = Damper(POLICY)
    found = [damper.hold_down_ns(NOW)]
    for count in range(8):
        damper.record(NOW + count, is_failover=True)
        damper.record(NOW + count, is_failover=False)
        found.append(damper.hold_down_ns(NOW + count))

    assert [30 * factor * SECOND for factor in (1, 1, 2, 4, 8, 16, 32, 32, 32)] == found
    assert 30 * SECOND == damper.hold_down_ns(NOW + FLAP_MEMORY_NS + 8)


def test_the_budget_of_a_minute_is_kept():
    """Three moves in any minute; the fourth has to wait until the first is a minute old."""
    damper = Damper(POLICY)
    for at in (0, 1, 2):
        assert not damper.is_exhausted(NOW + at)
        damper.record(NOW + at, is_failover=False)

    assert damper.is_exhausted(NOW + 3)
    assert damper.is_exhausted(NOW + MINUTE - 1)
    assert not damper.is_exhausted(NOW + MINUTE)


def test_without_budget_routes_stay_as_they_are():
    """More moves than that are a flap, not a repair."""
    damper = Damper(POLICY)
    for _ in range(3):
        damper.record(NOW, is_failover=True)

    assert Stay("too many moves in the last minute; routes stay as they are") == _decide(
        _situation(DOWN, GOOD, GOOD, GOOD), damper
    )


def test_a_banned_path_is_no_candidate():
    """The caller leaves out what was rolled back; its own path stays first in the list."""
    situation = replace(_situation(DOWN, GOOD, GOOD, GOOD), paths=(PATHS[0], PATHS[3]))

    assert Move(PATHS[3], Reason.BROKEN) == _decide(situation)
