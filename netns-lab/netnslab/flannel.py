"""flannel's VXLAN backend, as flanneld and its CNI plugin leave it in the kernel and in files.

    pod eth0 -- veth -- cni0 (10.244.N.1/24) -- flannel.1 (10.244.N.0/32, VNI 1, UDP 8472) -- eth0, or wg0

Nothing is learned: for each other node there is one route, one permanent neighbour and one permanent FDB
entry (flannel pkg/backend/vxlan/vxlan_network.go, handleSubnetEvents).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from netnslab import pods, wg_quick
from netnslab.backends.model import Needs
from netnslab.overlay import OverlayPlan
from netnslab.topology import Node, Topology

VNI = 1
PORT = 8472
"""Linux's VXLAN port, which flannel keeps although IANA assigned 4789."""

OVERHEAD_BYTES = 50
"""Outer IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14."""

LAN_MTU_BYTES = 1500

SUBNET_FILE = Path("/run/flannel/subnet.env")
K3S_NET_CONF = Path("/var/lib/rancher/k3s/agent/etc/flannel/net-conf.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flannel:
    """The overlay of the kilo-flannel and flannel-wg topologies.

    Attributes:
        lower_device: what flannel.1 stands on (`--iface`, K3s's `--flannel-iface`).
        is_alone: nobody replaces its routes to other locations, as Kilo does.
    """

    needs: Needs = field(default_factory=Needs)
    relay_device: str = "flannel.1"
    ipip_device: str = ""
    lower_device: str = "eth0"
    is_alone: bool = False

    def plan(self, topology: Topology, node: Node, *, pod_network: Path, has_ipip_device: bool = False) -> OverlayPlan:
        """The pod's link, the VXLAN device, and route, neighbour and FDB entry of every other node.

        Under Kilo, routes to the own location only: those to other locations are there as well under plain flannel,
        but Kilo replaces each by its own of the same prefix.
        """
        del has_ipip_device  # flannel's packets go by VXLAN alone
        mtu_bytes = self.mtu_bytes(topology)
        peers = [other for other in topology.nodes.values() if other.name != node.name]
        routed = peers if self.is_alone else topology.neighbours(node.name)
        lines = [
            *pods.bridge_lines(node, pod_network=pod_network, mtu_bytes=mtu_bytes),
            *self.device_lines(topology, node),
            *(f"neighbour replace {self.neighbour(other)} dev {self.relay_device} nud permanent" for other in peers),
            *(self.route_line(other) for other in routed),
        ]
        return OverlayPlan(
            ip=tuple(lines),
            bridge=tuple(self.fdb_line(other) for other in peers),
            pod=pods.pod_lines(node),
            files=self.files(topology, node),
        )

    def mtu_bytes(self, topology: Topology) -> int:
        """Of flannel.1 and of all that is behind it: flanneld takes 50 off its interface's."""
        lower = topology.wireguard.mtu_bytes if self.lower_device == wg_quick.DEVICE else LAN_MTU_BYTES
        return lower - OVERHEAD_BYTES

    def vtep_ip(self, node: Node) -> str:
        """Where VXLAN packets to a node are sent: flannel's PublicIP of that node."""
        return wg_quick.address(node) if self.lower_device == wg_quick.DEVICE else node.node_ip

    def device_lines(
        self, topology: Topology, node: Node, *, mac: str | None = None, vni: int = VNI, port: int = PORT
    ) -> tuple[str, ...]:
        """Lines for `ip -batch` that make flannel.1 as flanneld does: nothing is learned."""
        device, mtu_bytes = self.relay_device, self.mtu_bytes(topology)
        vxlan = f"type vxlan id {vni} local {self.vtep_ip(node)} dev {self.lower_device} dstport {port} nolearning"
        return (
            f"link add {device} address {mac or node.overlay_mac} mtu {mtu_bytes} {vxlan}",
            f"address add {node.overlay_ip}/32 dev {device}",
            f"link set {device} up",
        )

    def neighbour(self, other: Node) -> str:
        """Address and hardware address of another node's VXLAN device, as `ip neighbour` takes them."""
        return f"{other.overlay_ip} lladdr {other.overlay_mac}"

    def fdb_line(self, other: Node) -> str:
        """A line for `bridge -batch`: behind which address another node's VXLAN device is."""
        return f"fdb append {other.overlay_mac} dev {self.relay_device} dst {self.vtep_ip(other)} self permanent"

    def route_line(self, other: Node) -> str:
        """A line for `ip -batch`: the way to another node's pods."""
        return f"route add {other.pod_cidr} via {other.overlay_ip} dev {self.relay_device} proto boot onlink"

    def files(self, topology: Topology, node: Node) -> dict[Path, str]:
        """subnet.env, which tells the CNI plugin what flanneld knows; K3s leaves flannel's configuration beside it."""
        length = node.pod_cidr.partition("/")[2]
        network = pod_network_of(topology)
        text = (
            f"FLANNEL_NETWORK={network}\nFLANNEL_SUBNET={node.pod_gateway_ip}/{length}\n"
            f"FLANNEL_MTU={self.mtu_bytes(topology)}\nFLANNEL_IPMASQ=true\n"
        )
        if not self.is_alone:
            return {SUBNET_FILE: text}
        conf = f'{{\n\t"Network": "{network}",\n\t"Backend": {{\n\t"Type": "vxlan"\n}}\n}}\n'
        return {SUBNET_FILE: text, K3S_NET_CONF: conf}


def pod_network_of(topology: Topology) -> str:
    """The /16 of all pods (`--cluster-cidr`)."""
    first = next(iter(topology.nodes.values()))
    return str(ipaddress.IPv4Network(first.pod_cidr).supernet(new_prefix=16))


FLANNEL = Flannel()

FLANNEL_OVER_WIREGUARD = Flannel(lower_device=wg_quick.DEVICE, is_alone=True)
