"""flannel's VXLAN backend, as flanneld and its CNI plugin leave it in the kernel.

    pod eth0 -- veth -- cni0 (10.244.N.1/24) -- flannel.1 (10.244.N.0/32, VNI 1, UDP 8472) -- eth0

Nothing is learned: for each other node there is one route, one permanent neighbour and one permanent FDB
entry (flannel pkg/backend/vxlan/vxlan_network.go, handleSubnetEvents).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from netnslab import pods
from netnslab.backends.model import Needs
from netnslab.overlay import OverlayPlan
from netnslab.topology import Node, Topology

VNI = 1
PORT = 8472
"""Linux's VXLAN port, which flannel keeps although IANA assigned 4789."""

OVERHEAD_BYTES = 50
"""Outer IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14."""

MTU_BYTES = 1500 - OVERHEAD_BYTES
"""Of flannel.1 and of all that is behind it, on a LAN of the usual 1500."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flannel:
    """The overlay of the kilo-flannel topologies."""

    needs: Needs = field(default_factory=Needs)
    relay_device: str = "flannel.1"
    ipip_device: str = ""

    def plan(self, topology: Topology, node: Node, *, pod_network: Path) -> OverlayPlan:
        """The pod's link, the VXLAN device, and route, neighbour and FDB entry of every other node.

        Routes to the own location only: those to other locations are there as well under plain flannel, but
        Kilo replaces each by its own of the same prefix.
        """
        device = self.relay_device
        vxlan = f"type vxlan id {VNI} local {node.node_ip} dev eth0 dstport {PORT} nolearning"
        lines = [
            *pods.bridge_lines(node, pod_network=pod_network, mtu_bytes=MTU_BYTES),
            f"link add {device} address {node.overlay_mac} mtu {MTU_BYTES} {vxlan}",
            f"address add {node.overlay_ip}/32 dev {device}",
            f"link set {device} up",
        ]
        fdb = []
        for other in topology.nodes.values():
            if other.name != node.name:
                neighbour = f"{other.overlay_ip} lladdr {other.overlay_mac}"
                lines.append(f"neighbour replace {neighbour} dev {device} nud permanent")
                fdb.append(f"fdb append {other.overlay_mac} dev {device} dst {other.node_ip} self permanent")
        lines += [
            f"route add {other.pod_cidr} via {other.overlay_ip} dev {device} proto boot onlink"
            for other in topology.neighbours(node.name)
        ]
        return OverlayPlan(ip=tuple(lines), bridge=tuple(fdb), pod=pods.pod_lines(node))


FLANNEL = Flannel()
