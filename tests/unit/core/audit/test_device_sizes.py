"""A device that somebody has made smaller in place is named, and one that has to be small is not."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.repair import plan_repair
from meshwatchd.model.discovery import DeviceLayer, Hello
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.snapshot import DeviceRoute, Link, Vxlan
from tests.support.flannel_node import DEVICE, LOCAL, entries, good, look, snapshot
from tests.support.hellos import view

HELD = entries(3)
GOOD = good(3)


def _sized(mtu, *, lower=1500, index=6):
    """n0 with flannel.1 of another size, bound to eth0."""
    eth0 = Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=lower)
    seen = snapshot(HELD)
    links = [
        msgspec.structs.replace(each, index=index, mtu_bytes=mtu, vxlan=Vxlan(vni=1, port=8472, lower=2))
        if each.name == DEVICE
        else each
        for each in seen.links
    ]
    return msgspec.structs.replace(seen, links=(eth0, *links))


def test_a_device_that_somebody_made_smaller_is_named_with_the_size_it_had():
    """Only its peers saw large packets vanish at it, and could not tell why."""
    (found,) = look(_sized(1280), known=GOOD)

    assert (FaultCode.MTU_MISCONFIGURED, DEVICE, LOCAL) == (found.code, found.subject, found.culprit)
    assert "ip link set dev flannel.1 mtu 1450" in found.because[-1]
    assert plan_repair(found) is None


@pytest.mark.parametrize(
    ("seen", "known"),
    [
        (_sized(1450), GOOD),
        (_sized(1480), GOOD),
        (_sized(1280, index=9), GOOD),
        (_sized(1280, lower=1330), GOOD),
        (_sized(1280), None),
        (_sized(1280), msgspec.structs.replace(GOOD, mtu_bytes=0)),
    ],
)
def test_a_size_that_has_its_reason_is_nobodys_fault(seen, known):
    """Unchanged, larger, of a device made anew, over a smaller one, or never seen otherwise."""
    assert () == look(seen, known=known)


@pytest.mark.parametrize(("size", "is_told"), [(1280, False), (1450, True)])
def test_a_size_that_its_peers_have_as_well_was_meant(size, is_told):
    """Whoever does on all nodes what the name of a black hole advises is not told to undo it."""
    hellos = {name: _hello(name, size) for name in ("n1", "n2")}

    assert is_told is bool(look(_sized(1280), known=GOOD, hellos=hellos))
    assert is_told is bool(look(_tunnelled(1280), known=GOOD, hellos=hellos))


def _hello(name, size):
    layer = DeviceLayer(kind="vxlan", device=DEVICE, mtu_bytes=size)
    seen = view("a1", overlay_device=DEVICE, layers=(layer,), wireguard_mtu_bytes=size)
    return Hello(view=msgspec.structs.replace(seen, node=name))


def _tunnelled(size, *, index=5, is_up=True, carrier=1500):
    """A kernel whose wg0 has an MTU, over a network device of another one."""
    seen = snapshot(HELD)
    tunnel = Link(name="wg0", index=index, kind="wireguard", is_up=is_up, mtu_bytes=size)
    uplink = Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=carrier)
    links = (tunnel, uplink, *(each for each in seen.links if each.name != "wg0"))
    way_out = DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via="192.168.50.1")
    return msgspec.structs.replace(seen, links=links, default_routes=(way_out,))


def test_a_tunnel_that_somebody_made_smaller_is_named_at_the_node_that_has_it():
    """The other end is told that large packets do not come back, and members that they do not leave."""
    (found,) = look(_tunnelled(1300), known=GOOD)

    assert (FaultCode.MTU_MISCONFIGURED, "wg0", LOCAL) == (found.code, found.subject, found.culprit)
    assert "ip link set dev wg0 mtu 1420" in found.because[-1]


@pytest.mark.parametrize(
    ("seen", "known"),
    [
        (_tunnelled(1420), GOOD),
        (_tunnelled(1300, index=9), GOOD),
        (_tunnelled(1300, is_up=False), GOOD),
        (_tunnelled(1300, carrier=1360), GOOD),
        (_tunnelled(1300), None),
        (_tunnelled(1300), msgspec.structs.replace(GOOD, tunnel_mtu_bytes=0)),
    ],
)
def test_a_tunnels_size_that_has_its_reason_is_nobodys_fault(seen, known):
    """Unchanged, of a device made anew or resting, over a smaller one, or never seen otherwise."""
    assert () == look(seen, known=known)
