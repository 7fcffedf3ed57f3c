"""Limits of bytes at rest: what gives first, who comes to the same pace, and what is left of detection."""

from __future__ import annotations

from collections import Counter

import pytest

from meshwatchd.core.probing.intervals import MOST_STRETCH, Kind, Rates, RestStretch
from meshwatchd.core.probing.rest_limits import (
    Shape,
    _most_hellos_s,
    describe_rest,
    least_lan_kbit,
    least_wan_kbit,
    rest_stretch,
    shape_of,
)
from meshwatchd.model.ids import FlowClass, Layer, LocationName
from meshwatchd.model.settings import MS, SECOND, ProbeProfile, ProbeSettings
from tests.support.lab_mesh import NAMES, topology_of

FRESH, KNOWN = FlowClass.FRESH, FlowClass.PINNED
SCOUT = Kind(Layer.RELAY, 0, FRESH, share=6, rest_share=4, crowd=6, scouts=8)
IN_TURN = Kind(Layer.RELAY, 0, FRESH, share=6, crowd=6)
STANDBY = Kind(Layer.RELAY, 1, KNOWN, crowd=6)
TUNNEL = Kind(Layer.WIREGUARD, 0, FRESH, crowd=6)
EXPLAINS = Kind(Layer.EFFECTIVE, 0, FRESH, share=6, crowd=6)
PODS = Kind(Layer.POD_NETWORK, 9, KNOWN, crowd=6, is_advisory=True)
NEIGHBOUR = Kind(Layer.OVERLAY, 9, FRESH, share=2)
ITSELF = Kind(Layer.SELF, 9, FRESH)
KINDS = (SCOUT, IN_TURN, STANDBY, TUNNEL, EXPLAINS, PODS, NEIGHBOUR, ITSELF)


def _slower(rest, awake=()):
    """By how much each kind is slower than without a limit."""
    before, after = Rates(ProbeSettings()), Rates(ProbeSettings())
    after.rest = rest
    used, demand = frozenset({0}), [(kind, 2) for kind in KINDS]
    paces = [rates.plan(demand, used, awake) for rates in (before, after)]
    return [round(b.interval_ns / a.interval_ns, 3) for a, b in zip(*paces, strict=True)]


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_without_a_limit_nothing_is_slower(profile):
    """Nor with one that is high enough."""
    assert RestStretch() == rest_stretch(ProbeSettings(profile=profile))
    assert RestStretch() == rest_stretch(ProbeSettings(profile=profile, wan_kbit=1_000, lan_kbit=1_000))


def test_what_matters_least_gives_first():
    """What explains a fault, then standbys, then nodes in turn; scouts last."""
    mild, low, least = (
        rest_stretch(ProbeSettings(wan_kbit=limit)) for limit in (110, 80, least_wan_kbit(ProbeSettings()))
    )

    assert (1.0, 1.0, 1.0) == mild[:3]
    assert 1 < mild.explains < MOST_STRETCH
    assert (1.0, 1.0) == low[:2]
    assert 1 < low.standbys < low.explains == MOST_STRETCH
    assert 1 < least.scouts <= least.turns <= MOST_STRETCH


def test_each_kind_of_session_is_slower_by_its_own_part():
    """And this node hears itself as before."""
    assert [2, 3, 4, 4, 5, 5, 6, 1] == _slower(RestStretch(2, 3, 4, 5, 6))


def test_what_is_awake_is_never_slower():
    """Pods are asked at the same pace whatever is suspected."""
    assert [1, 1, 1, 1, 1, 5, 1, 1] == _slower(RestStretch(2, 3, 4, 5, 6), awake=range(10))


def test_all_nodes_of_a_mesh_come_to_the_same_pace():
    """From the configuration and what all know."""
    probe = ProbeSettings(wan_kbit=40)

    assert 1 == len({rest_stretch(probe, shape_of(topology_of(name))) for name in NAMES})


def test_a_limit_says_which_detection_it_buys():
    """Thirty kilobits a second: scouts ask half as often, and a standby is known to work for twenty seconds."""
    free, limited = describe_rest(ProbeSettings()), describe_rest(ProbeSettings(wan_kbit=30))

    assert (50 * MS, 2 * SECOND, SECOND, 4 * SECOND) == (
        free.scouts_ns,
        free.standby_ns,
        free.full_size_ns,
        free.neighbour_ns,
    )
    assert 100 < free.wan_kbit < 125
    assert 29 <= limited.wan_kbit <= 30
    assert 50 * MS < limited.scouts_ns < 200 * MS
    assert 20 * SECOND == limited.standby_ns


def test_neighbours_are_asked_less_often_for_a_limit_of_the_lan():
    """In a location of sixty-five; nothing else is slower."""
    shape, probe = Shape(neighbours=64), ProbeSettings(lan_kbit=60)
    free, limited = describe_rest(ProbeSettings(), shape), describe_rest(probe, shape)

    assert 200 < free.lan_kbit
    assert 60 == limited.lan_kbit
    assert limited.neighbour_ns > 3 * free.neighbour_ns
    assert (1.0, 1.0, 1.0, 1.0) == rest_stretch(probe, shape)[:4]


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_the_least_limit_leaves_scouts_a_tenth(profile):
    """Two seconds between their probes where the line is slow, half a second by default."""
    probe = ProbeSettings(profile=profile)
    least = least_wan_kbit(probe)

    assert rest_stretch(ProbeSettings(profile=profile, wan_kbit=least), Shape(is_large=True)).scouts <= MOST_STRETCH
    assert rest_stretch(ProbeSettings(profile=profile, wan_kbit=least - 1), Shape(is_large=True)).scouts > MOST_STRETCH
    assert 1 <= least_lan_kbit(probe) <= 3


def test_ipv6_and_many_locations_are_counted():
    """Scouts ask by both families, and packets name more paths."""
    plain, six, large = (
        describe_rest(ProbeSettings(), shape).wan_kbit for shape in (Shape(), Shape(families=2), Shape(is_large=True))
    )

    assert 1.3 * plain < six < 1.6 * plain
    assert plain < large < 1.2 * plain


def test_hellos_are_counted_and_keep_their_pace():
    """Probes have what they leave of a limit, half of it at least, and the status says what is sent."""
    shapes = [Shape(), Shape(hellos_s=3.34, greeted=99)]
    free = [describe_rest(ProbeSettings(), shape) for shape in shapes]
    limited, low = (describe_rest(ProbeSettings(wan_kbit=limit, lan_kbit=limit), shapes[1]) for limit in (80, 6))

    assert 3 < free[1].wan_kbit - free[0].wan_kbit < 4.5
    assert 4 < free[1].lan_kbit - free[0].lan_kbit < 6
    assert 79 < limited.wan_kbit <= 80
    assert 6 < low.wan_kbit < 9
    assert low.scouts_ns < 2 * describe_rest(ProbeSettings(wan_kbit=6), shapes[0]).scouts_ns


def test_the_most_hellos_of_any_two_locations_count():
    """All nodes of the mesh reckon with the same, wherever they are."""
    assert {0.3} == {round(shape_of(topology_of(name)).hellos_s, 3) for name in NAMES}
    assert {2} == {shape_of(topology_of(name)).greeted for name in NAMES}
    for sizes, most in (({"a": 10, "b": 10, "c": 2}, 3.33), ({"a": 10, "b": 2}, 0.67), ({"a": 10}, 0.0)):
        assert most == round(_most_hellos_s(Counter({LocationName(name): size for name, size in sizes.items()})), 2)
