"""What a path is called."""

from __future__ import annotations

from meshwatchd.adapters.control.naming import name_path, name_place, name_relays
from meshwatchd.model.faults import FaultCode
from tests.support.example_status import BROKEN, path, status, verdict


def test_a_path_is_called_by_its_relays():
    """In their order, joined by a hyphen."""
    assert "b2-a1" == name_path(path(1, "good", active=0))
    assert "x-y" == name_relays(["x", "y"])


def test_a_silent_tunnel_may_be_broken_at_either_end():
    """So both are named; of any other fault the node that it is at."""
    blocked = status(verdict(FaultCode.WIREGUARD_BLOCKED, culprit="a1")).pairs[0]
    assert "tunnel b1-a1" == name_place(blocked)
    assert "node b1" == name_place(status(BROKEN).pairs[0])
    assert "" == name_place(status(verdict(FaultCode.ALL_PATHS_DOWN)).pairs[0])
    elsewhere = status(verdict(FaultCode.WIREGUARD_NO_DATA, culprit="a9")).pairs[0]
    assert "tunnel to a9" == name_place(elsewhere)
