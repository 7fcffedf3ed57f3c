"""Every setting has its reason."""

from __future__ import annotations

from meshwatchd.config.explain import find_settings, list_settings
from meshwatchd.model.settings import Mode, Settings


def test_every_setting_of_every_section_is_explained():
    """But for the mesh, which is no setting with a default."""
    listed = list(list_settings(Settings()))
    assert all(each.about and each.value == each.default for each in listed)
    assert {"daemon.mode", "probe.port", "policy.hold_down", "stamp.listen", "bisect.pause"} <= {
        each.key for each in listed
    }
    assert tuple(Mode) == next(each.choices for each in listed if each.key == "daemon.mode")


def test_a_key_a_section_or_a_last_part_finds_settings():
    """And nothing finds the nearest."""
    assert ["policy.hold_down"] == [each.key for each in find_settings(Settings(), "hold_down")[0]]
    assert 2 == len(find_settings(Settings(), "auth")[0])
    assert ([], "policy.hold_down") == find_settings(Settings(), "polcy.hold_down")
    assert ([], "") == find_settings(Settings(), "zzzzzzzz")
