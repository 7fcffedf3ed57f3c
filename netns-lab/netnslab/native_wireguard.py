"""A mesh whose pods are routed straight into WireGuard: flannel's wireguard backend, and K3s's `wireguard-native`.

    pod eth0 -- veth -- cni0 (10.42.N.1/24) -- flannel-wg (10.42.N.0/32, UDP 51820) -- eth0

Each node is a peer of each other one, for the prefix of its pods, and there is one route for the pods of all. Whatever
changes it afterwards stays as it is: flannel looks at its route, its peers and their endpoints when nodes come and go,
and at no other time (flannel pkg/backend/wireguard, wireguard_network.go and device.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from netnslab import nebula, pods
from netnslab.backends.model import Needs
from netnslab.flannel import K3S_NET_CONF, SUBNET_FILE, pod_network_of
from netnslab.overlay import Overlay, OverlayPlan
from netnslab.topology import Node, Topology
from netnslab.wireguard import KeyPair, Peer, Program, render_configuration

FLANNEL_DEVICE = "flannel-wg"
THIRD_PARTY_DEVICE = "hex0"
"""Of the mesh of a third party, which the daemon is told of by a package (samples/hexmesh)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeOverlay:
    """The pods of a node; what carries them is the fabric's device.

    Attributes:
        is_flannels: flanneld leaves its files.
    """

    needs: Needs = field(default_factory=Needs)
    relay_device: str
    ipip_device: str = ""
    is_flannels: bool

    def plan(self, topology: Topology, node: Node, *, pod_network: Path, has_ipip_device: bool = False) -> OverlayPlan:
        """The pod's link, and flannel's files."""
        del has_ipip_device
        mtu_bytes = topology.wireguard.mtu_bytes
        return OverlayPlan(
            ip=pods.bridge_lines(node, pod_network=pod_network, mtu_bytes=mtu_bytes),
            pod=pods.pod_lines(node),
            files=self._files(topology, node) if self.is_flannels else {},
        )

    def _files(self, topology: Topology, node: Node) -> dict[Path, str]:
        network, length = pod_network_of(topology), node.pod_cidr.partition("/")[2]
        text = (
            f"FLANNEL_NETWORK={network}\nFLANNEL_SUBNET={node.pod_gateway_ip}/{length}\n"
            f"FLANNEL_MTU={topology.wireguard.mtu_bytes}\nFLANNEL_IPMASQ=true\n"
        )
        conf = f'{{\n\t"Network": "{network}",\n\t"Backend": {{\n\t"Type": "wireguard"\n}}\n}}\n'
        return {SUBNET_FILE: text, K3S_NET_CONF: conf}


class NativeWireGuard:
    """The fabric: the device of each node, with a peer for each other one.

    Args:
        device: its name.
    """

    carries_overlay = True
    programs: tuple[Program, ...] = ()

    def __init__(self, device: str) -> None:
        self.device = device

    def has_device(self, topology: Topology, node: Node) -> bool:
        """Every node has it."""
        del topology, node
        return True

    def configuration(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
        """Key, port and peers; the endpoint is a node's public address, behind a NAT as well."""
        own = topology.location_of(node.name)
        port = topology.wireguard.port
        peers = [
            Peer(
                public_key=keys[other.name].public,
                allowed_ips=(other.pod_cidr,),
                endpoint=endpoint_of(topology, node, other),
                keepalive_s=own.keepalive_s,
            )
            for other in topology.nodes.values()
            if other.name != node.name
        ]
        return render_configuration(private_key=keys[node.name].private, port=port, peers=peers)

    def device_lines(self, topology: Topology, node: Node) -> tuple[str, ...]:
        """Lines for `ip -batch`: the first address of the node's pods, MTU, up."""
        return (
            f"address add {node.overlay_ip}/32 dev {self.device}",
            f"link set mtu {topology.wireguard.mtu_bytes} up dev {self.device}",
            route_line(topology, self.device),
        )

    def route_lines(self, topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
        """None: the one there is needs the device to be up, and comes with it."""
        del topology, node, overlay
        return ()

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """None that a daemon reads: the key is in memory, or in a file of the agent's own."""
        del topology, node, keys
        return {}


def endpoint_of(topology: Topology, node: Node, other: Node) -> str:
    """Where a node sends to another one at first: flannel's PublicIP of it, with the mesh's port."""
    if topology.host_mesh:
        return f"{nebula.address(other)}:{topology.wireguard.port}"
    host = other.node_ip if other.location == node.location else other.public_ip
    return f"{host or topology.location_of(other.name).nat_ip}:{topology.wireguard.port}"


def route_line(topology: Topology, device: str) -> str:
    """A line for `ip -batch`: the way to the pods of all other nodes."""
    return f"route add {pod_network_of(topology)} dev {device} scope link proto boot"


FLANNEL_NATIVE = NativeWireGuard(FLANNEL_DEVICE)
FLANNEL_NATIVE_OVERLAY = NativeOverlay(relay_device=FLANNEL_DEVICE, is_flannels=True)

HEXMESH = NativeWireGuard(THIRD_PARTY_DEVICE)
HEXMESH_OVERLAY = NativeOverlay(relay_device=THIRD_PARTY_DEVICE, is_flannels=False)
