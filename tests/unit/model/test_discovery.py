"""What follows from a node's view of itself."""

import pytest

from tests.support.hellos import view


@pytest.mark.parametrize(
    ("overlay", "wireguard", "is_native"),
    [("flannel-wg", "flannel-wg", True), ("flannel.1", "wg0", False), ("", "", False)],
)
def test_pods_are_routed_into_wireguard_where_it_is_the_overlay(overlay, wireguard, is_native):
    """As with flannel's wireguard backend; a node without either has neither."""
    assert is_native is view("a1", overlay_device=overlay, wireguard_device=wireguard).is_native
