"""What follows from a node's view of itself."""

import pytest

from meshwatchd.model.cluster_mesh import CLUSTER_MESH
from tests.support.hellos import view


@pytest.mark.parametrize(
    ("overlay", "wireguard", "is_native"),
    [("flannel-wg", "flannel-wg", True), ("flannel.1", "wg0", False), ("", "", False)],
)
def test_pods_are_routed_into_wireguard_where_it_is_the_overlay(overlay, wireguard, is_native):
    """As with flannel's wireguard backend; a node without either has neither."""
    assert is_native is view("a1", overlay_device=overlay, wireguard_device=wireguard).is_native


@pytest.mark.parametrize(
    ("profiles", "device", "expected"),
    [
        (("kilo",), "flannel.1", (True, False)),
        (("flannel",), "wg0", (True, True)),
        ((CLUSTER_MESH,), "cilium_host", (False, True)),
    ],
)
def test_what_loses_pods_loses_all_where_nothing_is_asked_but_by_their_way(profiles, device, expected):
    """Pods that are routed into WireGuard take its address along; in a Cluster Mesh each node sends its own."""
    seen = view("a1", profiles=profiles, wireguard_device="wg0", overlay_device=device)
    assert expected == (seen.passes_leaders, seen.loses_tunnel_with_pods)
