"""kilo-flannel on the kernel's own WireGuard: the same topology as elsewhere, without wireguard-go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netnslab import Lab, faults
from netnslab.capture import Capture
from netnslab.waiting import wait_until


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One lab for all tests: each leaves it as it was."""
    with Lab.up("kilo-flannel") as running:
        yield running


def _pods_reach_each_other(lab: Lab) -> bool:
    return lab.pod("b3").run(["ping", "-n", "-c", "1", "-W", "3", lab.pod("a3").ip]).returncode == 0


def test_kilo0_is_the_kernels(lab):
    """Where the kernel has WireGuard the lab uses it, on leaders and on the rest."""
    for node in lab.topology.nodes:
        detail = lab.node(node).run(["ip", "-d", "link", "show", "kilo0"], check=True).stdout
        assert "wireguard" in detail, node


def test_pod_packet_crosses_vxlan_wireguard_vxlan(lab):
    """b3's overlay, b1's kilo0, a1's overlay."""
    ping = "icmp 10.244.6.2 > 10.244.3.2"
    with (
        Capture(lab.node("b3"), "eth0") as cloud,
        Capture(lab.node("b1"), "kilo0") as tunnel,
        Capture(lab.node("b1"), "eth0") as wide_area,
        Capture(lab.node("a1"), "eth0") as onprem,
    ):
        assert _pods_reach_each_other(lab)

        assert ("vxlan 1 10.2.0.13 > 10.2.0.11", ping) in [packet.layers for packet in cloud.packets()]
        assert (ping,) in [packet.layers for packet in tunnel.packets()]
        assert ("wireguard 10.2.0.11 > 203.0.113.11",) in [packet.layers for packet in wide_area.packets()]
        assert ("vxlan 1 192.168.100.11 > 192.168.100.13", ping) in [packet.layers for packet in onprem.packets()]


def test_overlay_fault_can_be_injected_and_healed(lab):
    """A stock kernel has what the faults are made of: ingress hooks below the leader's VXLAN device."""
    with faults.overlay_black_hole(lab, leader="b1"):
        assert not _pods_reach_each_other(lab)
    wait_until(lambda: _pods_reach_each_other(lab), timeout_s=30, what="the pods to reach each other again")
