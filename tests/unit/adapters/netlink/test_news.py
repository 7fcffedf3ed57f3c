import pytest

from meshwatchd.adapters.netlink.news import stirred
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.snapshot import Link


def link(*, is_up, mtu_bytes=1420, name="kilo0"):
    """The mesh's device, or another."""
    return Link(name=name, index=7, kind="wireguard", is_up=is_up, mtu_bytes=mtu_bytes)


UP = MeshStirred(what="kilo0 was made or brought up", is_rebuilding=True)
DOWN = MeshStirred(what="kilo0 went down or away", is_rebuilding=False)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, link(is_up=False), UP),
        (None, link(is_up=True), UP),
        (link(is_up=False), link(is_up=True), UP),
        (link(is_up=True), link(is_up=False), DOWN),
        (link(is_up=True), None, DOWN),
        (link(is_up=False), None, DOWN),
        (link(is_up=True), link(is_up=True, mtu_bytes=1280), None),
        (None, link(is_up=True, name="eth0"), None),
    ],
)
def test_the_mesh_device_stirs_when_it_comes_goes_or_changes_its_flag(before, after, told):
    """Other devices, and what else changes of it, stir nobody."""
    assert told == stirred("kilo0", before, after)
