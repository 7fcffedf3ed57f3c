"""What tunnels of Open vSwitch are called and cost, and whose ports are whose."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.open_vswitch import SWITCH_MESHES, outer_bytes, switch_mesh_of, tunnel_kind, tunnel_of
from tests.support.switch_node import CARD, GATEWAYS, TUNNEL, VXLAN, snapshot, without


@pytest.mark.parametrize(
    ("kind", "tunnel", "size"),
    [("antrea", None, 50), ("kube-ovn", None, 58), ("ovn-kubernetes", None, 58), ("kube-ovn", VXLAN, 50)],
)
def test_the_tunnel_costs_what_its_kind_and_makers_options_cost(kind, tunnel, size):
    """OVN has an option of 8 bytes in each Geneve header, and VXLAN has no room for one."""
    seen = snapshot(kind)
    links = (*(link for link in seen.links if tunnel is None or link.kind != "geneve"), *((tunnel,) if tunnel else ()))
    seen = msgspec.structs.replace(seen, links=links)

    assert size == outer_bytes(seen, GATEWAYS[kind].name)
    assert 0 == outer_bytes(seen, CARD.name)
    assert 0 == outer_bytes(without(seen, "genev_sys_6081", "vxlan_sys_4789"), GATEWAYS[kind].name)


def test_a_device_is_of_the_mesh_whose_pods_leave_by_it():
    """Antrea's WireGuard too; a card is nobody's."""
    assert SWITCH_MESHES["antrea"] is switch_mesh_of("antrea-wg0") is switch_mesh_of("antrea-gw0")
    assert SWITCH_MESHES["kube-ovn"] is switch_mesh_of("ovn0")
    assert None is switch_mesh_of("eth0")


def test_a_tunnel_is_known_by_the_name_that_open_vswitch_gives_it():
    """Whatever its port is."""
    assert TUNNEL == tunnel_of(snapshot("antrea"))
    assert None is tunnel_of(without(snapshot("antrea"), "genev_sys_6081"))
    assert ["geneve", "vxlan", "gre", "stt"] == [
        tunnel_kind(name) for name in ("genev_sys_6082", "vxlan_sys_4789", "gre_sys", "stt_sys_7471")
    ]
