"""What speaks against a leg, and who is asked then."""

from __future__ import annotations

from meshwatchd.core.failover.leg_watch import LegWatch, tally
from meshwatchd.core.session.session import Outcome
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import MS, SECOND
from tests.support.leg_bench import BY_A1, BY_A2, LegBench, ready, without_leg


def _watch(bench):
    watch = LegWatch(bench.parts)
    watch.select(bench.planner)
    return watch


def _sent(bench):
    return {session.plan.session: session.sent for session in bench.schedule.sessions}


def test_the_leg_is_judged_by_what_it_carries_to_other_leaders():
    """And each way around by the same nodes; what lies beyond them is no matter of the leg."""
    watch = _watch(ready())
    assert {("b1", 0, Layer.RELAY)} == {(s.plan.peer, s.plan.path, s.plan.layer) for s in watch.leg.sessions}
    assert {FlowClass.PINNED} == {s.plan.flow for s in watch.leg.controls}
    assert [[BY_A1], [BY_A2]] == [
        [s.plan.path for s in watch.group(each).sessions] for each in LegBench().planner.topology.detours
    ]
    assert {("b1", Layer.EFFECTIVE)} == {(s.plan.peer, s.plan.layer) for s in watch.effective}


def test_one_miss_on_the_overlay_to_the_gateway_raises_doubt_for_a_moment():
    """Misses of other sessions are others' business."""
    bench = ready()
    watch = _watch(bench)
    (own,) = bench.schedule.select(layer=Layer.OVERLAY, peer="a1", flow=FlowClass.FRESH)
    (other, *_) = bench.schedule.select(layer=Layer.UNDERLAY, peer="a2")

    assert not watch.observe(other, Outcome.MISS, bench.now)
    assert not watch.is_in_doubt(bench.now)
    assert watch.observe(own, Outcome.MISS, bench.now)
    assert watch.is_in_doubt(bench.now + 50 * MS)
    assert not watch.is_in_doubt(bench.now + 100 * MS)


def test_doubt_asks_over_the_leg_and_over_what_goes_around_it():
    """One burst in 25 ms, a small one after one miss; and not for ever."""
    bench = ready()
    watch, before = _watch(bench), _sent(bench)
    watch.press(bench.now)
    watch.press(bench.now + MS)
    bench.run(20 * MS)
    asked = {index: sent - before[index] for index, sent in _sent(bench).items()}
    by_path = {
        path: sum(asked[s.plan.session] for s in bench.schedule.select(layer=Layer.RELAY, path=path))
        for path in (BY_A1, BY_A2)
    }
    leg = sum(asked[session.plan.session] for session in watch.leg.sessions)

    assert {BY_A1: 2, BY_A2: 2} == by_path
    assert 4 <= leg <= 6
    for _ in range(400):
        watch.press(bench.now)
        bench.run(25 * MS)
    spent = sum(session.sent for session in watch.leg.sessions)
    watch.press(bench.now)
    bench.run(20 * MS)
    assert sum(session.sent for session in watch.leg.sessions) - spent <= 1


def test_what_is_asked_in_a_last_burst_is_counted_from_there():
    """Hits and misses of what left since."""
    bench = ready()
    watch, at = _watch(bench), bench.now
    assert watch.ask_all(watch.leg.sessions, at, rounds=16)
    bench.run(100 * MS)
    hits, misses = tally(watch.leg.sessions, at)
    assert hits >= 16
    assert misses == 0
    assert not watch.ask_all((), at, rounds=16)


def test_a_leg_that_was_never_up_is_doubted_by_what_goes_around_it():
    """This daemon was started in the middle of the fault: to it nothing has ever answered over the leg."""
    bench = LegBench()
    bench.answers = without_leg(bench)
    bench.run(40 * SECOND)

    assert [True] == [rule.table in (7780, 7781) for rule in bench.rules]
