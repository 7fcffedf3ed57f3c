"""The confirm burst: when, how much, and how seldom."""

from __future__ import annotations

from meshwatchd.core.suspicion import BURST_PAUSE_NS, HARD_ROUNDS, LIGHT_ROUNDS
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.outputs import SendProbe, SessionSuspected, SuspicionCleared
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import primary_is_silent, ready


def _confirms(bench, since):
    return [bench.plans[probe.session] for probe in bench.said(SendProbe, since=since) if probe.is_confirm]


def test_the_first_miss_starts_one_burst():
    """Hard on the path in use, lightly on all that could explain or replace it; told once."""
    bench = ready("a3")
    since = bench.now
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    bench.run(70 * MS)
    plans = _confirms(bench, since)
    hard = [p for p in plans if p.layer is Layer.RELAY and p.path == 0 and p.flow is FlowClass.FRESH and p.peer != "b1"]

    assert 2 * HARD_ROUNDS == len(hard)
    assert 1 == len(bench.said(SessionSuspected, since=since))
    for path, peer in ((1, "b3"), (2, "b2"), (2, "b3"), (3, "b3")):
        assert LIGHT_ROUNDS == sum(1 for p in plans if (p.layer, p.path, p.peer) == (Layer.RELAY, path, peer))


def test_a_lone_miss_is_cleared():
    """The burst finds nothing, and says so."""
    bench = ready("a3")
    since = bench.now
    watched = [s.plan for s in bench.conductor.watch.group(bench.conductor.watch.primary).sessions]
    victim = iter(watched[:1])
    bench.silent = lambda plan: plan in watched and next(victim, None) is not None
    bench.run(SECOND)

    assert 1 == len(bench.said(SessionSuspected, since=since))
    assert [0] == [fact.path for fact in bench.said(SuspicionCleared, since=since)]


def test_bursts_keep_their_distance():
    """With everyday loss on everything, two bursts never come closer than the pause."""
    bench = ready("a3")
    since = bench.now
    count = iter(range(10**9))
    bench.silent = lambda _plan: next(count) % 12 == 0
    bench.run(5 * SECOND)
    starts: list[int] = []
    for at, output in bench.outputs:
        if (
            at >= since
            and isinstance(output, SendProbe)
            and output.is_confirm
            and (not starts or at - starts[-1] > 60 * MS)
        ):
            starts.append(at)

    assert len(starts) > 2
    assert 5 * SECOND // len(starts) >= BURST_PAUSE_NS // 2


def test_a_leader_looks_at_its_members_when_their_overlay_is_suspect():
    """Its own path may be fine; the others need its word soon."""
    bench = ready("a1")
    since = bench.now
    bench.silent = lambda plan: plan.layer is Layer.OVERLAY
    bench.run(400 * MS)
    asked = {(plan.layer, plan.peer) for plan in _confirms(bench, since)}

    assert {(Layer.OVERLAY, "a2"), (Layer.OVERLAY, "a3"), (Layer.UNDERLAY, "a2")} <= asked
    assert [] == bench.said(SessionSuspected, since=since)
