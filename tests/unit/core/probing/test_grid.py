"""What leaves together where many sessions are probed: enough to share a wake-up, never so much that it is late."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from meshwatchd.core.probing.grid import GRID_PROBES
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.settings import MS, SECOND, ProbeSettings, Settings

START = 10 * SECOND
INTERVAL_NS = 50 * MS
STEP_NS = INTERVAL_NS // 4
"""Four sessions to a leg."""


class _Steady(Schedule):
    """One interval for all, so that the number of sessions is all that matters."""

    interval_ns = 0

    def rates(self):
        """Whatever the budgets say."""
        return [rate._replace(interval_ns=self.interval_ns, stretch=1.0) for rate in super().rates()]


def _departures(count, interval_ns, duration_ns=SECOND):
    """When each of so many sessions, four to a leg, is probed once all have begun."""
    settings = Settings(probe=ProbeSettings(packets_per_second=1_000_000))
    schedule = _Steady(settings, random.Random(3), "a1")
    schedule.interval_ns = interval_ns
    plans = [_plan(number) for number in range(count)]
    schedule.use_paths({plan.path for plan in plans}, START)
    schedule.start(plans, START)
    instants: dict[int, list[int]] = {plan.session: [] for plan in plans}
    sessions = {session.plan.session: session for session in schedule.sessions}
    while (now := schedule.deadline()) is not None and now <= START + 2 * interval_ns + duration_ns:
        for probe in schedule.advance(now, lambda *_: None):
            sessions[probe.session].answered(probe.seq, MS, now)
            if now > START + 2 * interval_ns:
                instants[probe.session].append(now)
    return instants


def _plan(number):
    leg = number // 4
    return SessionPlan(
        session=SessionId(number),
        peer=NodeName(f"b{leg}"),
        layer=Layer.RELAY,
        path=leg,
        flow=FlowClass.PINNED,
        source="10.0.0.1",
        destination=f"10.1.{number // 250}.{number % 250 + 1}",
        port=18620,
    )


@pytest.mark.parametrize(
    ("count", "interval_ms", "least", "most"),
    [(20, 50, 1, 4), (60, 50, 8, 16), (200, 50, 45, 60), (4000, 100, 120, 200)],
    ids=["few", "sixty", "two hundred", "four thousand"],
)
def test_a_wake_up_serves_enough_probes_and_not_too_many(count, interval_ms, least, most):
    """Few sessions keep the fine grid; many share wake-ups, but the last probe of one waits for no hundreds."""
    together = Counter(at for times in _departures(count, interval_ms * MS).values() for at in times)
    mean = sum(together.values()) / len(together)

    assert least <= mean <= most
    assert max(together.values()) <= 2 * GRID_PROBES


@pytest.mark.parametrize("count", [20, 200, 1000])
def test_no_probe_leaves_more_than_a_quarter_of_its_interval_early(count):
    """RFC 5880 section 6.8.7 allows jitter of a quarter; and what is early is not late for it the next time."""
    interval_ns = 50 * MS
    for times in _departures(count, interval_ns).values():
        begin = times[0]
        early = [begin + turn * interval_ns - at for turn, at in enumerate(times)]

        assert max(early) - min(early) <= interval_ns // 4


@pytest.mark.parametrize("count", [20, 60, 100, 200])
def test_sessions_of_a_leg_stay_phased_apart(count):
    """The grid must not push the probes of one leg together: it is watched as often as all of them."""
    by_leg: dict[int, set[int]] = {}
    for session, times in _departures(count, INTERVAL_NS).items():
        by_leg.setdefault(session // 4, set()).update(times)

    for instants in by_leg.values():
        ordered = sorted(instants)
        gaps = [after - before for before, after in itertools.pairwise(ordered)]
        assert max(gaps) <= STEP_NS + INTERVAL_NS // 10 + INTERVAL_NS // 8
        assert len(ordered) >= 70, "80 probes a second, and hardly two of them at one instant"


def test_wake_ups_of_a_coarse_grid_do_not_keep_step():
    """Else all nodes that once fell into step would stay in it."""
    instants = sorted({at for times in _departures(200, INTERVAL_NS).values() for at in times})
    gaps = {after - before for before, after in itertools.pairwise(instants)}

    assert max(gaps) - min(gaps) > 2 * MS
    assert min(gaps) >= 7 * MS
    assert max(gaps) <= 18 * MS
