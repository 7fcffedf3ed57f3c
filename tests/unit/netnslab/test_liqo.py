"""The text that builds Liqo's kernel state, without a kernel."""

from __future__ import annotations

from pathlib import Path

from netnslab import liqo
from netnslab.liqo import LIQO, Liqo
from netnslab.overlays import overlay_of
from netnslab.topology_file import load

TOPOLOGY = load("liqo")
A2, A1, B1 = (TOPOLOGY.nodes[name] for name in ("a2", "a1", "b1"))


def plan(node, overlay=LIQO):
    """What a node gets."""
    return overlay.plan(TOPOLOGY, node, pod_network=Path("/run/pod"))


def test_a_node_has_a_device_a_table_and_two_rules():
    """As Liqo's fabric leaves them: priorities are the kernel's to choose."""
    lines = plan(A2).ip

    assert "link add liqo.west mtu 1340 type vxlan id 2 remote 10.244.1.2 dstport 6091 nolearning" in lines
    assert "address add 10.80.0.12/32 dev liqo.west" in lines
    assert f"route add 10.80.0.1/32 dev liqo.west scope link table {liqo.TABLE}" in lines
    assert f"route add 10.245.0.0/16 via 10.80.0.1 table {liqo.TABLE}" in lines
    assert f"rule add to 10.245.0.0/16 lookup {liqo.TABLE}" in lines
    assert f"rule add to 10.80.0.1/32 lookup {liqo.TABLE}" in lines
    assert () == plan(A2).nft
    assert not any("liqo" in line for line in plan(A2).pod)


def test_where_the_kernel_has_geneve_devices_may_be_of_that_kind():
    """The rest is the same."""
    assert any("type geneve id 2 remote 10.244.1.2" in line for line in plan(A2, Liqo(kind="geneve")).ip)


def test_the_pod_of_a_leader_is_the_gateway():
    """With a device for each node of its cluster, and the tunnel to the other gateway pod's node."""
    pod = plan(A1).pod

    assert "link add liqo-tunnel mtu 1400 type vxlan id 18 remote 198.51.100.21 dstport 51840 nolearning" in pod
    assert "address add 169.254.18.1/30 dev liqo-tunnel" in pod
    assert "address add 169.254.18.2/30 dev liqo-tunnel" in plan(B1).pod
    assert "link add liqo.a3 mtu 1340 type vxlan id 3 remote 192.168.100.13 dstport 6091 nolearning" in pod
    assert "route add 10.244.3.2/32 via 10.80.0.13 dev liqo.a3 onlink table 203" in pod
    assert "rule add iif liqo-tunnel lookup 203" in pod
    assert "dnat to 10.244.1.2" in "\n".join(plan(A1).nft)


def test_no_host_has_wireguard_and_the_overlay_is_found_by_its_name():
    """What stands for a fabric makes nothing."""
    assert LIQO is overlay_of(TOPOLOGY)
    assert not LIQO.has_device(TOPOLOGY, A1)
    assert ("", (), (), {}) == (
        LIQO.configuration(TOPOLOGY, A1, {}),
        LIQO.device_lines(TOPOLOGY, A1),
        LIQO.route_lines(TOPOLOGY, A1, LIQO),
        LIQO.files(TOPOLOGY, A1, {}),
    )
