"""Fast down, slow up, never towards what is not known to be good."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from meshwatchd.core.failover.damping import Damper
from meshwatchd.core.failover.policy import (
    AGENT_PATIENCE_NS,
    LOOK_AHEAD_NS,
    Move,
    Situation,
    Stay,
    decide,
    is_restored,
    may_go_home,
)
from meshwatchd.core.failover.storm import CALM_NS
from meshwatchd.model.events import Reason
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import SECOND, PolicySettings
from tests.support.lab_mesh import topology_of

PATHS = topology_of("a2").local_paths()
NOW = 1_000 * SECOND
POLICY = PolicySettings(hold_down=30 * SECOND, jitter_percent=0, wait_to_restore=10 * SECOND, actions_per_minute=3)


def _group(*, good_since=1, down_since=0, suspect_since=0, verified=True, is_reviving=False):
    return SimpleNamespace(
        is_reviving=is_reviving,
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


NONE = _group(good_since=0)
"""The link between the two leaders, where a test is not about it."""


def _situation(*groups, active=0, home=0, **words):
    groups = (*groups, *[NONE] * (len(PATHS) - len(groups)))
    fixed = {"moved_at": 0, "is_pinned": False, "is_revertive": True, "wait_to_restore_ns": 10 * SECOND}
    return Situation(
        paths=PATHS,
        group=lambda path: groups[path.rank],
        active=PATHS[active],
        home=PATHS[home],
        **{**fixed, **words},
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


def test_a_condemned_path_that_answers_again_is_not_left():
    """The fault of all paths has ended: the first of them to be good is no better than the one in use."""
    reviving = _group(down_since=NOW - 1, suspect_since=NOW - 1, is_reviving=True)

    decision = _decide(_situation(reviving, GOOD, GOOD, GOOD))

    assert isinstance(decision, Stay)
    assert "answers again" in decision.reason


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


def test_everybody_looks_for_a_while_before_traffic_goes_home():
    """And not while something else keeps it where it is: a pause of an hour would be an hour at full pace."""
    soon, later = (NOW - 30 * SECOND + LOOK_AHEAD_NS + extra for extra in (0, 1))
    away = {"active": 1, "moved_at": soon}

    assert may_go_home(_situation(GOOD, GOOD, **away), Damper(POLICY), NOW)
    assert Stay() == _decide(_situation(GOOD, GOOD, **away))
    for kept in (
        {"moved_at": later},
        {"pause": PAUSE},
        {"is_unsettled": True},
        {"is_suppressed": lambda path: path is PATHS[0]},
        {"is_vouched_for": lambda: False},
        {"active": 0},
    ):
        assert not may_go_home(_situation(GOOD, GOOD, **{**away, **kept}), Damper(POLICY), NOW), kept
    assert not may_go_home(_situation(DOWN, GOOD, **away), Damper(POLICY), NOW)


def test_the_primary_path_is_taken_back_on_the_word_of_members_and_in_calm_only():
    """However clean it is as seen from here; another path that is pinned needs neither."""
    away = _situation(GOOD, GOOD, GOOD, GOOD, active=1)
    assert Move(PATHS[0], Reason.RESTORED) == _decide(away)
    assert Stay() == _decide(replace(away, is_vouched_for=lambda: False))
    assert Stay() == _decide(replace(away, is_unsettled=True))

    pinned = _situation(GOOD, GOOD, GOOD, GOOD, home=3, is_unsettled=True, is_vouched_for=lambda: False)
    assert Move(PATHS[3], Reason.PINNED) == _decide(pinned)


def test_a_broken_path_is_left_while_the_mesh_is_rewritten():
    """Standby links do not depend on Kilo; and from a broken standby the primary path is no worse than any other.

    The primary path gets the time in which Kilo mostly finishes.
    """
    words = {"is_unsettled": True, "is_vouched_for": lambda: False}
    broken = _situation(DOWN, GOOD, GOOD, GOOD, **words)
    over_ns = DOWN.suspect_since + AGENT_PATIENCE_NS

    assert Stay() == decide(broken, Damper(POLICY), over_ns - 1)
    assert Move(PATHS[1], Reason.BROKEN) == decide(broken, Damper(POLICY), over_ns)
    assert Move(PATHS[0], Reason.BROKEN) == _decide(_situation(GOOD, DOWN, DOWN, DOWN, active=1, **words))


def test_the_link_between_the_leaders_is_taken_last():
    """It avoids the mesh's tunnel alone."""
    assert Move(PATHS[3], Reason.BROKEN) == _decide(_situation(DOWN, DOWN, DOWN, GOOD, GOOD))
    assert Move(PATHS[4], Reason.BROKEN) == _decide(_situation(DOWN, DOWN, DOWN, DOWN, GOOD))


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


def test_a_drained_relay_is_left_while_it_still_works():
    """For the best path that avoids it; paths over it are no candidates, and without another path traffic stays."""
    drained = {"is_drained": lambda path: "b1" in path.relays}

    assert Move(PATHS[1], Reason.DRAINED) == _decide(_situation(GOOD, GOOD, GOOD, GOOD, **drained))
    assert Move(PATHS[3], Reason.DRAINED) == _decide(_situation(GOOD, DOWN, GOOD, GOOD, **drained))
    stuck = _decide(_situation(GOOD, DOWN, GOOD, SUSPECT, **drained))
    assert Stay("a relay of the path in use is drained and no other path is good") == stuck


def test_a_drained_path_is_better_than_a_broken_one():
    """Last of all: its relay still works, and nothing else does."""
    drained = {"is_drained": lambda path: "b2" in path.relays}

    assert Move(PATHS[2], Reason.BROKEN) == _decide(_situation(DOWN, GOOD, GOOD, GOOD, **drained))
    assert Move(PATHS[1], Reason.BROKEN) == _decide(_situation(DOWN, GOOD, DOWN, GOOD, **drained))


def test_nobody_comes_home_to_a_drained_or_flapping_path():
    """However clean it is at the moment."""
    for word in ("is_drained", "is_suppressed"):
        situation = _situation(GOOD, GOOD, GOOD, GOOD, active=1, **{word: lambda path: path.is_primary})
        assert Stay() == _decide(situation)


def test_a_flapping_standby_is_taken_last():
    """A path that answers and flaps is better than none, and worse than any other."""
    flapping = {"is_suppressed": lambda path: path.rank == 1}

    assert Move(PATHS[2], Reason.BROKEN) == _decide(_situation(DOWN, GOOD, GOOD, GOOD, **flapping))
    assert Move(PATHS[1], Reason.BROKEN) == _decide(_situation(DOWN, GOOD, DOWN, DOWN, **flapping))


PAUSE = Order(kind=OrderKind.PAUSE, name="ann", until_ns=NOW + 1, reason="new switch")


def test_while_paused_nothing_moves_by_itself():
    """Neither down nor up, and the reason names the owner."""
    assert Stay("paused by ann: new switch") == _decide(_situation(DOWN, GOOD, GOOD, GOOD, pause=PAUSE))
    assert Stay() == _decide(_situation(GOOD, GOOD, GOOD, GOOD, active=1, pause=PAUSE))
    drained = _situation(GOOD, GOOD, GOOD, GOOD, pause=PAUSE, is_drained=lambda path: path.is_primary)
    assert Stay("paused by ann: new switch") == _decide(drained)


def test_a_pinned_path_is_home():
    """It is come back to by the usual waits, and its owner's word is the reason."""
    assert Move(PATHS[3], Reason.PINNED) == _decide(_situation(GOOD, GOOD, GOOD, GOOD, active=0, home=3))
    assert Stay() == _decide(_situation(GOOD, GOOD, GOOD, GOOD, active=3, home=3))
    assert Move(PATHS[0], Reason.BROKEN) == _decide(_situation(GOOD, GOOD, GOOD, DOWN, active=3, home=3))


def test_in_a_storm_only_what_avoids_the_shared_relay_is_taken_at_once():
    """Most locations are gone at once: a standby over the same own relay has to stay good for half a second first."""
    words = {"shares_relay": lambda path: path.rank == 1}
    waiting = "most locations went bad at once, and no path avoids what they share: waiting until one is steady"

    young = _situation(DOWN, GOOD, GOOD, GOOD, storm_since=NOW - 1, **words)
    assert Move(PATHS[2], Reason.BROKEN) == _decide(young)
    alone = _situation(DOWN, GOOD, DOWN, DOWN, storm_since=NOW - 1, **words)
    assert Stay(waiting) == _decide(alone)
    steady = _situation(DOWN, GOOD, DOWN, DOWN, storm_since=NOW - 1 - CALM_NS, **words)
    assert Move(PATHS[1], Reason.BROKEN) == _decide(steady)


def test_without_budget_nobody_comes_home():
    """A failback is a move as well."""
    damper = Damper(POLICY)
    for at in (0, 1, 2):
        damper.record(at + NOW - SECOND, is_failover=False)

    assert Stay() == _decide(_situation(GOOD, GOOD, GOOD, GOOD, active=1), damper)


def _is(*ranks):
    return lambda path: path.rank in ranks


def test_large_packets_alone_move_nothing_unless_it_is_wanted():
    """A path that carries small ones only is still a path."""
    cramped = _situation(GOOD, GOOD, GOOD, GOOD, is_cramped=_is(0))

    assert Stay() == _decide(cramped)
    assert Move(PATHS[1], Reason.TOO_SMALL) == _decide(replace(cramped, moves_for_size=True))
    assert Move(PATHS[2], Reason.TOO_SMALL) == _decide(
        replace(cramped, moves_for_size=True, is_cramped=_is(0, 1), is_drained=_is(3))
    )
    assert Stay() == _decide(replace(cramped, moves_for_size=True, is_cramped=lambda _path: True))
    assert Stay() == _decide(replace(cramped, moves_for_size=True, is_pinned=True))


def test_a_broken_path_is_left_for_full_size_first():
    """A smaller one is better than none."""
    broken = _situation(DOWN, GOOD, GOOD, GOOD, is_cramped=_is(1))

    assert Move(PATHS[2], Reason.BROKEN) == _decide(broken)
    assert Move(PATHS[1], Reason.BROKEN) == _decide(replace(broken, is_cramped=lambda _path: True))


def test_home_is_not_fit_while_it_loses_large_packets():
    """However long it has been clean for small ones."""
    away = _situation(GOOD, GOOD, GOOD, GOOD, active=1)

    assert Move(PATHS[0], Reason.RESTORED) == _decide(away)
    assert Stay() == _decide(replace(away, is_cramped=_is(0)))
