"""The text that builds Cilium's kernel state, without a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from netnslab.cilium import CILIUM, HOST_TABLE, POD_TABLE
from netnslab.topology_file import load

TOPOLOGY = load("kilo-cilium")
PLANS = {name: CILIUM.plan(TOPOLOGY, node, pod_network=Path("/run/pod")) for name, node in TOPOLOGY.nodes.items()}


@pytest.mark.parametrize("name", TOPOLOGY.nodes)
@pytest.mark.parametrize("table", [HOST_TABLE, POD_TABLE])
def test_every_other_node_is_a_tunnel_endpoint(name, table):
    """The ipcache's stand-in sends each pod CIDR to its node's own address, whatever the location."""
    expected = {(other.pod_cidr, other.node_ip) for other in TOPOLOGY.nodes.values() if other.name != name}
    words = [line.split() for line in PLANS[name].ip if line.endswith(f"table {table}") and " encap " in line]

    assert expected == {(line[2], line[line.index("dst") + 1]) for line in words}


@pytest.mark.parametrize("name", TOPOLOGY.nodes)
def test_own_pods_are_not_sent_round_again(name):
    """Both tables end at the own CIDR: the main route leads to cilium_host, which leads back to the table."""
    own = TOPOLOGY.nodes[name].pod_cidr

    assert 2 == len([line for line in PLANS[name].ip if line.startswith(f"route add blackhole {own} ")])


def test_inner_frames_are_addressed_to_the_receiving_device():
    """The neighbour entry on b3 holds the very address that a3 gives its cilium_vxlan."""
    device = next(line for line in PLANS["a3"].ip if line.startswith("link add cilium_vxlan"))
    mac = device.split()[device.split().index("address") + 1]

    assert f"neighbour replace 10.244.3.73 lladdr {mac} dev cilium_vxlan nud permanent" in PLANS["b3"].ip


def test_devices_without_an_address_have_no_reverse_path_filter():
    """Even the loose filter drops there, and what comes out of tunl0 has its way back elsewhere."""
    sysctls = PLANS["b1"].sysctls

    assert {"0"} == {sysctls[f"net/ipv4/conf/{device}/rp_filter"] for device in ("tunl0", "cilium_vxlan", "lxc0")}
