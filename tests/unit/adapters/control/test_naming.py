"""What a path is called."""

from __future__ import annotations

from meshwatchd.adapters.control.naming import name_path, name_relays
from tests.support.example_status import path


def test_a_path_is_called_by_its_relays():
    """In their order, joined by a hyphen."""
    assert "b2-a1" == name_path(path(1, "good", active=0))
    assert "x-y" == name_relays(["x", "y"])
