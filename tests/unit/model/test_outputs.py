"""What a session's plan says of itself."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.canary import Canary
from meshwatchd.model.ids import NodeName
from tests.support.packet_node import plan

CANARY = Canary(name="web", address="10.244.6.9", port=80, node=NodeName("b3"))


@pytest.mark.parametrize(
    ("destination", "canary", "is_ip6", "is_advisory"),
    [
        ("10.2.0.11", None, False, False),
        ("fd00:2::11", None, True, True),
        ("10.244.6.9", CANARY, False, True),
        ("fd00:244:6::9", CANARY, True, True),
    ],
)
def test_only_ip4_sessions_between_nodes_judge_a_path(destination, canary, is_ip6, is_advisory):
    """Routes of ours are IPv4, and a canary is not the mesh."""
    session = msgspec.structs.replace(plan(18618), destination=destination, canary=canary)

    assert (is_ip6, is_advisory) == (session.is_ip6, session.is_advisory)
