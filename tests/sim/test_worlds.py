"""A few random worlds on every run, and proof that the properties of the many (`make worlds`) can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from meshwatchd.model.events import Reason
from meshwatchd.model.failover_facts import FailoverApplied
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import MINUTE, MS, SECOND
from tests.sim import faults
from tests.sim.properties import (
    AS_BEFORE,
    BOUNDED,
    HOME,
    INVERSE,
    LEAST,
    NO_LOOP,
    PROVEN_NS,
    UNVERIFIED,
    Violation,
    check_budget,
    check_home,
    check_moves,
    happened,
    is_home,
)
from tests.sim.stories import ACTS, IDLE, KINDS, PAIR, QUICK, VARIANTS, Story, Variant, healthy
from tests.sim.world import World
from tests.sim.worlds import ENOUGH_WORLDS, Ended, Report, attempt

QUICK_WORLDS = 8


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(QUICK_WORLDS))
def test_the_properties_hold_in_a_random_world(number):
    """What they are is said where they are checked; `make worlds` tells ten thousand."""
    ended = attempt(number)
    assert "" == ended.problem
    assert ended.digest


@pytest.mark.timeout(300)
def test_the_same_inputs_give_the_same_decisions_under_any_hash_seed():
    """Some worlds, three interpreters: nothing depends on the order of a set or a dictionary of strings."""
    digests = set()
    for seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim.worlds", "--first", "3", "--count", "8", "--jobs", "1", "--digest"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests |= {line for line in done.stdout.splitlines() if line.startswith("digest ")}
    assert 1 == len(digests)


def _moved() -> World:
    """A world in which b1's overlay is dead and traffic goes around it."""
    world = healthy(Variant(1, PAIR, QUICK)).copy(5)
    world.faults.append(faults.overlay_black_hole("b1"))
    assert world.run_until(lambda: bool(world.switches), limit_ns=2 * SECOND), world.story()
    world.run(50 * MS)
    return world


def test_a_move_is_as_it_should_be():
    """Every check passes; and it counts as what it is."""
    world = _moved()
    check_moves(world)

    seen = happened(world)
    assert (1, 1, 0) == (seen["a move"], seen["a move for a fault"], seen["a failback"])
    # A node that learns of the move by a banner learns no reason.
    assert {Reason.BROKEN} == {switch.reason for switch in world.switches} - {Reason.NONE}


STRAY = Rule(priority=9, table=9)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        (UNVERIFIED, lambda world: _spoil(world, is_target_good=False)),
        (UNVERIFIED, lambda world: _spoil(world, proven_at=world.switches[0].at - PROVEN_NS - 1)),
        (NO_LOOP, lambda world: world.loops.append("a1 to b1")),
        (INVERSE, lambda world: _spoil(world, add=(*world.switches[0].add, STRAY))),
        (INVERSE, lambda world: world.nodes["a1"].rules.add(STRAY)),
        (BOUNDED, lambda world: world.told.extend(world.facts(FailoverApplied, node="a1") * 20)),
    ],
)
def test_a_move_that_is_not_is_found(name, spoil):
    """Whatever daemons say: each property looks at what the world knows."""
    world = _moved()
    spoil(world)
    with pytest.raises(Violation) as raised:
        check_moves(world)
    assert name == raised.value.name


def _spoil(world: World, **changes) -> None:
    world.switches[0] = world.switches[0]._replace(**changes)


def test_a_mesh_that_does_not_come_home_is_found():
    """On a standby, or home with a rule left behind."""
    world = _moved()
    with pytest.raises(Violation, match=HOME):
        check_home(world, world.rules())
    world.faults.clear()
    assert world.run_until(lambda: is_home(world), limit_ns=20 * SECOND), world.story()
    check_home(world, world.rules())
    with pytest.raises(Violation, match=AS_BEFORE):
        check_home(world, {**world.rules(), "a1": {STRAY}})


def test_a_window_of_a_minute_holds_so_many_moves():
    """Counted from every move on; a minute later they are forgotten."""
    check_budget([0, 1, MINUTE, MINUTE + 1], 2, "a1")
    with pytest.raises(Violation, match="3 moves in a minute"):
        check_budget([0, 1, MINUTE - 1], 2, "a1")


def test_a_run_in_which_hardly_anything_happened_fails(capsys):
    """And so does one world with a property that does not hold, which is told with the line that tells it again."""
    report = Report(ENOUGH_WORLDS)
    for number in range(ENOUGH_WORLDS):
        report.note(Ended(number, "x", "", Counter(dict.fromkeys(LEAST, 1)), 1))
    assert 0 == report.conclude(with_digest=False)
    for number in range(10 * ENOUGH_WORLDS):
        report.note(Ended(number, "x", "", Counter(), 1))
    assert len(LEAST) >= len(report.lacking()) > 1
    assert 1 == report.conclude(with_digest=False)

    broken = Report(1)
    assert 1 == broken.conclude(with_digest=False), "none of it was told"
    assert "CUT SHORT: 1 worlds of 1" in capsys.readouterr().out
    broken.note(Ended(7, "", HOME, Counter(), 1))
    assert 1 == broken.conclude(with_digest=False)
    assert "--first 7 --count 1" in capsys.readouterr().out

    slow = Report(1, within_s=0.0)
    slow.note(Ended(1, "x", "", Counter(), 1))
    assert 0 == slow.conclude(with_digest=False)
    assert "SLOW: 1 worlds should take 0 s" in capsys.readouterr().out


def test_stories_hold_every_kind_of_trouble_and_every_mesh():
    """None that is listed is never told."""
    stories = [Story(number) for number in range(300)]
    assert set(KINDS) == {kind for story in stories for kind in _kinds(story)}
    assert set(ACTS) <= set(KINDS) > set(IDLE)
    assert len({story.variant for story in stories}) > len(VARIANTS) // 2


def _kinds(story: Story) -> list[str]:
    list(story._events())
    return story.kinds
