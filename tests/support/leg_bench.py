"""One worker's leg and the ways around it, with whatever answers there are: no other nodes, no engine."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from meshwatchd.core.diagnosis.peer_views import PeerViews
from meshwatchd.core.failover.leg_detour import LegDetour
from meshwatchd.core.failover.leg_watch import LegParts
from meshwatchd.core.failover.operator_holds import Orders
from meshwatchd.core.failover.topology_change_hold import Unrest
from meshwatchd.core.probing.detour_plan import kinds_of, lay_out
from meshwatchd.core.probing.packet_budget import Allowance
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.routes.planner import Planner
from meshwatchd.core.session.session import Outcome
from meshwatchd.model.detour import is_detour
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import ApplySwitch, Output, SessionPlan
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import MS, SECOND, Settings
from meshwatchd.model.topology import Topology
from tests.sim.star import detouring, star_mesh, star_topology
from tests.support.lab_mesh import settings_for

START = 1000 * SECOND
PRIMARY, BY_A1, BY_A2 = 0, 480, 481

Answers = Callable[[SessionPlan], bool]


def star_planner(name: str, topology: Topology | None = None) -> Planner:
    """The planner of a node of the lab's topology `submariner`."""
    settings = detouring(msgspec.structs.replace(settings_for(name), mesh=star_mesh()))
    return Planner(topology or star_topology(name), settings)


class LegBench:
    """A worker, its sessions, and a clock.

    Attributes:
        answers: whether a probe of a session is answered, 3 ms after it left.
        is_obeying: whether the kernel does what it is asked for.
        rules: that it holds.
        looks: how often the leg was looked at.
        said: what came out, but for what the kernel was asked for.
    """

    def __init__(self, name: str = "a3", *, settings: Settings | None = None, planner: Planner | None = None) -> None:
        self.planner = planner or star_planner(name)
        used = settings or self.planner.settings
        self.now = START
        self.answers: Answers = lambda _plan: True
        self.is_obeying = True
        self.looks = 0
        self.rules: set[Rule] = set()
        self.said: list[Any] = []
        self.schedule = Schedule(used, random.Random(3), name)
        self.parts = LegParts(
            settings=used,
            schedule=self.schedule,
            allowance=Allowance(used.probe.packets_per_second),
            orders=Orders(),
            views=PeerViews(),
            unrest=Unrest(),
            rng=random.Random(5),
        )
        self.leg = LegDetour(self.parts)
        self.use(self.planner)

    def use(self, planner: Planner, *, is_enforcing: bool = True) -> None:
        """Go on in another mesh."""
        self.planner = planner
        plans = lay_out(planner, has_standby=False, has_detours=True)
        known = {session.plan.session for session in self.schedule.sessions}
        self.schedule.use_paths([0], self.now)
        self.schedule.start(plans, self.now, kinds_of(planner, plans), known)
        self._take(self.leg.change(planner, self.now, is_enforcing=is_enforcing))

    def asked_around(self) -> int:
        """How many probes have left by detours."""
        return sum(session.sent for session in self.schedule.sessions if is_detour(session.plan.path))

    def run(self, duration_ns: int) -> None:
        """From deadline to deadline."""
        end = self.now + duration_ns
        late: list[tuple[int, int, int]] = []
        while True:
            dues = [each for each in (self.schedule.deadline(), self.leg.deadline()) if each is not None]
            at = max(self.now, min([*dues, *(due for due, _, _ in late)]))
            if at > end:
                break
            self.now = at
            for _, session, seq in sorted(entry for entry in late if entry[0] <= at):
                self._answer(session, seq)
            late = [entry for entry in late if entry[0] > at]
            missed: list[Any] = []
            for probe in self.schedule.advance(at, partial(_note, missed)):
                plan = self.schedule.session(probe.session).plan  # type: ignore[union-attr]  # it has just been asked
                if self.answers(plan):
                    late.append((at + 3 * MS, probe.session, probe.seq))
            for session in missed:
                self.leg.observe(session, Outcome.MISS, at)
            self._review()
        self.now = end

    def _answer(self, index: int, seq: int) -> None:
        session: Any = self.schedule.session(index)  # type: ignore[arg-type]  # as it came
        if session is not None and session.answered(seq, 3 * MS, self.now) is Outcome.HIT:
            self.schedule.answered(session)
            self.leg.observe(session, Outcome.HIT, self.now)
            self._review()

    def _review(self) -> None:
        due = self.leg.deadline()
        if due is not None and due <= self.now:
            self.looks += 1
            self._take(self.leg.review(self.now))
        self.schedule.use_paths([PRIMARY, *self.leg.numbers()], self.now)

    def _take(self, outputs: Any) -> None:
        for output in list[Output](outputs):
            if not isinstance(output, ApplySwitch):
                self.said.append(output)
            elif self.is_obeying:
                self.rules |= set(output.switch.add)
                self.rules -= set(output.switch.delete)
                self._take(self.leg.switched(self.now))
            else:
                self._take(self.leg.refused("EPERM", self.now))


def without_leg(bench: LegBench) -> Answers:
    """Nothing is answered over the leg, neither to other locations nor to the gateway's own address there."""

    def answers(plan: SessionPlan) -> bool:
        if plan.layer is Layer.EFFECTIVE:
            return bool(bench.rules)
        return plan.path in (BY_A1, BY_A2)

    return answers


def ready() -> LegBench:
    """A worker that has known all to be well for a while."""
    bench = LegBench()
    bench.run(20 * SECOND)
    assert [] == bench.said
    return bench


def _note(missed: list[Any], session: Any, _before: object) -> None:
    missed.append(session)
