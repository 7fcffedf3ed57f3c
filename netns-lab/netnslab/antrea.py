"""Antrea in mode encap with VXLAN, as its agent leaves the kernel, with a bridge in Open vSwitch's place. Pure text.

    pod eth0 -- vethpod --.                                       .-- gw0-port == antrea-gw0 (10.10.N.1/24)
                           br-int ------------------------------- + -- vxlan_sys_4789 -- eth0

What the daemon sees is Antrea's: the port in the host with the node's address among its pods, a route to each other
node's pods by way of that one's port, and the tunnel's device by its name. The switch's tables are the bridge's and the
tunnel's FDB. So here the tunnel has its destinations by MAC, one for each node, where Open vSwitch gets one with each
packet and all nodes go by one MAC; and the port is a veth.
Source: antrea 2.x pkg/agent/route/route_linux.go, docs/design/ovs-pipeline.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from netnslab import pods
from netnslab.no_tunnel import NoTunnel
from netnslab.overlay import OverlayPlan
from netnslab.topology import Node, Topology

NAME = "antrea"
GATEWAY, BRIDGE, TUNNEL = "antrea-gw0", "br-int", "vxlan_sys_4789"
PORT, VNI = 4789, 1
LAN_MTU_BYTES = 1500
MTU_BYTES = LAN_MTU_BYTES - 50
TUNNEL_MTU_BYTES = 65485
"""Open vSwitch gives its tunnels the most there is, and leaves sizes to its ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Antrea(NoTunnel):
    """The pod network of a cluster, and what stands in the place of a fabric: no node has WireGuard."""

    relay_device: str = GATEWAY

    def plan(self, topology: Topology, node: Node, *, pod_network: Path, has_ipip_device: bool = False) -> OverlayPlan:
        """Switch, port, pod and tunnel, and route, neighbour and FDB entry of every other node."""
        del has_ipip_device
        others = [other for other in topology.nodes.values() if other.name != node.name]
        return OverlayPlan(
            ip=(
                f"link add {BRIDGE} type bridge forward_delay 0 stp_state 0 mcast_snooping 0",
                f"link set {BRIDGE} up",
                f"link add {GATEWAY} address {node.overlay_mac} mtu {MTU_BYTES} type veth peer name gw0-port",
                f"link set gw0-port master {BRIDGE} up",
                f"address add {node.pod_gateway_ip}/{node.pod_cidr.partition('/')[2]} dev {GATEWAY}",
                f"link set {GATEWAY} up",
                f"link add vethpod mtu {MTU_BYTES} type veth peer name eth0 mtu {MTU_BYTES} netns {pod_network}",
                f"link set vethpod master {BRIDGE} up",
                *tunnel_lines(),
                *(line for other in others for line in route_lines(other)),
            ),
            bridge=tuple(fdb_line(other) for other in others),
            pod=pods.pod_lines(node),
        )


def tunnel_lines() -> tuple[str, ...]:
    """Lines for `ip -batch` that make the tunnel's device; an MTU of that size it takes only afterwards."""
    return (
        f"link add {TUNNEL} type vxlan id {VNI} dstport {PORT} nolearning",
        f"link set {TUNNEL} mtu {TUNNEL_MTU_BYTES} master {BRIDGE} up",
    )


def route_lines(other: Node) -> tuple[str, ...]:
    """Lines for `ip -batch`: the way to another node's pods, and what the switch answers to ARP for its port."""
    return (
        f"neighbour replace {other.pod_gateway_ip} lladdr {other.overlay_mac} dev {GATEWAY} nud permanent",
        f"route add {other.pod_cidr} via {other.pod_gateway_ip} dev {GATEWAY} onlink",
    )


def fdb_line(other: Node) -> str:
    """A line for `bridge -batch`: behind which node another one's port is."""
    return f"fdb append {other.overlay_mac} dev {TUNNEL} dst {other.node_ip} self permanent"


ANTREA = Antrea()
