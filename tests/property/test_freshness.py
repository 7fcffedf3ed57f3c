"""No 5-tuple of a fresh probe comes twice within the flow memory, whatever happens to the node meanwhile."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as for_any
from hypothesis import strategies as st

from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.probing.session_kinds import kinds_of
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.model.events import Coordination, CoordinationKind
from meshwatchd.model.ids import FlowClass, NodeName
from meshwatchd.model.settings import MINUTE, MS, SECOND, ProbeProfile, ProbeSettings, Settings
from tests.support.lab_mesh import planner_of

START = 100_000 * SECOND
MESSAGE = Coordination(kind=CoordinationKind.PROPOSE, pair=0, rank=1, generation=1, nonce=1, target=NodeName("a1"))


class Node:
    """One node's schedule, and every fresh 5-tuple it used with the instant of its last use."""

    def __init__(self, name: str, probe: ProbeSettings, seed: int) -> None:
        self.now = START
        self.shortest_ns: int | None = None
        self.sent = 0
        self._name, self._settings, self._rng = name, Settings(probe=probe), random.Random(seed)
        self._last_use: dict[tuple[str, str, int, int], int] = {}
        self._planner = planner_of(name)
        self.restart()

    def restart(self) -> None:
        """A new process of the same node, a moment later."""
        self.now += 500 * MS
        self.schedule = Schedule(self._settings, random.Random(self._rng.getrandbits(32)), self._name)
        plans = lay_out(self._planner, has_standby=True)
        self.schedule.use_paths([0], self.now)
        self.schedule.start(plans, self.now, kinds_of(self._planner, plans))

    def doubt(self, rounds: int) -> None:
        """A confirm burst over everything, and a message that is repeated."""
        self.schedule.confirm(self.schedule.sessions, self.now, rounds=rounds)
        for session in self.schedule.sessions[:4]:
            self._note(self.schedule.probe(session, self.now, is_confirm=True, coordination=MESSAGE))

    def move(self, path: int) -> None:
        """Traffic takes another path."""
        self.schedule.use_paths([0, path], self.now)

    def live(self, duration_ns: int, *, loss: float, busy: float) -> None:
        """Probe for a while; some answers are lost, some ports are taken by others."""
        end = self.now + duration_ns
        while (due := self.schedule.deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            for probe in self.schedule.advance(self.now, lambda *_: None):
                session = self.schedule.sessions[probe.session]
                again = probe if self._rng.random() >= busy else self.schedule.retry(session, probe.seq, self.now)
                if again is not None:
                    self._note(again)
                    if self._rng.random() >= loss:
                        session.answered(again.seq, 5 * MS, self.now)
        self.now = end

    def _note(self, probe) -> None:
        plan = self.schedule.sessions[probe.session].plan
        if plan.flow is FlowClass.PINNED or plan.canary is not None:
            # TCP leaves from a port of the kernel's.
            return
        self.sent += 1
        flow = plan.source, plan.destination, plan.port, probe.source_port
        if flow in self._last_use:
            gap_ns = self.now - self._last_use[flow]
            self.shortest_ns = gap_ns if self.shortest_ns is None else min(gap_ns, self.shortest_ns)
        self._last_use[flow] = self.now


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_through_a_quarter_of_an_hour_and_more_no_flow_comes_twice(profile):
    """The defaults, half an hour: bursts each half minute, a tenth of the ports busy, a restart every seven minutes."""
    node = Node("a1", ProbeSettings(profile=profile), seed=1)
    for turn in range(56):
        node.live(30 * SECOND, loss=0.02, busy=0.1)
        node.doubt(rounds=8)
        if turn % 14 == 13:
            node.restart()

    assert node.sent > 14_000
    assert node.shortest_ns is not None, "the walk has gone round"
    assert node.shortest_ns >= 15 * MINUTE


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("live"), st.integers(1, 40)),
        st.tuples(st.just("doubt"), st.integers(1, 12)),
        st.tuples(st.just("move"), st.integers(1, 3)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    min_size=2,
    max_size=12,
)


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@for_any(
    steps=STEPS,
    profile=st.sampled_from(ProbeProfile),
    name=st.sampled_from(["a1", "a3", "b2"]),
    seed=st.integers(0, 99),
)
def test_whatever_happens_no_flow_comes_twice(steps, profile, name, seed):
    """A minute of memory and few ports, so that the walk goes round several times within a story."""
    probe = ProbeSettings(profile=profile, flow_memory=MINUTE, source_ports="20000-23999")
    node = Node(name, probe, seed)
    for step, size in [*steps, *steps]:
        if step == "live":
            node.live(size * SECOND, loss=0.1, busy=0.05)
        elif step == "doubt":
            node.doubt(size)
        elif step == "move":
            node.move(size)
        else:
            node.live(52 * SECOND, loss=0.0, busy=0.0)
            node.restart()
    node.live(70 * SECOND, loss=0.0, busy=0.0)

    assert node.shortest_ns is None or node.shortest_ns >= 60 * SECOND
