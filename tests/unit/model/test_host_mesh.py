"""Whose device it is that a mesh runs over."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.host_mesh import (
    HOST_MESH_KINDS,
    carrier_of,
    describe_carrier,
    endpoints_of,
    host_mesh,
    is_up,
    maker_of,
)
from meshwatchd.model.snapshot import RouteLookup
from tests.support.host_mesh_node import carrier, node


@pytest.mark.parametrize(
    ("name", "kind", "maker"),
    [
        ("tailscale0", "tun", "Tailscale"),
        ("wt0", "wireguard", "NetBird"),
        ("wt0", "tun", "NetBird"),
        ("nebula1", "tun", "Nebula"),
    ],
)
def test_a_device_is_known_by_its_makers_name_and_kind(name, kind, maker):
    """NetBird's is WireGuard in the kernel where there is any."""
    found = host_mesh(carrier(name, kind))

    assert found is not None
    assert maker == found.name
    assert found.kind in HOST_MESH_KINDS


@pytest.mark.parametrize(
    ("name", "kind"), [("wg0", "wireguard"), ("tun0", "tun"), ("wt", "tun"), ("nebula1", "vxlan"), ("wt0x", "tun")]
)
def test_others_are_nobodys(name, kind):
    """By half a name, or of a kind that its maker does not make."""
    assert host_mesh(carrier(name, kind)) is None


def test_nothing_has_no_maker():
    """A device that is gone is known by its name alone."""
    assert host_mesh(None) is None
    assert maker_of("") is None
    assert "Nebula" == getattr(maker_of("nebula1"), "name", "")


def test_a_carrier_is_what_the_peers_are_reached_by():
    """Not one that is merely there."""
    nebula1 = carrier()

    assert nebula1 == carrier_of(node(nebula1), "flannel-wg")
    assert carrier_of(node(nebula1, way="eth0"), "flannel-wg") is None
    assert nebula1 == carrier_of(node(nebula1), "kilo0", "flannel-wg"), "a device that is not there has none"
    assert carrier_of(node(nebula1), "kilo0") is None


def test_what_stays_on_the_host_is_no_way_out():
    """NetBird hands packets of relayed peers to a process of its own, at 127.0.0.1."""
    seen = node(carrier("wt0", "wireguard"))
    lo = msgspec.structs.replace(carrier("lo", ""), addresses=("127.0.0.1",))
    relayed = tuple(RouteLookup(address=each.address, dev="lo") for each in seen.lookups)
    seen = msgspec.structs.replace(seen, links=(*seen.links, lo), lookups=relayed)

    assert "eth0" == getattr(seen.underlay("flannel-wg"), "name", "")


def test_endpoints_are_told_without_ports():
    """Of one device."""
    assert frozenset(("10.99.0.2", "10.99.0.3")) == endpoints_of(node(carrier(), peers=2), "flannel-wg")
    assert frozenset() == endpoints_of(node(carrier()), "wg9")


def test_a_device_is_up_where_it_is_there_and_up():
    """Both."""
    assert is_up(node(carrier()), "nebula1")
    assert not is_up(node(msgspec.structs.replace(carrier(), is_up=False)), "nebula1")
    assert not is_up(node(), "nebula1")


def test_the_layer_is_told_with_its_owners_commands():
    """Of others there is nothing to say."""
    assert describe_carrier("tailscale0", "kilo0").startswith(
        "the underlay of kilo0 is tailscale0 of Tailscale: ask it at both ends (tailscale status;"
    )
    assert "" == describe_carrier("eth0", "kilo0") == describe_carrier("", "kilo0")
