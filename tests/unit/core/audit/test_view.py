"""What several audits ask of what they are given."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import Entries
from meshwatchd.model.snapshot import DeviceRoute, WireGuardPeer, WireGuardState
from tests.support.lab_mesh import declared_mesh, snapshot_of


def _route(dst, dev, table=254):
    return DeviceRoute(dst=dst, dev=dev, table=table, protocol=4)


def _view(*, good=None, routes=(), wireguard=()):
    seen = msgspec.structs.replace(snapshot_of("a1"), device_routes=routes, wireguard=wireguard)
    return View(snapshot=seen, mesh=declared_mesh(), node="a1", hellos={}, good=good)


def test_routes_of_other_tables_and_devices_are_none_of_the_mesh():
    """A failover's own table repeats what the main table has."""
    routes = (_route("10.0.1.0/24", "kilo0"), _route("10.0.2.0/24", "eth0"), _route("10.0.3.0/24", "kilo0", 7701))

    assert {"10.0.1.0/24"} == _view(routes=routes).routed_into(frozenset(("kilo0", "flannel.1")))


def test_only_peers_of_the_meshs_device_carry_for_it():
    """Standby links and a VPN have peers of their own."""
    states = tuple(
        WireGuardState(
            device=device,
            public_key=device,
            listen_port=1,
            at_ns=0,
            peers=(WireGuardPeer(public_key="x", allowed_ips=(f"10.0.{number}.0/24",)),),
        )
        for number, device in enumerate(("kilo0", "mw0", "vpn0"))
    )

    assert {"10.0.0.0/24"} == _view(wireguard=states).carried()


@pytest.mark.parametrize(
    ("device", "expected"), [("flannel.1", {"10.0.1.0/24"}), ("cilium_vxlan", set()), (None, set())]
)
def test_what_was_routed_while_all_was_well_is_known_of_the_overlay_in_use(device, expected):
    """Another overlay device's state says nothing of this one, and without a state nothing is known."""
    entries = Entries(routes=(_route("10.0.1.0/24", "flannel.1"),))
    good = None if device is None else GoodState(device=device, entries=entries)

    assert expected == _view(good=good).routed_while_well()
