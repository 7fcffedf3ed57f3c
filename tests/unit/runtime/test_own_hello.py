"""What a node tells of itself."""

from __future__ import annotations

import pytest

from meshwatchd.model.discovery import DeviceLayer
from meshwatchd.model.errors import KernelError
from meshwatchd.model.settings import DaemonSettings, DiscoverySettings, Mode, Settings
from meshwatchd.model.snapshot import WireGuardState
from meshwatchd.runtime.own_hello import OwnHello
from tests.support import hellos

TUNNEL = WireGuardState(device="kilo0", public_key="own", listen_port=51820, at_ns=0)


def _maker(complaints, *, mode=Mode.ENFORCE, key=lambda: "key", endpoint="", leads_since_ns=0):
    times = iter(range(5, 100))
    return OwnHello(
        Settings(daemon=DaemonSettings(node="a1", mode=mode), discovery=DiscoverySettings(endpoint=endpoint)),
        standby_key=key,
        complain=complaints.append,
        wall_ns=lambda: next(times),
        former=hellos.hello("a1", leads_since_ns=leads_since_ns),
    )


def _make(maker, name="a1", **seen):
    return maker.make(hellos.view(name, **seen), (TUNNEL,), endpoint="203.0.113.9", faults=())


def test_a_node_tells_how_long_it_leads():
    """From the moment on at which it began, over restarts, and anew where it had stopped."""
    maker = _maker([], leads_since_ns=3)

    assert [3, 0, 5, 5] == [_make(maker, is_leader=leads).leads_since_ns for leads in (True, False, True, True)]


def test_the_end_of_the_meshs_tunnel_is_told():
    """Of the device that the view names, and of no other."""
    told, other = _make(_maker([])), _make(_maker([]), wireguard_device="wg0")

    assert ("own", 51820) == (told.tunnel_public_key, told.tunnel_port)
    assert ("", 0) == (other.tunnel_public_key, other.tunnel_port)


@pytest.mark.parametrize(
    ("configured", "public", "told"),
    [("192.0.2.1", "192.0.2.2", "192.0.2.1"), ("", "192.0.2.2", "192.0.2.2"), ("", "", "203.0.113.9")],
)
def test_where_it_can_be_reached_is_the_operators_word_first(configured, public, told):
    """Then what the mesh's agent says, then what others see."""
    assert told == _make(_maker([], endpoint=configured), public_endpoint=public).standby_endpoint


def test_without_a_key_the_node_tells_none_and_why():
    """It is asked for again, and in observe mode never."""
    complaints: list[str] = []

    def refuse():
        raise KernelError("write a key", 28, "no space left")

    maker = _maker(complaints, key=refuse)
    assert ["", ""] == [_make(maker).standby_public_key for _ in range(2)]
    assert 2 == len(complaints)
    assert "no space left" in complaints[0]
    assert "" == _make(_maker(complaints, mode=Mode.OBSERVE, key=refuse)).standby_public_key
    assert 2 == len(complaints)
    assert "key" == _make(_maker(complaints)).standby_public_key


def test_the_key_is_made_once():
    """Some milliseconds of arithmetic each time."""
    made = []

    def make():
        made.append("key")
        return "key"

    maker = _maker([], key=make)
    assert (["key"] * 2, ["key"]) == ([_make(maker).standby_public_key for _ in range(2)], made)


def test_the_layer_of_a_host_mesh_is_the_nodes_own_business():
    """A hello has 1 200 bytes; what is over it names the device all the same."""
    tunnel = DeviceLayer(kind="wireguard", device="kilo0", mtu_bytes=1220, over="nebula1")
    below = DeviceLayer(kind="nebula", device="nebula1", mtu_bytes=1300, over="eth0")

    assert (tunnel,) == _make(_maker([]), layers=(tunnel, below)).view.layers
