"""Flannel recognised by its device, its entries and its files; both backends."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot, WireGuardPeer
from meshwatchd.model.sources import FlannelBackend, FlannelSubnet, Sources
from meshwatchd.profiles.flannel import look
from tests.support.node_states import flannel_over_wg0, kernel, kilo_flannel

SUBNET = FlannelSubnet(
    path="/run/flannel/subnet.env", network="10.244.0.0/16", pod_cidr="10.244.2.0/24", mtu_bytes=1450
)


def seen(snapshot, sources=None, declared=None):
    """What flannel's look says."""
    return look(snapshot, sources or Sources(), declared or MeshSettings(), NodeName("a2"))


def texts(view):
    """Its reasons in one text."""
    return "\n".join(f"{finding.source}: {finding.text}" for finding in view.why)


def test_a_node_is_known_by_the_kernel_alone():
    """The VXLAN device knows the node's address, and the bridge its pods."""
    view = seen(kilo_flannel("a2"))

    assert (("flannel",), "192.168.100.12", "10.244.2.0/24") == (view.profiles, view.node_ip, view.pod_cidr)
    assert ("flannel.1", "10.244.2.0", "02:4e:01:00:00:02") == (view.overlay_device, view.overlay_ip, view.vtep_mac)
    assert "its backend is vxlan, VNI 1 over eth0" in texts(view)
    assert "FDB of flannel.1: other nodes: 5" in texts(view)


def test_entries_name_all_nodes_and_routes_of_kilo_those_elsewhere():
    """Flannel takes all of them for one LAN."""
    assert {
        "192.168.100.11": True,
        "192.168.100.13": True,
        "10.2.0.11": False,
        "10.2.0.12": False,
        "10.2.0.13": False,
    } == {each.address: each.is_local for each in seen(kilo_flannel("a2")).candidates}


def test_subnet_env_tells_the_pods_where_no_bridge_does():
    """A node without a single pod has no bridge yet."""
    state = kilo_flannel("a2")
    bare = msgspec.structs.replace(state, links=tuple(link for link in state.links if link.name != "cni0"))

    assert "" == seen(bare).pod_cidr
    assert "10.244.2.0/24" == seen(bare, Sources(flannel=SUBNET)).pod_cidr
    assert "this node's pods are in 10.244.2.0/24, of 10.244.0.0/16" in texts(seen(bare, Sources(flannel=SUBNET)))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"pod_cidr": "10.244.9.0/24"}, "this node's pods are in 10.244.9.0/24, while flannel.1 has 10.244.2.0"),
        ({"mtu_bytes": 1370}, "pods have an MTU of 1370, while flannel.1 has 1450"),
    ],
)
def test_a_file_that_the_kernel_contradicts_is_not_believed(changed, text):
    """Flannel was given another subnet and its device is the old one, or the other way round."""
    view = seen(kilo_flannel("a2"), Sources(flannel=msgspec.structs.replace(SUBNET, **changed)))

    assert "10.244.2.0/24" == view.pod_cidr
    assert text in texts(view)


def test_over_wireguard_all_other_nodes_are_elsewhere():
    """The LAN of flannel is the tunnel."""
    view = seen(flannel_over_wg0())

    assert ("10.8.0.3", "wg0") == (view.node_ip, view.layers[0].over)
    assert [("10.8.0.1", False)] == [(each.address, each.is_local) for each in view.candidates]


def test_the_wireguard_backend_is_a_device_with_a_peer_for_each_node():
    """No neighbours and no FDB; where nodes are is their endpoint."""
    device = Link(name="flannel-wg", index=4, kind="wireguard", is_up=True, mtu_bytes=1420, addresses=("10.42.1.0",))
    peer = WireGuardPeer(public_key="k", endpoint="192.168.50.11:51820", allowed_ips=("10.42.2.0/24",))
    state = kernel(
        [msgspec.structs.replace(device, prefix_lengths=(32,))],
        ["10.42.0.0/16 dev flannel-wg scope link"],
        peers={"flannel-wg": [peer]},
    )
    subnet = msgspec.structs.replace(SUBNET, network="10.42.0.0/16", pod_cidr="10.42.1.0/24", mtu_bytes=1420)
    backend = FlannelBackend(path="net-conf.json", network="10.42.0.0/16", backend="wireguard")

    view = seen(state, Sources(flannel=subnet, flannel_backend=backend))

    assert ("flannel-wg", "flannel-wg", 1420) == (view.overlay_device, view.wireguard_device, view.wireguard_mtu_bytes)
    assert ("10.42.1.0", "10.42.1.0/24", "") == (view.overlay_ip, view.pod_cidr, view.vtep_mac)
    assert ["192.168.50.11"] == [each.address for each in view.candidates]
    assert "its backend is wireguard" in texts(view)
    assert "net-conf.json: the backend is wireguard" in texts(view)


def test_of_several_devices_the_declared_one_counts():
    """VNI 7 is somebody's own choice."""
    state = kilo_flannel("a2")
    other = next(link for link in state.links if link.vxlan is not None)
    state = msgspec.structs.replace(
        state, links=(*state.links, msgspec.structs.replace(other, name="flannel.7", index=70))
    )

    assert "flannel.1" == seen(state).overlay_device
    assert "flannel.7" == seen(state, declared=MeshSettings(overlay_device="flannel.7")).overlay_device


def test_a_node_without_flannel_says_so():
    """One reason; a device that only has the name is none."""
    fake = Link(name="flannel.1", index=4, kind="dummy", is_up=True, mtu_bytes=1500)

    for state in (Snapshot(), Snapshot(links=(fake,))):
        view = seen(state)
        assert ((), "flannel does not run here") == (view.profiles, texts(view).rpartition(": ")[2])
