"""What the policy is asked about."""

from __future__ import annotations

import pytest

from meshwatchd.core.failover.pair_situation import describe, is_content
from meshwatchd.core.failover.policy import Stay, decide
from meshwatchd.model.settings import SECOND
from tests.support.bench import primary_is_silent, ready


def test_traffic_at_home_is_content_and_the_policy_says_the_same():
    """The short way and the long one: in health, and once the path is down."""
    bench = ready("a3")
    context = bench.controller.context
    assert is_content(context, bench.now)
    assert Stay() == decide(describe(context, {}, bench.now), context.damper, bench.now)
    bench.silent = primary_is_silent
    bench.run(2 * SECOND)

    assert not is_content(context, bench.now)


@pytest.mark.parametrize(("until_s", "paths"), [(1, 4), (-1, 5)])
def test_a_path_that_is_banned_is_no_choice_until_then(until_s, paths):
    """All others are, the preferred first."""
    bench = ready("a3")
    now = bench.now
    situation = describe(bench.controller.context, {1: now + until_s * SECOND}, now)

    assert paths == len(situation.paths)
    assert (1 in [path.number for path in situation.paths]) is (until_s < 0)
    assert situation.paths[0] is situation.active is situation.home


def test_home_is_not_avoided_for_an_idle_spare_link_that_flaps():
    """Both have the leaders as relays."""
    bench = ready("a3")
    context = bench.controller.context
    spare = context.watch.paths[4]
    for _ in range(3):
        context.damper.flapped(spare, bench.now)
    situation = describe(context, {}, bench.now)

    assert (False, True) == (situation.is_suppressed(situation.home), situation.is_suppressed(spare))
