"""Overrides found in a kernel: one for each pair, whatever an earlier process has left there."""

from __future__ import annotations

import msgspec

from meshwatchd.core.routes.policy_rules import by_pair, legacy_of, strays
from meshwatchd.model.plan import Route, Rule
from tests.support.lab_mesh import planner_of, snapshot_of

FORMER, LATTER = Rule(priority=5460, table=7702), Rule(priority=5460, table=7703)
STRANGE = Rule(priority=5460, table=7719)
STANDING = Rule(priority=5480, table=7798)


def test_each_pair_has_its_own_in_the_order_of_the_kernel():
    """Also those that lead over no path; a standing rule is none."""
    planner = planner_of("a3")

    assert {0: (LATTER, STRANGE, FORMER)} == by_pair(planner, (STANDING, LATTER, STRANGE, FORMER))


def test_a_stray_is_what_no_pair_knows_of():
    """Of the overrides alone."""
    planner = planner_of("a3")

    assert (LATTER, STRANGE) == strays(planner, (STANDING, FORMER, LATTER, STRANGE), (FORMER,))


def test_what_is_left_behind_stands_on_tables_and_links():
    """The links are ours by their name; an overlay's device is not touched by a change of mesh."""
    routes = (
        Route(dst="10.2.0.13/32", table=7719, dev="mw5"),
        Route(dst="10.2.0.12/32", table=7702, dev="flannel.1", via="10.244.2.0"),
        Route(dst="10.2.0.11/32", table=7701, dev="mw0"),
    )
    snapshot = msgspec.structs.replace(snapshot_of("a3"), routes=routes)

    assert ((STRANGE, FORMER), ("mw5",), (7719, 7702)) == legacy_of((STRANGE, FORMER), snapshot, "mw")
