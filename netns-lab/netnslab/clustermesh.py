"""Two clusters with Cilium, joined by Cluster Mesh and encrypted between all nodes, without eBPF and agents. Pure text.

    e1  pod -- cilium_vxlan -- cilium_wg0 -- eth0 -- router -- eth0 -- cilium_wg0 -- cilium_vxlan -- pod  w1

What the daemon sees is Cilium's: its devices and main routes (`netnslab.cilium`), a WireGuard peer for each node of
both clusters, and at the agent's socket what `cilium_agent` answers. Real Cilium hands VXLAN to cilium_wg0 in eBPF;
here a rule by its UDP port does. A location of the topology is a cluster, and the networks of the two are routed.
Source: cilium 1.19 pkg/wireguard/agent, pkg/clustermesh; tunnel mode.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from netnslab import cilium_agent
from netnslab.backends.model import Needs
from netnslab.cilium import CILIUM, ENCRYPTION, HOST, PORT
from netnslab.overlay import Overlay
from netnslab.topology import Node, Topology
from netnslab.wireguard import KeyPair, Peer, Program, render_configuration

NAME = "cilium-clustermesh"
DEVICE = ENCRYPTION
OVERHEAD_BYTES = 50
TABLE, PRIORITY = 2908, 102
"""Behind Cilium's tables and rules of the lab."""


class ClusterMesh:
    """The fabric: cilium_wg0 of each node, what leads VXLAN into it, and what stands for the agent."""

    device = DEVICE
    carries_overlay = True
    programs: tuple[Program, ...] = (Program(command=(sys.executable, "-P", "-m", "netnslab.cilium_agent")),)

    def has_device(self, topology: Topology, node: Node) -> bool:
        """Every node has it."""
        del topology, node
        return True

    def configuration(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
        """Key, port and peers, each for what a node has of its own."""
        port = topology.wireguard.port
        peers = [
            Peer(
                public_key=keys[other.name].public,
                allowed_ips=allowed_ips(other),
                endpoint=f"{other.node_ip}:{port}",
                keepalive_s=0,
            )
            for other in _others(topology, node)
        ]
        return render_configuration(private_key=keys[node.name].private, port=port, peers=peers)

    def device_lines(self, topology: Topology, node: Node) -> tuple[str, ...]:
        """Lines for `ip -batch`: MTU and up; the device has no address."""
        del node
        return (f"link set mtu {topology.wireguard.mtu_bytes} up dev {DEVICE}",)

    def route_lines(self, topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
        """What eBPF does with the overlay's packets on their way out."""
        del overlay
        return (
            f"rule add priority {PRIORITY} ipproto udp dport {PORT} lookup {TABLE} protocol kernel",
            *(
                f"route add {other.node_ip} dev {DEVICE} src {node.node_ip} proto kernel table {TABLE}"
                for other in _others(topology, node)
            ),
        )

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """What the agent's stand-in answers."""
        del keys
        return {
            cilium_agent.NODES: cilium_agent.nodes_text(topology, node),
            cilium_agent.HEALTH: cilium_agent.health_text(topology, node),
        }


def allowed_ips(node: Node) -> tuple[str, ...]:
    """A node's own addresses: of the host, of cilium_host and of its health endpoint."""
    return tuple(f"{each}/32" for each in (node.node_ip, node.overlay_ip, cilium_agent.health_ip(node)))


def _others(topology: Topology, node: Node) -> tuple[Node, ...]:
    return tuple(other for other in topology.nodes.values() if other.name != node.name)


CLUSTER_MESH = ClusterMesh()
CLUSTER_MESH_OVERLAY = replace(
    CILIUM, needs=Needs(vxlan_external=True), relay_device=HOST, ipip_device="", route_mtu_bytes=1405 - OVERHEAD_BYTES
)
"""Cilium takes what WireGuard adds (95 bytes of 1500) and what VXLAN adds off in its routes."""
