"""What the numbers of the probe profiles have to be to each other."""

from __future__ import annotations

import pytest

from meshwatchd.model.settings import ProbeProfile
from meshwatchd.model.timers import TIMERS

BFD_MULTIPLIER = 3


@pytest.mark.parametrize("profile", [ProbeProfile.FAST, ProbeProfile.DEFAULT])
def test_a_leg_that_nobody_trusts_is_condemned_as_soon_as_by_bfd(profile):
    """At the worst phase a probe leaves an interval after the fault; BFD counts from the last packet."""
    timers = TIMERS[profile]

    assert timers.interval_ns + timers.miss_ns + timers.silence_ns <= BFD_MULTIPLIER * timers.interval_ns


@pytest.mark.parametrize("profile", ProbeProfile)
def test_trust_shortens_what_is_waited_for(profile):
    """Known flows that pass show that nothing is stalled, and shorten it as well."""
    timers = TIMERS[profile]

    assert timers.calm_miss_ns < timers.miss_ns
    assert timers.calm_silence_ns < timers.silence_ns
    assert timers.calm_selective_ns < timers.selective_ns <= timers.silence_ns
