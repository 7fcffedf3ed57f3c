"""What a pair of locations costs the WAN while nothing is wrong does not grow with their nodes."""

from __future__ import annotations

import pytest

from meshwatchd.core.probing.rest_limits import describe_rest, shape_of
from meshwatchd.model.settings import ProbeProfile, ProbeSettings
from tests.sim.curve import TUNNEL_BYTES, hello_flows, kbit_s, packets_s, planners, wan_flows
from tests.sim.random_mesh import Shape

AIMS = {ProbeProfile.DEFAULT: 100, ProbeProfile.WAN: 20}
"""Kilobits a second each way at the devices of the tunnels, three nodes or a hundred a side."""


def _flows(size, profile=ProbeProfile.DEFAULT, *, locations=2):
    return wan_flows([Shape(1, size - 2)] * locations, ProbeSettings(profile=profile))


@pytest.mark.parametrize("profile", list(AIMS))
def test_a_hundred_nodes_cost_the_wan_what_ten_do(profile):
    """With three some of the turns are not taken, since scouts are excused from them; hellos are counted."""
    few, some, many = (_flows(size, profile) for size in (3, 10, 100))

    assert packets_s(few) <= packets_s(some) <= packets_s(many) <= 1.05 * packets_s(some)
    assert kbit_s(many) <= 1.1 * kbit_s(few)
    for size, flows in ((3, few), (10, some), (100, many)):
        assert kbit_s(flows) + kbit_s(hello_flows((size, size))) <= AIMS[profile]


def test_large_locations_do_not_flood_the_wan_while_anything_is_in_doubt():
    """With all nodes at full pace a hundred and a hundred sent 200 times what three and three do."""
    few, some, many, most = (
        packets_s(wan_flows([Shape(1, size - 2)] * 2, ProbeSettings(), is_awake=True)) for size in (3, 30, 100, 300)
    )

    assert few < some <= 8 * few
    assert most <= 1.05 * many <= 1.05 * 9 * few


def test_hellos_cost_the_wan_no_more_than_those_of_ten_and_ten():
    """Each node would greet each of the other location: 330 a second with a hundred nodes a side."""
    few, some = (kbit_s(hello_flows((size, size))) for size in (3, 10))
    many = [kbit_s(hello_flows((size,) * locations)) for size, locations in ((100, 2), (1000, 2), (20, 50))]

    assert few < some < 3.5
    assert max(many) <= 1.1 * some


def test_a_path_in_use_is_watched_as_closely_in_large_locations():
    """Scouts know each other, and the two that look at full size do: of a hundred nodes each asks but a few."""
    few, many = ({flow.name: flow.packets for flow in _flows(size)} for size in (3, 100))

    assert [20.0, 20.0] == [round(each["path in use, scouts, fresh"], 3) for each in (few, many)]
    assert few["full size"] >= 1
    assert many["full size"] >= 1


def test_a_pair_of_fifty_locations_costs_no_more():
    """Each node asks five of another location; its packets name more paths."""
    assert kbit_s(_flows(20, locations=50)) + kbit_s(hello_flows((20,) * 50)) <= 100


@pytest.mark.parametrize(
    ("size", "locations", "profile"),
    [(3, 2, "default"), (10, 2, "default"), (100, 2, "fast"), (100, 2, "wan"), (20, 10, "default")],
)
def test_what_a_node_says_of_all_is_what_all_send(size, locations, profile):
    """None counts the others' sessions: what it reckons instead is no less than it is, and hardly more."""
    shapes, probe = [Shape(1, size - 2)] * locations, ProbeSettings(profile=ProbeProfile(profile))
    said = describe_rest(probe, shape_of(planners(shapes, probe)["a1"][0].topology)).wan_kbit
    sent = kbit_s([*wan_flows(shapes, probe), *hello_flows((size,) * locations)], around=TUNNEL_BYTES)

    assert sent <= said <= 1.25 * sent


@pytest.mark.parametrize(("size", "wan_kbit"), [(3, 80), (3, 30), (3, 14), (100, 60), (100, 14)])
def test_two_locations_keep_within_a_limit(size, wan_kbit):
    """Each node slows down by itself, and all of them alike: together they use the most of it."""
    flows = [*wan_flows([Shape(1, size - 2)] * 2, ProbeSettings(wan_kbit=wan_kbit)), *hello_flows((size, size))]
    sent = kbit_s(flows, around=TUNNEL_BYTES)

    assert 0.75 * wan_kbit <= sent <= wan_kbit
