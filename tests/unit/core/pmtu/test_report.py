"""The lines of `meshwatchctl mtu`, by state and direction."""

from __future__ import annotations

import pytest

from meshwatchd.core.pmtu.expected_mtu import Misfit
from meshwatchd.core.pmtu.pmtu import SizeWatch
from meshwatchd.core.pmtu.report import build_sizes
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.model.ids import Layer
from meshwatchd.model.mtu import SizeState
from meshwatchd.model.settings import SECOND
from tests.support.lab_mesh import planner_of, settings_for, snapshot_of

NOW = 100 * SECOND


@pytest.fixture
def watch():
    """Everything measured, all well."""
    planner = planner_of("b3")
    made = SizeWatch(settings_for("b3"))
    list(made.start(planner, lay_out(planner, has_standby=True), snapshot_of("b3"), NOW))
    for session in made.sessions:
        session.state = SizeState.COMPLETE
        session.both_bytes = session.outbound_bytes = session.goal_bytes
    return made


def _lines(watch, layer=Layer.OVERLAY, peer="b1"):
    lines = build_sizes(watch, planner_of("b3").topology, NOW)
    return [
        (line.direction, line.expected_bytes, line.measured_bytes, line.state)
        for line in lines
        if (line.layer, line.peer) == (layer, peer)
    ]


def _overlay(watch):
    return next(s for s in watch.sessions if (s.plan.layer, s.plan.peer) == (Layer.OVERLAY, "b1"))


def test_a_healthy_path_is_one_line(watch):
    """Both directions together; what follows real traffic is no path of its own."""
    assert [("both", 1450, 1450, "ok")] == _lines(watch)
    assert [("both", 1500, 1500, "ok"), ("fragments", 1800, 1800, "ok")] == _lines(watch, Layer.UNDERLAY)
    assert Layer.EFFECTIVE not in {line.layer for line in build_sizes(watch, planner_of("b3").topology, NOW)}


def test_a_black_hole_has_a_line_for_each_direction(watch):
    """Lost answers only: what is sent arrives at any size."""
    session = _overlay(watch)
    session.is_blocked, session.both_bytes = True, 1350

    assert [("outbound", 1450, 1450, "ok"), ("inbound", 1450, 1350, "black-hole")] == _lines(watch)


def test_while_it_is_searched_no_number_is_told(watch):
    """It would be a guess."""
    session = _overlay(watch)
    session.is_blocked, session.state = True, SizeState.SEARCHING

    assert [("both", 1450, 0, "searching")] == _lines(watch)


def test_other_states_have_their_words(watch):
    """Too large a device, a kernel that was told lies, a path that is down."""
    session, stack = _overlay(watch), watch.stack
    watch.stack = type(stack)(misfits=(Misfit(Layer.OVERLAY, "flannel.1", 1500, 1450),))
    assert ["misconfigured"] == [line[-1] for line in _lines(watch)]
    watch.stack = stack
    session.learned_mtu_bytes = 1000
    assert ["poisoned"] == [line[-1] for line in _lines(watch)]
    session.state = SizeState.ERROR
    assert ["unreachable"] == [line[-1] for line in _lines(watch)]


def test_dropped_fragments_have_a_line_of_their_own(watch):
    """Whole packets pass."""
    session = next(s for s in watch.sessions if s.plan.may_fragment and s.plan.peer == "b1")
    session.is_blocked, session.both_bytes = True, 300

    assert [("both", 1500, 1500, "ok"), ("fragments", 1800, 300, "fragments-dropped")] == _lines(watch, Layer.UNDERLAY)


def test_without_a_topology_there_is_no_table(watch):
    """Nothing is measured."""
    assert () == build_sizes(watch, None, NOW)
