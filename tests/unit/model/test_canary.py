"""What a declared canary stands for."""

from __future__ import annotations

import pytest

from meshwatchd.model.canary import Canary, CanaryRole
from meshwatchd.model.ids import NodeName


@pytest.mark.parametrize(
    ("port", "role", "expected"),
    [
        (10250, CanaryRole.AUTO, CanaryRole.KUBELET),
        (6443, CanaryRole.AUTO, CanaryRole.APISERVER),
        (53, CanaryRole.AUTO, CanaryRole.POD),
        (443, CanaryRole.APISERVER, CanaryRole.APISERVER),
        (6443, CanaryRole.POD, CanaryRole.POD),
    ],
)
def test_the_role_of_a_canary_is_declared_or_its_ports(port, role, expected):
    """What is declared counts."""
    canary = Canary(name="x", address="10.2.0.11", port=port, node=NodeName("b1"), role=role)
    assert expected is canary.resolved_role
