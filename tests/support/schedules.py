"""A node's schedule in the lab's mesh, and the time it lets pass."""

from __future__ import annotations

import random
from typing import Any

from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.probing.session_kinds import kinds_of
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.session.session import Session
from meshwatchd.model.settings import MS, SECOND, Settings
from tests.support.lab_mesh import planner_of

START = 10 * SECOND


def schedule_of(name: str = "a3", *, seed: int = 3, start: int = START) -> Any:
    """All sessions of a node, standby paths included, with traffic on the mesh's own path.

    Tests ask it for what they know to be there, so it is `Any`: a `Schedule` may have no deadline and not the session.
    """
    schedule, planner = Schedule(Settings(), random.Random(seed), name), planner_of(name)
    schedule.use_paths([0], start)
    plans = lay_out(planner, has_standby=True)
    schedule.start(plans, start, kinds_of(planner, plans))
    return schedule


def instants_of(
    schedule: Any, duration_ns: int, *, answered: bool = True
) -> tuple[dict[int, list[int]], list[Session]]:
    """When each session is probed, from deadline to deadline until so long after START, and what was missed."""
    instants: dict[int, list[int]] = {}
    missed: list[Session] = []
    end = START + duration_ns
    while (now := schedule.deadline()) is not None and now <= end:
        for probe in schedule.advance(now, lambda session, _before: missed.append(session)):
            instants.setdefault(probe.session, []).append(now)
            if answered:
                schedule.session(probe.session).answered(probe.seq, 5 * MS, now)
    return instants, missed
