"""How often sizes are looked at while all is well, by the nodes of the lab's mesh."""

from __future__ import annotations

import math

import msgspec
import pytest

from meshwatchd.core.pmtu.rest_intervals import NODE_NS, SEGMENT_NS, SELDOM, TURN_NS, RestIntervals
from meshwatchd.core.pmtu.session_plan import measured
from meshwatchd.core.probing.rest_limits import rest_stretch
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import Layer
from meshwatchd.model.settings import SECOND, ProbeSettings
from tests.support.lab_mesh import NAMES, settings_for, topology_of


def _rests(name, silent=(), probe=ProbeSettings()):  # noqa: B008 - frozen
    planner = Planner(topology_of(name), msgspec.structs.replace(settings_for(name), probe=probe))
    used = [path.number for path in planner.paths if path.is_primary]
    rests = RestIntervals(planner, used, silent)
    plans = measured(lay_out(planner, has_standby=True), planner)
    return {(plan.peer, plan.layer, plan.path in used, plan.may_fragment): rests.of(plan) for plan in plans}


def test_one_node_on_each_side_looks_at_the_path_in_use():
    """At the other: a look a second in all, since each waits where it hears the other's; neither relays anything."""
    fast = {(name, *key[:3]) for name in NAMES for key, rest_ns in _rests(name).items() if rest_ns == TURN_NS}

    assert {("a3", "b3", Layer.RELAY, True), ("b3", "a3", Layer.RELAY, True)} == fast


@pytest.mark.parametrize(("silent", "asked"), [(("a3",), "a2"), (("a2", "a3"), "a3")])
def test_who_answers_nothing_is_replaced(silent, asked):
    """By the next in line; where nobody answers the first is asked on."""
    rests = _rests("b3", silent)

    assert TURN_NS == rests[asked, Layer.RELAY, True, False]


def test_limits_of_bytes_are_kept_by_sizes_too():
    """What crosses the WAN as standbys do, neighbours as far as theirs goes."""
    probe = ProbeSettings(wan_kbit=30, lan_kbit=6)
    stretch = rest_stretch(probe)
    free, limited = _rests("a3"), _rests("a3", probe=probe)

    assert 10 == stretch.standbys
    assert 10 * TURN_NS == limited["b3", Layer.RELAY, True, False]
    assert 1 < stretch.segments
    near = "a2", Layer.UNDERLAY, False, False
    assert math.ceil(free[near] * stretch.segments) == limited[near]


def test_everything_else_is_seldom():
    """Segments stay in the location; over the WAN less than one look in five seconds, of all nodes together."""
    rests = _rests("b3")
    wan = sum(SECOND / rest_ns for name in NAMES for key, rest_ns in _rests(name).items() if key[0][0] != name[0])

    assert SEGMENT_NS == rests["b2", Layer.OVERLAY, False, False]
    assert 6 * NODE_NS == rests["a1", Layer.RELAY, True, False]
    assert 6 * NODE_NS * SELDOM == rests["a1", Layer.RELAY, False, False]
    assert wan < 2 * SECOND / TURN_NS + 0.6
