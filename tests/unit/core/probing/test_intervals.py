"""How often: the profile's pace, and what ports, outer flows and packets leave of it."""

from __future__ import annotations

import math

import pytest

from meshwatchd.core.probing.intervals import (
    EFFECTIVE_PART,
    MOST_STRETCH,
    OUTER_PORTS,
    POD_NETWORK_NS,
    POD_NETWORK_TCP_NS,
    POD_NETWORK_UDP_NS,
    SLOW_NS,
    SPARE_NS,
    STANDBY_PART,
    UNWELL_NS,
    Kind,
    Rates,
    fit,
)
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import MINUTE, MS, SECOND, ProbeProfile, ProbeSettings
from meshwatchd.model.timers import TIMERS

FRESH, KNOWN = FlowClass.FRESH, FlowClass.PINNED
TIMERS_DEFAULT = TIMERS[ProbeProfile.DEFAULT]
USED = frozenset({0})
AWAKE = range(0x10000)
"""Every path, and the segments: what pairs are asked that something speaks against."""


def _interval_ns(kind, probe=None, *, count=1, awake=AWAKE):
    (rate,) = Rates(probe or ProbeSettings()).plan([(kind, count)], USED, awake)
    return rate.interval_ns


@pytest.mark.parametrize("flow_memory", [4 * MINUTE, 15 * MINUTE, 60 * MINUTE])
def test_fresh_probes_of_the_path_in_use_leave_half_of_the_outer_flows_unknown(flow_memory):
    """Three nodes here and there cross an overlay leg with six sessions; they are given 80 % of what is bearable."""
    interval_ns = _interval_ns(Kind(Layer.RELAY, 0, FRESH, share=600), ProbeSettings(flow_memory=flow_memory))
    memory_s = flow_memory // SECOND
    per_second = 600 * SECOND / interval_ns

    assert math.isclose(0.8 * math.log(2) * OUTER_PORTS / memory_s, per_second, rel_tol=0.001)
    assert 0.42 < 1 - math.exp(-per_second * memory_s / OUTER_PORTS) < 0.43


def test_a_leg_of_the_default_mesh_keeps_its_budget():
    """Path in use, standby, what follows traffic, the segment itself, of three nodes with three: half remembered."""
    kinds = [
        (Kind(Layer.RELAY, 0, FRESH, share=6), 6),
        (Kind(Layer.RELAY, 1, FRESH, share=6), 4),
        (Kind(Layer.EFFECTIVE, 0, FRESH, share=6), 6),
        (Kind(Layer.OVERLAY, 9, FRESH, share=2), 2),
    ]
    flows = sum(rate.sessions * SECOND / rate.interval_ns for rate in Rates(ProbeSettings()).plan(kinds, USED, AWAKE))

    assert 0.49 < 1 - math.exp(-flows * 900 / OUTER_PORTS) < 0.51


def test_an_engine_without_sessions_may_be_overloaded():
    """Its machine is starved while it starts: there is nothing to plan, and nothing to divide a budget by."""
    rates = Rates(ProbeSettings())
    rates.slowdown = 1.5

    assert [] == rates.plan([], USED)


@pytest.mark.parametrize("count", range(400, 440))
def test_rounding_does_not_exceed_the_packet_budget(count):
    """An interval that is cut to whole nanoseconds sends a little more than is there."""
    kinds = [(Kind(Layer.RELAY, 0, KNOWN), count), (Kind(Layer.POD_NETWORK, 9, KNOWN, is_advisory=True), count + 1)]
    rates = Rates(ProbeSettings(packets_per_second=2000)).plan(kinds, USED, AWAKE)

    assert sum(rate.sessions * SECOND / rate.interval_ns for rate in rates) <= 2000


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_the_pod_network_is_probed_seldom(profile):
    """A probe in 3.5 s, a SYN in ten, other UDP in thirty, on a slow line an eighth; they give first of all."""
    probe = ProbeSettings(profile=profile)
    known, syn = (Kind(Layer.POD_NETWORK, 0xFFFF, flow, is_advisory=True) for flow in (KNOWN, FRESH))

    assert (3_500 * MS, 10 * SECOND, 30 * SECOND) == (POD_NETWORK_NS, POD_NETWORK_TCP_NS, POD_NETWORK_UDP_NS)
    part = 8 if profile is ProbeProfile.WAN else 1
    assert part * POD_NETWORK_NS == _interval_ns(known, probe)
    assert part * POD_NETWORK_TCP_NS == _interval_ns(syn, probe)
    assert part * POD_NETWORK_UDP_NS == _interval_ns(syn._replace(is_closed_port=True), probe)
    assert POD_NETWORK_TCP_NS < _interval_ns(syn, ProbeSettings(packets_per_second=10), count=1000)


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_known_flows_of_the_path_in_use_go_at_the_profiles_pace(profile):
    """They cost no outer flow, and each node asks all nodes of the other location; a segment's go at half of that."""
    probe, timers = ProbeSettings(profile=profile), TIMERS[profile]

    assert timers.watch_ns == _interval_ns(Kind(Layer.RELAY, 0, KNOWN), probe)
    assert timers.watch_ns == _interval_ns(Kind(Layer.RELAY, 1, KNOWN), probe)
    assert 2 * timers.watch_ns == _interval_ns(Kind(Layer.OVERLAY, 0, KNOWN), probe)


@pytest.mark.parametrize("flow", list(FlowClass))
@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_the_link_between_the_leaders_is_probed_slowly_until_traffic_is_on_it(flow, profile):
    """It is the last that is taken: established and fresh flows alike; in use it is probed as any path in use."""
    probe = ProbeSettings(profile=profile)
    spare = Kind(Layer.RELAY, 4, flow, share=6 if flow is FRESH else 0, is_spare=True)
    plain = Kind(Layer.RELAY, 4, flow, share=6 if flow is FRESH else 0)
    idle, used = (
        [Rates(probe).plan([(kind, 1)], paths, AWAKE)[0] for kind in (spare, plain)] for paths in (USED, frozenset({4}))
    )

    assert SPARE_NS == idle[0].interval_ns > idle[1].interval_ns
    assert used[0].interval_ns == used[1].interval_ns < SPARE_NS


def test_what_only_explains_is_slow():
    """Segments each second, what follows traffic and fresh flows of standbys as the outer flows allow."""
    gap_ns = _interval_ns(Kind(Layer.RELAY, 0, FRESH, share=60)) / 60

    assert SLOW_NS == _interval_ns(Kind(Layer.UNDERLAY, 9, FRESH))
    assert math.isclose(STANDBY_PART * 6 * gap_ns, _interval_ns(Kind(Layer.RELAY, 1, FRESH, share=6)), rel_tol=0.001)
    assert math.isclose(EFFECTIVE_PART * 6 * gap_ns, _interval_ns(Kind(Layer.EFFECTIVE, 0, FRESH, 6)), rel_tol=0.001)


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_no_fresh_session_is_faster_than_its_ports(profile):
    """A tunnel between leaders has no overlay around it and all ports to itself, and they come round in the memory."""
    interval_ns = _interval_ns(Kind(Layer.WIREGUARD, 0, FRESH), ProbeSettings(profile=profile))

    assert interval_ns >= TIMERS[profile].interval_ns
    assert 14_551 * interval_ns >= 15 * MINUTE
    assert interval_ns < 75 * MS or profile is ProbeProfile.WAN


def test_within_the_packet_budget_nothing_is_stretched():
    """Which is where every mesh of ordinary size is."""
    assert {0: 1.0, 3: 1.0} == fit([(0, 600.0), (3, 400.0)], 1_000)


def test_what_matters_least_gives_first():
    """Standbys and segments go before the path in use."""
    assert {0: 1.0, 1: 1.0, 3: 4.0} == fit([(0, 500.0), (1, 300.0), (3, 400.0)], 900)


def test_nothing_is_starved():
    """A class becomes ten times slower, then the next one gives; when all have given, all give evenly."""
    stretched = fit([(1, 1_000.0), (2, 1_000.0)], 600)
    starved = fit([(1, 1_000.0), (2, 1_000.0)], 100)

    assert {1: 2.0, 2: MOST_STRETCH} == stretched
    assert {1: 2 * MOST_STRETCH, 2: 2 * MOST_STRETCH} == starved


def test_a_hundred_remote_nodes_keep_the_packet_budget():
    """Fresh flows of standbys and known ones would be 2 500 a second."""
    kinds = [
        (Kind(Layer.RELAY, 0, KNOWN, is_relay=True), 1),
        (Kind(Layer.RELAY, 0, KNOWN), 99),
        (Kind(Layer.RELAY, 0, FRESH, 200), 99),
        *[(Kind(Layer.RELAY, path, flow, 200), 100) for path in (1, 2, 3) for flow in FlowClass],
        (Kind(Layer.UNDERLAY, 9, FRESH), 99),
    ]
    rates = Rates(ProbeSettings()).plan(kinds, USED, AWAKE)
    total = sum(rate.sessions * SECOND / rate.interval_ns for rate in rates)

    assert total <= 2_000.001
    assert (TIMERS_DEFAULT.watch_ns, 1.0) == (rates[0].interval_ns, rates[0].stretch)
    assert rates[1].interval_ns < 240 * MS
    assert rates[-1].stretch == MOST_STRETCH


def test_a_close_watch_keeps_the_packet_budget_too():
    """Were all sessions to begin or to fail at one time."""
    rates = Rates(ProbeSettings())

    assert TIMERS_DEFAULT.watch_ns == rates.close_ns(30)
    assert 2 * SECOND == rates.close_ns(4_000)
    assert 2 * SECOND == rates.close_ns(4_000, crowd_part=10)


def test_a_crowd_shares_what_a_close_watch_sends():
    """Up to the pace of what is not known good: even the last of a thousand nodes is known soon after a start."""
    rates = Rates(ProbeSettings())

    assert 10 * TIMERS_DEFAULT.watch_ns == rates.close_ns(30, crowd_part=10)
    assert UNWELL_NS == rates.close_ns(30, crowd_part=1_000)


@pytest.mark.parametrize("flow", list(FlowClass))
@pytest.mark.parametrize("path", [0, 1])
@pytest.mark.parametrize("layer", [Layer.RELAY, Layer.EFFECTIVE, Layer.WIREGUARD])
def test_a_crowd_shares_what_an_awake_pair_sends(layer, path, flow):
    """A hundred times as many nodes ask a hundredth each; at rest they take turns anyway."""
    one, hundred = (Kind(layer, path, flow, crowd=6, crowd_part=part) for part in (1, 100))

    assert 100 * _interval_ns(one) == _interval_ns(hundred)


def _at_rest_ns(kind, probe=None, *, count=1):
    return _interval_ns(kind, probe, count=count, awake=())


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_scouts_at_rest_ask_once_in_an_interval(profile):
    """All eight sessions of two scouts a side together, by fresh flows, which cross the overlay; by known ones less."""
    probe, interval_ns = ProbeSettings(profile=profile), TIMERS[profile].interval_ns
    known_ns = _at_rest_ns(Kind(Layer.RELAY, 0, KNOWN, crowd=6, scouts=8), probe, count=2)
    fresh_ns = _at_rest_ns(Kind(Layer.RELAY, 0, FRESH, share=6, rest_share=4, crowd=6, scouts=8), probe, count=2)
    budget_ns = _interval_ns(Kind(Layer.RELAY, 0, FRESH, share=4), probe)

    assert 8 * interval_ns == known_ns / 8
    assert max(interval_ns, budget_ns / 8) == fresh_ns / 8


@pytest.mark.parametrize("nodes", [3, 10, 100, 1000])
@pytest.mark.parametrize(
    ("path", "flow", "per_second"), [(0, FRESH, 1.0), (0, KNOWN, 0.2), (1, FRESH, 0.2), (1, KNOWN, 0.2)]
)
def test_background_probes_of_a_pair_of_locations_are_as_many_whatever_its_size(nodes, path, flow, per_second):
    """Each of all nodes asks the others in turn; one that is asked by nobody else is found in time, and named."""
    interval_ns = _at_rest_ns(Kind(Layer.RELAY, path, flow, share=4, crowd=2 * nodes), count=nodes)

    assert math.isclose(per_second, 2 * nodes * nodes * SECOND / interval_ns)


def test_the_relays_of_a_standby_ask_each_other_every_few_intervals():
    """However many nodes there are: the next path is known to work, and its relays to live."""
    kind = Kind(Layer.RELAY, 1, KNOWN, crowd=200, is_between_relays=True)

    assert 10 * TIMERS_DEFAULT.watch_ns == _at_rest_ns(kind)


@pytest.mark.parametrize("flow", list(FlowClass))
@pytest.mark.parametrize("layer", [Layer.UNDERLAY, Layer.OVERLAY, Layer.WIREGUARD, Layer.IPIP])
def test_a_segment_is_asked_less_often_at_rest(layer, flow):
    """What it says matters once a path is suspected; then it is asked as it always was."""
    kind = Kind(layer, 0, flow, share=2 if flow is FRESH else 0)

    assert _interval_ns(kind) <= _at_rest_ns(kind) <= 4 * SECOND


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (Kind(Layer.RELAY, 0, FRESH, share=4, crowd=20), 4),
        (Kind(Layer.RELAY, 0, KNOWN, crowd=20), 8),
        (Kind(Layer.RELAY, 1, FRESH, share=4, crowd=20), 8),
        (Kind(Layer.RELAY, 1, KNOWN, crowd=20, is_between_relays=True), 8),
        (Kind(Layer.WIREGUARD, 0, FRESH, crowd=20), 8),
    ],
)
def test_a_slow_line_is_spared_what_matters_least(kind, part):
    """Over the path in use all goes at the profile's pace; everything else at half of that."""
    slow_ns = _at_rest_ns(kind, ProbeSettings(profile=ProbeProfile.WAN))

    assert part * _at_rest_ns(kind) == slow_ns


def test_a_pair_that_is_awake_is_asked_by_everybody():
    """Beside it another one rests."""
    kinds = [(Kind(Layer.RELAY, path, KNOWN, crowd=6), 3) for path in (0, 8)]
    awake, resting = Rates(ProbeSettings()).plan(kinds, frozenset({0, 8}), {0})

    assert TIMERS_DEFAULT.watch_ns == awake.interval_ns < resting.interval_ns


def test_pod_network_sessions_take_longer_in_large_meshes():
    """Two hundred nodes: each is asked by all others."""
    assert POD_NETWORK_NS == _interval_ns(Kind(Layer.POD_NETWORK, 9, KNOWN, crowd=6), count=3)
    assert 33 * POD_NETWORK_NS == _interval_ns(Kind(Layer.POD_NETWORK, 9, KNOWN, crowd=200), count=100)


def test_hosts_of_clusters_cost_the_same_however_many_nodes_ask():
    """Two locations of one node each are asked as any segment is; with two hundred each node asks that much less."""
    two, many = (_interval_ns(Kind(Layer.UNDERLAY, 0, FRESH, crowd=crowd), awake=()) for crowd in (2, 200))

    assert 100 * two == many
    assert two == _interval_ns(Kind(Layer.WIREGUARD, 0, FRESH, crowd=200), awake=())
