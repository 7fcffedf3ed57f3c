"""Every answer an operator can get."""

from __future__ import annotations

import pytest

from meshwatchd.model.events import CoordinationKind, OperatorRequested, OperatorVerb, Reason
from meshwatchd.model.failover_facts import FailoverProposed
from meshwatchd.model.outputs import ApplySwitch, ReplyOperator, SendProbe
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MS, SECOND, Mode
from tests.support.bench import Bench, ready
from tests.support.lab_mesh import settings_for

FAILOVER, FAILBACK = OperatorVerb.FAILOVER, OperatorVerb.FAILBACK
ADD = "ip rule add pref 5460 from all lookup 7701 protocol 117"


def _ask(bench, verb=FAILOVER, **words):
    outputs = bench.feed(OperatorRequested(request=5, verb=verb, **words))
    (reply,) = [output for output in outputs if isinstance(output, ReplyOperator)]
    assert 5 == reply.request
    return reply


def test_a_dry_run_says_what_it_would_do_and_does_nothing():
    """With the exact operations."""
    bench = ready("a1")
    since = bench.now
    reply = _ask(bench, is_dry_run=True)

    assert (True, "would move the traffic to cloud from path b1 - a1 (rank 0) to b2 - a1 (rank 1)", (ADD,)) == (
        reply.is_accepted,
        reply.text,
        reply.operations,
    )
    assert [] == bench.said(FailoverProposed)
    assert [] == [probe for probe in bench.said(SendProbe, since=since) if probe.coordination]


def test_a_request_becomes_a_proposal():
    """Operators need the other relay's consent too."""
    bench = ready("a1")
    reply = _ask(bench, to_rank=1, location="cloud")
    (asked,) = bench.spoken(CoordinationKind.PROPOSE)

    assert reply.is_accepted
    assert reply.text.startswith("asked to move the traffic to cloud from path b1 - a1 (rank 0) to b2 - a1 (rank 1)")
    assert ("b2", 1, Reason.OPERATOR) == (asked.target, asked.rank, asked.reason)
    assert [] == bench.said(ApplySwitch)


def test_failback_is_asked_where_the_override_is():
    """The relay of the path in use asks; the operations remove the rule."""
    bench = ready("a1")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    reply = _ask(bench, FAILBACK)

    assert reply.is_accepted
    assert (ADD.replace("add", "del"),) == reply.operations
    assert 0 == bench.spoken(CoordinationKind.PROPOSE)[0].rank


def test_a_second_move_that_nobody_confirms_is_undone_to_where_the_first_began():
    """Traffic would stay on the first one's path, for good, as if an operator had wanted it there."""
    bench = ready("a1")
    orders = bench.engine.state.memory.orders
    orders.give(
        Order(
            kind=OrderKind.CONFIRM, name="", until_ns=bench.now + SECOND, location="cloud", rank=0, reason="", relays=()
        )
    )
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    assert _ask(bench, to_rank=4, duration_ns=60 * SECOND).is_accepted

    (standing,) = orders.standing
    assert (OrderKind.CONFIRM, 0, ()) == (standing.kind, standing.rank, standing.relays)


def test_a_second_move_is_undone_to_the_relays_of_the_first_ones_beginning():
    """Since then a leader has changed, and the rank of that path with it."""
    bench = ready("a1")
    orders, began = bench.engine.state.memory.orders, bench.controller.watch.paths[2]
    orders.give(
        Order(
            kind=OrderKind.CONFIRM,
            name="",
            until_ns=bench.now + SECOND,
            location="cloud",
            rank=3,
            reason="",
            relays=began.relays,
        )
    )
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    assert _ask(bench, to_rank=4, duration_ns=60 * SECOND).is_accepted

    (standing,) = orders.standing
    assert (began.rank, began.relays) == (standing.rank, standing.relays)


def _quiet(bench):
    bench.silent = lambda plan: plan.path == 1
    bench.run(3 * SECOND)


@pytest.mark.parametrize(
    ("name", "words", "text"),
    [
        ("a1", {"location": "mars"}, "no such remote location; there are: cloud"),
        ("a1", {"to_rank": 7}, "no path of rank 7; there are 0 to 4"),
        ("a1", {"to_rank": 0}, "rank 0 is in use already"),
        ("a1", {"verb": FAILBACK}, "rank 0 is in use already"),
        ("a1", {"to_rank": 2}, "this node does not relay that path; ask on b1 or a2"),
        ("a3", {"to_rank": 1}, "this node does not relay that path; ask on b2 or a1"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused_with_a_remedy(name, words, text):
    """Each line tells what to do instead."""
    reply = _ask(ready(name), **words)

    assert (False, text) == (reply.is_accepted, reply.text)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_a_daemon_that_may_not_act_says_so(mode):
    """And which setting to change."""
    reply = _ask(ready("a1", settings=settings_for("a1", mode=mode)), to_rank=1)

    assert f"this daemon runs in {mode} mode; set daemon.mode to enforce" == reply.text
    assert (ADD,) == reply.operations


def test_a_broken_path_is_never_used():
    """Whoever asks; without a rank the best good one is meant."""
    bench = ready("a1")
    _quiet(bench)

    assert "rank 1 is not good now; a broken path is never used" == _ask(bench, to_rank=1).text
    assert "(rank 4); " in _ask(bench).text
    bench = ready("a1")
    bench.silent = lambda plan: plan.path in (1, 4)
    bench.run(20 * SECOND)
    assert "no standby path is good; see `meshwatchctl status`" == _ask(bench).text


def test_one_move_at_a_time():
    """The first request is under way."""
    bench = ready("a1")
    _ask(bench, to_rank=1)
    bench.run(MS)

    assert "a move is under way; try again in a second" == _ask(bench, to_rank=1).text


def test_without_a_topology_there_is_nothing_to_ask_for():
    """The daemon runs, and waits for Kilo."""
    bench = Bench("a1", settings=settings_for("a1"))
    bench.engine.state.topology = None
    bench.engine.state.controllers.clear()

    assert "no such remote location; there are: none known" == _ask(bench).text
