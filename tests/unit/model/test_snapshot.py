"""A snapshot finds devices by name."""

from __future__ import annotations

import msgspec

from meshwatchd.model.snapshot import (
    DeviceRoute,
    Link,
    RouteLookup,
    Snapshot,
    Vxlan,
    WireGuardPeer,
    WireGuardState,
)
from tests.support.lab_mesh import snapshot_of


def test_a_device_is_found_by_its_name():
    """A leader's kilo0 is up, a member's is not."""
    leader, member = snapshot_of("a1").link("kilo0"), snapshot_of("a3").link("kilo0")

    assert leader is not None
    assert member is not None
    assert (True, False) == (leader.is_up, member.is_up)


def test_a_missing_device_is_none():
    """Absence is an answer, not an error."""
    assert snapshot_of("a1").link("wg0") is None


def _card(name: str, index: int, address: str = "") -> Link:
    return Link(name=name, index=index, kind="", is_up=True, mtu_bytes=1500, addresses=(address,) if address else ())


WG0 = Link(name="wg0", index=9, kind="wireguard", is_up=True, mtu_bytes=1420)
MULTI_HOMED = Snapshot(
    links=(_card("eth0", 2, "10.0.0.1"), _card("eth1", 3, "198.51.100.1"), WG0),
    default_routes=(DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via="10.0.0.254"),),
    wireguard=(
        WireGuardState(
            device="wg0",
            public_key="OWN",
            listen_port=51820,
            at_ns=1,
            peers=(WireGuardPeer(public_key="A", endpoint="203.0.113.5:51820"), WireGuardPeer(public_key="B")),
        ),
    ),
)


def _below(snapshot: Snapshot, device: str) -> str:
    link = snapshot.underlay(device)
    return link.name if link is not None else ""


def _looked_up(dev: str) -> Snapshot:
    return msgspec.structs.replace(MULTI_HOMED, lookups=(RouteLookup(address="203.0.113.5", dev=dev),))


def test_the_underlay_of_a_tunnel_is_where_its_endpoints_are_routed():
    """A host with a card for administrators and one for the mesh has its default route at the former."""
    assert "eth1" == _below(_looked_up("eth1"), "wg0")
    assert "eth0" == _below(MULTI_HOMED, "wg0"), "without a lookup the default route decides"
    assert "eth0" == _below(_looked_up("wg0"), "wg0"), "a tunnel does not run over itself"
    assert "eth0" == _below(_looked_up("eth1"), ""), "other traffic goes by the default route"
    assert "" == _below(Snapshot(), "wg0")


def test_the_underlay_of_a_vxlan_device_is_what_it_is_bound_to():
    """Its lower device, else the one with the address it sends from."""
    bound = Link(name="flannel.1", index=7, kind="vxlan", is_up=True, mtu_bytes=1370)
    for vxlan, name in (
        (Vxlan(vni=1, port=8472, lower=9, local="10.0.0.1"), "wg0"),
        (Vxlan(vni=1, port=8472, local="198.51.100.1"), "eth1"),
        (Vxlan(vni=1, port=8472), "eth0"),
    ):
        device = msgspec.structs.replace(bound, vxlan=vxlan)
        seen = msgspec.structs.replace(MULTI_HOMED, links=(*MULTI_HOMED.links, device))
        assert name == _below(seen, "flannel.1")
