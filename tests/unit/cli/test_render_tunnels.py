"""The table of WireGuard peers."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.cli.render_tunnels import render_tunnels
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.status import TunnelStatus
from tests.support.example_status import HEALTHY, TUNNELLED

(PAIR,) = HEALTHY.pairs


def _handshakes(role: str, ages: dict[str, int | None], *, relayed: int) -> list[str]:
    """The last column on a node of a role that relays so many standby paths."""
    paths = tuple(msgspec.structs.replace(path, is_local_relay=0 < path.rank <= relayed) for path in PAIR.paths)
    tunnels = tuple(
        TunnelStatus(device=device, peer=10 * device, endpoint="", handshake_age_ns=age, rx_bytes=0, tx_bytes=9)
        for device, age in ages.items()
    )
    status = msgspec.structs.replace(
        TUNNELLED, role=role, tunnels=tunnels, pairs=(msgspec.structs.replace(PAIR, paths=paths),)
    )
    return [line.split("  ")[-1].strip() for line in render_tunnels(status, paint_nothing)[1:]]


@pytest.mark.parametrize(
    ("role", "ages", "relayed", "expected"),
    [
        ("member", {"kilo0": None}, 0, ["not used here"]),
        ("standby", {"kilo0": None, "mw1": 9 * 10**9}, 1, ["not used here", "9.0 s ago"]),
        ("standby", {"kilo0": None, "mw1": None}, 1, ["never", "never"]),
        ("leader", {"kilo0": None}, 0, ["never"]),
    ],
)
def test_the_leaders_device_is_no_fault_of_a_node_that_does_not_lead(role, ages, relayed, expected):
    """At night `never` is an alarm; here it is one where a device that this node uses has no handshake."""
    assert expected == _handshakes(role, ages, relayed=relayed)
