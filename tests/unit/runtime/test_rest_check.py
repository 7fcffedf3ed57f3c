"""Limits of bytes at rest, as `meshwatchd --check` has them."""

from __future__ import annotations

import pytest

from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import ProbeProfile, ProbeSettings
from meshwatchd.runtime.rest_check import check_rest, rest_lines


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (ProbeSettings(wan_kbit=5), ("probe.wan_kbit", "5 kbit/s is too little", 'or take probe.profile = "wan"')),
        (ProbeSettings(wan_kbit=1, profile=ProbeProfile.WAN), ("probe.wan_kbit", 'profile "wan"', "write 4 or more")),
        (ProbeSettings(lan_kbit=1), ("probe.lan_kbit", "write 2 or more, or 0 for no limit")),
    ],
)
def test_a_limit_that_leaves_no_detection_is_refused(probe, words):
    """With what would do."""
    with pytest.raises(ConfigError) as refusal:
        check_rest("meshwatchd.toml", probe)

    assert all(word in str(refusal.value) for word in words), str(refusal.value)


def test_other_limits_pass():
    """None, a low one of a slow line, a high one."""
    for probe in (ProbeSettings(), ProbeSettings(wan_kbit=5, profile=ProbeProfile.WAN), ProbeSettings(lan_kbit=60)):
        check_rest("meshwatchd.toml", probe)


def test_the_detection_that_a_limit_leaves_is_described():
    """A line for each limit, and none without."""
    wan, lan = rest_lines(ProbeSettings(wan_kbit=40, lan_kbit=5))

    assert "probe.wan_kbit = 40: at rest two locations send each other 40 kbit/s" in wan
    assert "scouts probe the path in use every" in wan
    assert "probe.lan_kbit = 5" in lan
    assert [] == rest_lines(ProbeSettings())
