"""A snapshot finds devices by name."""

from __future__ import annotations

from tests.support.lab_mesh import snapshot_of


def test_a_device_is_found_by_its_name():
    """A leader's kilo0 is up, a member's is not."""
    leader, member = snapshot_of("a1").link("kilo0"), snapshot_of("a3").link("kilo0")

    assert leader is not None
    assert member is not None
    assert (True, False) == (leader.is_up, member.is_up)


def test_a_missing_device_is_none():
    """Absence is an answer, not an error."""
    assert snapshot_of("a1").link("wg0") is None
