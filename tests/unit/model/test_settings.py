"""Defaults that other parts rely on."""

from __future__ import annotations

import pytest

from meshwatchd.model.settings import Mode, ProbeProfile, ProbeSettings, Settings
from meshwatchd.model.source_ports import split_ports
from meshwatchd.model.timers import TIMERS


def test_a_daemon_without_a_word_from_its_operator_only_observes():
    """Kernel-changing software on other people's nodes asks first."""
    assert Mode.OBSERVE is Settings().daemon.mode


def test_every_profile_has_timers_that_can_work():
    """The wait is shorter than the interval of a miss train, a burst is quicker than an interval."""
    assert set(ProbeProfile) == set(TIMERS)
    assert all(0 < t.burst_gap_ns < t.miss_ns and t.interval_ns < t.watch_ns for t in TIMERS.values())


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_a_port_outlives_the_flow_memory_before_it_comes_again(profile):
    """The walk over the source ports takes longer than the network remembers, at a pace that watches well."""
    probe = ProbeSettings(profile=profile)
    regular, _ = split_ports(probe)

    assert probe.flow_memory < regular.count * regular.round_ns
    assert regular.round_ns < TIMERS[profile].watch_ns


def test_policy_defaults_are_durations():
    """Fast down, slow up: failback needs both waits."""
    policy = Settings().policy

    assert (30_000_000_000, 10_000_000_000) == (
        policy.hold_down,
        policy.wait_to_restore,
    )
