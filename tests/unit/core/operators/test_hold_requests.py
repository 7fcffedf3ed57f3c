"""Standing orders: what is taken, what is refused, and with which words."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.storage.policy_file import StateFile
from meshwatchd.core.failover.operator_holds import MAX_ORDERS, RESERVED_ORDERS
from meshwatchd.core.operators.hold_requests import (
    LONGEST_OPERATOR_NS,
    MAX_NAME,
    MAX_REASON,
    NAMELESS,
    TOO_LONG_FOR_OPERATOR,
    is_reasonable,
)
from meshwatchd.model.events import CoordinationKind, OperatorRequested, OperatorVerb
from meshwatchd.model.outputs import OrderEnded, OrderGiven, ReplyOperator, SaveState, SetBanner
from meshwatchd.model.settings import MINUTE, SECOND
from tests.support.bench import Bench, ready


def _ask(bench, verb, **words):
    outputs = bench.feed(OperatorRequested(request=5, verb=verb, **words))
    (reply,) = [output for output in outputs if isinstance(output, ReplyOperator)]
    return reply


def _standing(bench: Bench):
    return [(order.kind.value, order.name, order.location) for order in bench.engine.state.memory.orders.standing]


def test_a_pause_stands_until_it_is_ended():
    """By name, and everybody sees whose it is."""
    bench = ready("a1")
    reply = _ask(bench, OperatorVerb.PAUSE, name="ann", reason="new switch", location="cloud", duration_ns=MINUTE)
    assert (True, "paused for 1 min") == (reply.is_accepted, reply.text)
    assert [("pause", "ann", "cloud")] == _standing(bench)
    assert [("ann", "new switch")] == [(f.order.name, f.order.reason) for f in bench.said(OrderGiven)]

    assert "nothing is paused by bob; `meshwatchctl status` lists what stands" == (
        _ask(bench, OperatorVerb.RESUME, name="bob").text
    )
    assert "ended: pause by ann" == _ask(bench, OperatorVerb.RESUME).text
    assert [] == _standing(bench)
    assert [False] == [fact.is_expired for fact in bench.said(OrderEnded)]


def test_an_order_without_an_end_ends_after_an_hour():
    """Nobody remembers to end it."""
    bench = ready("a1")
    assert "paused for 1 h" == _ask(bench, OperatorVerb.PAUSE, name="ann").text
    assert bench.now + 60 * MINUTE == bench.engine.state.memory.orders.next_expiry


def test_an_order_expires_by_itself():
    """And is told as expired."""
    bench = ready("a1")
    _ask(bench, OperatorVerb.PAUSE, name="ann", duration_ns=2 * SECOND)
    bench.run(3 * SECOND)

    assert [True] == [fact.is_expired for fact in bench.said(OrderEnded)]
    assert [] == _standing(bench)


def test_a_drain_is_told_with_every_packet():
    """AdminDown in the banner, and gone from it when the drain is over."""
    bench = ready("b2")
    _ask(bench, OperatorVerb.DRAIN, name="ann")
    assert bench.said(SetBanner)[-1].banner.is_admin_down
    _ask(bench, OperatorVerb.UNDRAIN)
    assert not bench.said(SetBanner)[-1].banner.is_admin_down


def test_a_drain_says_what_it_cannot_do():
    """a1 relays the path in use; with a2's paths gone nothing avoids it."""
    bench = ready("a1")
    assert "no path that this node sees avoids it to: cloud" in _ask(bench, OperatorVerb.DRAIN, name="ann").text


def test_a_pin_moves_traffic_and_stands():
    """Asked of the other relay like any failover; on the path already, only the order is new."""
    bench = ready("a1")
    reply = _ask(bench, OperatorVerb.PIN, name="ann", to_rank=1, duration_ns=MINUTE)
    assert reply.is_accepted
    assert (
        "after a failover traffic comes back to this path, until `meshwatchctl unpin` or until the pin expires"
        in reply.text
    )
    assert [("pin", "ann", "cloud")] == _standing(bench)
    assert [1] == [message.rank for message in bench.spoken(CoordinationKind.PROPOSE)]

    there = ready("a1")
    there.controller.adopt(there.controller.watch.paths[1], there.now)
    assert "pinned for 1 h" == _ask(there, OperatorVerb.PIN, name="ann", to_rank=1).text
    assert 1 == there.engine.state.memory.orders.standing[0].rank


def test_unpin_lets_traffic_come_home():
    """What kept it was the operator's word."""
    bench = ready("a1")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    bench.controller.mover.is_pinned = True
    _ask(bench, OperatorVerb.PIN, name="ann", to_rank=1)
    assert "ended: pin by ann" == _ask(bench, OperatorVerb.UNPIN, location="cloud").text
    assert not bench.controller.mover.is_pinned


def test_a_failover_waits_to_be_confirmed():
    """And confirming what does not wait is refused."""
    bench = ready("a1")
    assert not _ask(bench, OperatorVerb.CONFIRM).is_accepted
    reply = _ask(bench, OperatorVerb.FAILOVER, to_rank=1, duration_ns=30 * SECOND)
    assert "undone in 30 s unless you run `meshwatchctl confirm`" in reply.text
    assert "ended: confirm" == _ask(bench, OperatorVerb.CONFIRM).text
    assert [] == _standing(bench)


@pytest.mark.parametrize("verb", [OperatorVerb.PAUSE, OperatorVerb.DRAIN, OperatorVerb.RESUME])
def test_a_dry_run_leaves_no_order(verb):
    """It says what would be."""
    bench = ready("a1")
    _ask(bench, OperatorVerb.PAUSE, name="ann")
    before = _standing(bench)
    assert _ask(bench, verb, name="ann", is_dry_run=True).text.startswith("would ")
    assert before == _standing(bench)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"location": "mars"}, "no such remote location; there are: cloud"),
        ({"duration_ns": 1}, "an order stands for 1 s to 30 days"),
        ({"duration_ns": 31 * 24 * 60 * MINUTE}, "an order stands for 1 s to 30 days"),
    ],
)
def test_what_makes_no_sense_is_refused(words, text):
    """With the choices."""
    reply = _ask(ready("a1"), OperatorVerb.PAUSE, name="ann", **words)
    assert (False, text) == (reply.is_accepted, reply.text)


def test_a_day_is_reasonable():
    """As is none."""
    assert is_reasonable(24 * 60 * MINUTE)
    assert is_reasonable(None)


def test_too_many_orders_are_refused():
    """A script that runs wild."""
    bench = ready("a1")
    for number in range(MAX_ORDERS):
        assert _ask(bench, OperatorVerb.PAUSE, name=str(number)).is_accepted
    assert "there are too many orders; end some" == _ask(bench, OperatorVerb.PAUSE, name="one more").text


@pytest.mark.parametrize("verb", [OperatorVerb.PAUSE, OperatorVerb.PIN, OperatorVerb.RESUME, OperatorVerb.FAILOVER])
@pytest.mark.parametrize("words", [{"name": "x" * (MAX_NAME + 1)}, {"reason": "x" * (MAX_REASON + 1)}])
def test_more_words_than_are_kept_are_refused(verb, words):
    """Sixty-four orders of 64 KiB would be more than the file of the state directory may hold."""
    bench = ready("a1")
    reply = _ask(bench, verb, **{"name": "ann", **words})

    assert (False, "a name has at most 100 characters, and a reason 500") == (reply.is_accepted, reply.text)
    assert [] == _standing(bench)


def test_as_many_orders_as_there_may_be_are_read_again(tmp_path):
    """With as many words as each may have, in the longest form of JSON."""
    bench = ready("a1")
    for number in range(MAX_ORDERS):
        name = f"{number:03}".ljust(MAX_NAME, "\x01")
        assert _ask(bench, OperatorVerb.PAUSE, name=name, reason="\x01" * MAX_REASON).is_accepted
    file = StateFile(tmp_path, boot="x")
    assert "" == file.save(bench.said(SaveState)[-1].state)

    state, problem = file.load()
    assert ("", MAX_ORDERS) == (problem, len(state.orders) if state is not None else 0)


@pytest.mark.parametrize("verb", [OperatorVerb.PIN, OperatorVerb.UNPIN, OperatorVerb.DRAIN, OperatorVerb.UNDRAIN])
def test_without_a_name_only_root_gives_and_ends_orders(verb):
    """The end of nobody's order is the end of everybody's."""
    bench = ready("a1")
    _ask(bench, OperatorVerb.PIN, name="ann", to_rank=1)
    _ask(bench, OperatorVerb.DRAIN, name="ann")
    before = _standing(bench)
    assert 2 == len(before)
    reply = _ask(bench, verb, is_from_root=False)
    assert (False, NAMELESS) == (reply.is_accepted, reply.text)
    assert before == _standing(bench)


def test_an_operator_ends_orders_of_a_name():
    """Those of others stand."""
    bench = ready("a1")
    for name in ("ann", "kube"):
        assert _ask(bench, OperatorVerb.DRAIN, name=name, is_from_root=False).is_accepted
    assert "ended: drain by kube" == _ask(bench, OperatorVerb.UNDRAIN, name="kube", is_from_root=False).text
    assert [("drain", "ann", "")] == _standing(bench)


@pytest.mark.parametrize("verb", [OperatorVerb.PIN, OperatorVerb.DRAIN])
def test_an_operators_order_stands_for_a_day_at_most(verb):
    """Root's may stand for longer."""
    too_long = {"name": "kube", "duration_ns": LONGEST_OPERATOR_NS + 1}
    reply = _ask(ready("a1"), verb, **too_long, is_from_root=False)
    assert (False, TOO_LONG_FOR_OPERATOR) == (reply.is_accepted, reply.text)
    assert _ask(ready("a1"), verb, **too_long).is_accepted
    assert _ask(ready("a1"), verb, name="kube", duration_ns=LONGEST_OPERATOR_NS, is_from_root=False).is_accepted


@pytest.mark.parametrize("verb", [OperatorVerb.PIN, OperatorVerb.DRAIN])
def test_operators_leave_room_for_root(verb):
    """A pin for which there is no room moves nothing either."""
    bench = ready("a1")
    for number in range(MAX_ORDERS - RESERVED_ORDERS):
        assert _ask(bench, OperatorVerb.DRAIN, name=str(number), is_from_root=False).is_accepted
    reply = _ask(bench, verb, name="one more", is_from_root=False)
    assert (False, "there are too many orders; end some") == (reply.is_accepted, reply.text)
    assert [] == bench.spoken(CoordinationKind.PROPOSE)
    assert _ask(bench, verb, name="one more").is_accepted
