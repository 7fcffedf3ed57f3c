"""The bands of source ports: which ports, and how long a round must last."""

from __future__ import annotations

import pytest

from meshwatchd.model.port_map import reserved_ports
from meshwatchd.model.settings import MINUTE, SECOND, ProbeProfile, ProbeSettings
from meshwatchd.model.source_ports import BURST_ROUND_NS, ROUND_NS, split_ports
from meshwatchd.model.timers import TIMERS


def _ports(band):
    return [band.port(position) for position in range(band.count)]


@pytest.mark.parametrize("source_ports", ["10000-29999", "1024-65535", "19130-25000", "10000-18617", "18000-18700"])
def test_bands_hold_every_usable_port_once(source_ports):
    """Reserved ports may lie within the range, beside it, or at its end; a quarter goes to bursts."""
    regular, burst = split_ports(ProbeSettings(source_ports=source_ports))
    first, last = map(int, source_ports.split("-"))
    reserved = reserved_ports(ProbeSettings().port)

    assert [port for port in range(first, last + 1) if port not in reserved] == _ports(regular) + _ports(burst)
    assert burst.count == (regular.count + burst.count) // 4


@pytest.mark.parametrize("profile", list(ProbeProfile))
@pytest.mark.parametrize("flow_memory", [MINUTE, 5 * MINUTE, 15 * MINUTE, 60 * MINUTE])
def test_a_port_comes_again_when_it_is_forgotten(profile, flow_memory):
    """Even for who was ahead of the clock by all it may be, on either side of a restart."""
    probe = ProbeSettings(profile=profile, flow_memory=flow_memory)
    for band in split_ports(probe):
        assert (band.count - 2 * band.lead - 1) * band.round_ns >= flow_memory


def test_with_a_short_memory_rounds_follow_the_profile():
    """There is no need for more sockets than a session at full rate asks for."""
    regular, burst = split_ports(ProbeSettings(flow_memory=MINUTE))
    fast, _ = split_ports(ProbeSettings(flow_memory=MINUTE, profile=ProbeProfile.FAST))

    assert (ROUND_NS, BURST_ROUND_NS) == (regular.round_ns, burst.round_ns)
    assert TIMERS[ProbeProfile.FAST].interval_ns == fast.round_ns


def test_a_range_may_be_too_narrow():
    """Then there is nothing to split; config refuses it."""
    assert [True, True] == [band.is_wide_enough for band in split_ports(ProbeSettings())]
    assert [True, False] == [band.is_wide_enough for band in split_ports(ProbeSettings(source_ports="20000-20999"))]


def test_the_default_costs_few_sockets():
    """Fifteen minutes of memory: a regular round is about 62 ms, a burst's 200 ms."""
    regular, burst = split_ports(ProbeSettings())

    assert 15 * MINUTE <= regular.round_ns * 14_551 < 15 * MINUTE + SECOND
    assert 190 < burst.round_ns / 1e6 < 210
