"""What Liqo's fabric and gateway pods leave in the kernel, with VXLAN in the place of Geneve and WireGuard. Pure text.

    a2 == liqo.west, VNI of a2, UDP 6091 == pod/a1 == liqo-tunnel, UDP 51840 == pod/b1 == liqo.east == b2
          10.80.0.12/32                 10.80.0.1   169.254.18.1/30                         10.80.0.12/32

The pod of each cluster's leader is its gateway pod. From a node, rules by destination lead packets for the other
cluster to a table whose routes go to the gateway's address inside of the tunnel; from the other cluster they come to a
pod by the tunnel of its node, and to anything else by the cluster's own network, which is the plainest there is: a
route to each other node's pods by way of that node's address.

Source: liqo 1.x, pkg/fabric, pkg/gateway, pkg/liqo-controller-manager/networking/internal-network.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netnslab import pods
from netnslab.no_tunnel import NoTunnel
from netnslab.overlay import OverlayPlan
from netnslab.topology import Location, Node, Topology

NAME = "liqo"
TUNNEL = "liqo-tunnel"
GATEWAY_IP = "10.80.0.1"
"""Of each cluster's gateway pod, inside of the tunnels to its nodes."""

PORT, TUNNEL_PORT = 6091, 51840
TUNNEL_VNI = 18
LAN_MTU_BYTES, TUNNEL_MTU_BYTES, MTU_BYTES = 1500, 1400, 1340
TABLE = 1_862_403_329
"""A hash of a name, as Liqo makes it: of 32 bits, and larger than any that people choose."""

NODE_TABLES = 200
"""In the gateway pod: of the first node, and so on."""
REMOTE_TABLE = 100

KIND = "vxlan"
"""Of the devices; where the kernel has it, `geneve` does as well."""


def device(topology: Topology, node: Node) -> str:
    """Liqo's device on a node: one for the other cluster."""
    (other,) = topology.remote_locations(node.name)
    return f"liqo.{other.name}"


def gateway_pod(topology: Topology, location: Location) -> str:
    """The address of a cluster's gateway pod among pods."""
    return topology.nodes[location.leader].pod_ip


def remote_cidr(topology: Topology, node: Node) -> str:
    """The pods of the other cluster."""
    (other,) = topology.remote_locations(node.name)
    return str(ipaddress.IPv4Network(topology.members(other.name)[0].pod_cidr).supernet(new_prefix=16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Liqo(NoTunnel):
    """The pod network of a cluster with Liqo beside it, and what stands in the place of a fabric.

    Attributes:
        kind: of Liqo's devices.
    """

    kind: str = KIND

    def plan(self, topology: Topology, node: Node, *, pod_network: Path, has_ipip_device: bool = False) -> OverlayPlan:
        """The pod's link, routes to the neighbours' pods, Liqo's device, routes and rules; on a leader its gateway."""
        del has_ipip_device
        is_gateway = topology.is_leader(node.name)
        neighbours = topology.neighbours(node.name)
        return OverlayPlan(
            ip=(
                *pods.bridge_lines(node, pod_network=pod_network, mtu_bytes=LAN_MTU_BYTES),
                *(f"route add {other.pod_cidr} via {other.node_ip} dev eth0 proto boot" for other in neighbours),
                *device_lines(topology, node, kind=self.kind),
                *route_lines(topology, node),
                *rule_lines(topology, node),
            ),
            nft=tuple(_node_port(node)) if is_gateway else (),
            pod=(*pods.pod_lines(node), *(gateway_lines(topology, node, kind=self.kind) if is_gateway else ())),
        )


def device_lines(topology: Topology, node: Node, *, kind: str = KIND, remote: str = "") -> tuple[str, ...]:
    """Lines for `ip -batch` that make Liqo's device on a node, to the gateway pod as it is or at another address."""
    name = device(topology, node)
    remote = remote or gateway_pod(topology, topology.location_of(node.name))
    return (
        f"link add {name} mtu {MTU_BYTES} {_type(kind, node.index, remote)}",
        address_line(topology, node),
        f"link set {name} up",
    )


def _type(kind: str, vni: int, remote: str) -> str:
    """Geneve knows one remote; VXLAN in its place must not learn another, as from a gateway pod that has moved."""
    return f"type {kind} id {vni} remote {remote} dstport {PORT}{' nolearning' * (kind == KIND)}"


def address_line(topology: Topology, node: Node) -> str:
    """A line for `ip -batch`: the node's address inside of the tunnel."""
    return f"address add {node.overlay_ip}/32 dev {device(topology, node)}"


def route_lines(topology: Topology, node: Node) -> tuple[str, ...]:
    """Lines for `ip -batch`: the way to the gateway pod, and by way of it to the other cluster."""
    return (
        f"route add {GATEWAY_IP}/32 dev {device(topology, node)} scope link table {TABLE}",
        f"route add {remote_cidr(topology, node)} via {GATEWAY_IP} table {TABLE}",
    )


def rule_lines(topology: Topology, node: Node) -> tuple[str, ...]:
    """Lines for `ip -batch`: what looks those routes up; the kernel chooses the priorities."""
    return tuple(f"rule add to {each} lookup {TABLE}" for each in (f"{GATEWAY_IP}/32", remote_cidr(topology, node)))


def gateway_lines(topology: Topology, node: Node, *, kind: str = KIND) -> Iterator[str]:
    """Lines for `ip -batch` in the gateway pod: a device for each node, and the tunnel."""
    location = topology.location_of(node.name)
    (other,) = topology.remote_locations(node.name)
    is_server = location == next(iter(topology.locations.values()))
    own, peer = ("169.254.18.1", "169.254.18.2") if is_server else ("169.254.18.2", "169.254.18.1")
    far = topology.nodes[other.leader].public_ip
    tunnel = f"type vxlan id {TUNNEL_VNI} remote {far} dstport {TUNNEL_PORT} nolearning"
    yield f"link add {TUNNEL} mtu {TUNNEL_MTU_BYTES} {tunnel}"
    yield f"address add {own}/30 dev {TUNNEL}"
    yield f"link set {TUNNEL} up"
    yield f"route add {remote_cidr(topology, node)} via {peer} dev {TUNNEL} table {REMOTE_TABLE}"
    for member in topology.members(location.name):
        name, table = f"liqo.{member.name}", NODE_TABLES + member.index
        yield f"link add {name} mtu {MTU_BYTES} {_type(kind, member.index, member.node_ip)}"
        yield f"address add {GATEWAY_IP}/32 dev {name}"
        yield f"link set {name} up"
        yield f"route add {member.overlay_ip}/32 dev {name} scope link table {table}"
        if member.name != node.name:
            yield f"route add {member.pod_ip}/32 via {member.overlay_ip} dev {name} onlink table {table}"
        yield f"rule add to {member.overlay_ip}/32 lookup {table}"
        yield f"rule add iif {TUNNEL} lookup {table}"
        yield f"rule add iif {name} to {remote_cidr(topology, node)} lookup {REMOTE_TABLE}"


def _node_port(node: Node) -> Iterator[str]:
    """The gateway pod's port at its node, as a service has it; answers leave by the node's address."""
    yield "table ip liqo {"
    yield " chain to_pod {"
    yield "  type nat hook prerouting priority dstnat;"
    yield f"  udp dport {TUNNEL_PORT} ip daddr {node.node_ip} dnat to {node.pod_ip}"
    yield " }"
    yield " chain from_pod {"
    yield "  type nat hook postrouting priority srcnat;"
    yield f'  oifname "eth0" udp dport {TUNNEL_PORT} ip saddr {node.pod_ip} snat to {node.node_ip}'
    yield " }"
    yield "}"


LIQO = Liqo()
