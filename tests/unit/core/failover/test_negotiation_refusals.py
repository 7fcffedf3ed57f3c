"""What a refusal costs: a path that another one was preferred to is asked for again, and not for ever."""

from __future__ import annotations

from meshwatchd.core.failover.negotiation import BETTER_WITHIN_NS
from meshwatchd.core.failover.state_machine import BACK_OFF_NS, PATIENCE_NS
from meshwatchd.model.events import CoordinationKind, Reason
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MINUTE, MS
from tests.support.bench import message, primary_is_silent, ready

PROPOSE, GRANT, REFUSE, NOTICE = CoordinationKind


def _asking():
    """b2, whose primary path died and which asks a1 for path 1."""
    bench = ready("b2")
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    bench.run(200 * MS)
    return bench


def _refuse(bench, reason):
    """The answer to the latest proposal; whether its path is banned from then on."""
    nonce = bench.spoken(PROPOSE)[-1].nonce
    bench.hear("a1", message(REFUSE, rank=1, target="b2", nonce=nonce, reason=reason))
    return 1 in bench.controller.switchover.banned_until


def test_a_path_that_a_better_one_is_known_to_is_asked_for_again():
    """The relays of the better one may refuse that: what is asked for may be all that is left."""
    bench = _asking()
    assert not _refuse(bench, Reason.BETTER_PATH)
    since = bench.now
    bench.run(BACK_OFF_NS - 10 * MS)
    assert [] == bench.spoken(PROPOSE, since=since)
    bench.run(150 * MS)

    assert {("a1", 1)} == {(asked.target, asked.rank) for asked in bench.spoken(PROPOSE, since=since)}


def test_any_other_refusal_bans_the_path():
    """The next one gets its chance."""
    assert _refuse(_asking(), Reason.PAUSED)


def test_a_relay_that_goes_on_knowing_a_better_path_is_not_asked_for_ever():
    """By then its own relays would have taken that; another relay may agree on the next one."""
    bench = _asking()
    asked = 0
    while not _refuse(bench, Reason.BETTER_PATH):
        asked += 1
        since = bench.now
        bench.run(BACK_OFF_NS + 150 * MS)
        assert bench.spoken(PROPOSE, since=since), asked

    assert BETTER_WITHIN_NS // BACK_OFF_NS == asked


def test_a_better_path_that_nobody_takes_is_no_reason_for_long():
    """a2 asks for path 3 while path 1 is good: refused, and granted once a proposal for path 1 would have run out."""
    bench = _asking()
    bench.hear("a2", message(PROPOSE, rank=3, target="b2"))
    assert [Reason.BETTER_PATH] == [answer.reason for answer in bench.spoken(REFUSE)]
    bench.run(PATIENCE_NS)
    since = bench.now
    bench.hear("a2", message(PROPOSE, rank=3, target="b2", nonce=9))
    bench.run(10 * MS)

    assert [Reason.BROKEN] == [answer.reason for answer in bench.spoken(GRANT, since=since)]


def test_a_pinned_spare_link_is_not_left_for_the_primary_path():
    """Both have the leaders as relays; b1 holds the pin, and a1 would go home."""
    bench = ready("b1")
    context = bench.controller.context
    spare = context.watch.paths[4]
    context.mover.active = spare
    context.orders.give(
        Order(kind=OrderKind.PIN, name="ann", until_ns=bench.now + MINUTE, rank=spare.rank, relays=spare.relays)
    )
    bench.hear("a1", message(PROPOSE, rank=0, target="b1", reason=Reason.RESTORED))

    assert [Reason.PINNED] == [answer.reason for answer in bench.spoken(REFUSE)]
