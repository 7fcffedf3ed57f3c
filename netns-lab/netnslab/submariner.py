"""What Submariner's route agent and gateway leave in the kernel, with the WireGuard cable. Pure text.

    worker    <remote CIDR> via 240.<gateway> dev vx-submariner proto static
    gateway   rule 150 -> table 150: <remote CIDR> dev submariner src <CNI address> scope link proto static

The clusters' own CNI is the plainest there is: a route to each other node's pods by way of that node's address.
Source: submariner 0.19, pkg/routeagent_driver/handlers/kubeproxy, pkg/vxlan, pkg/cable/wireguard.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from netnslab import pods
from netnslab.backends.model import Needs
from netnslab.overlay import Overlay, OverlayPlan
from netnslab.topology import Location, Node, Topology
from netnslab.wireguard import KeyPair, Peer, Program, render_configuration

DEVICE = "submariner"
VXLAN = "vx-submariner"
VNI, PORT = 100, 4800
TABLE = PRIORITY = 150

LAN_MTU_BYTES = 1500
VXLAN_MTU_BYTES = LAN_MTU_BYTES - 50

ANYBODY = "00:00:00:00:00:00"
SERVICES_FIRST = 96
"""kubeadm's 10.96.0.0, of the first cluster; the next has 10.97.0.0."""


def remote_cidrs(topology: Topology, location: Location) -> tuple[str, ...]:
    """The prefixes of one cluster that the other one routes: its pods and its services."""
    first = topology.members(location.name)[0]
    place = list(topology.locations).index(location.name)
    return (
        str(ipaddress.IPv4Network(first.pod_cidr).supernet(new_prefix=16)),
        f"10.{SERVICES_FIRST + place}.0.0/16",
    )


def _beyond(topology: Topology, node: Node) -> Iterator[str]:
    for location in topology.remote_locations(node.name):
        yield from remote_cidrs(topology, location)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmarinerOverlay:
    """The pod network of a cluster with the route agent's VXLAN device beside it."""

    needs: Needs = field(default_factory=Needs)
    relay_device: str = VXLAN
    ipip_device: str = ""

    def plan(self, topology: Topology, node: Node, *, pod_network: Path, has_ipip_device: bool = False) -> OverlayPlan:
        """The pod's link, routes to the neighbours' pods, and the route agent's device, routes and NAT."""
        del has_ipip_device
        neighbours = topology.neighbours(node.name)
        is_gateway = topology.is_leader(node.name)
        routes = (f"route add {other.pod_cidr} via {other.node_ip} dev eth0 proto boot" for other in neighbours)
        return OverlayPlan(
            ip=(
                *pods.bridge_lines(node, pod_network=pod_network, mtu_bytes=LAN_MTU_BYTES),
                *routes,
                *vxlan_lines(topology, node),
            ),
            # The route agent appends one for every node of the cluster, the gateway's own among them.
            bridge=tuple(fdb_line(other) for other in topology.members(node.location)) if is_gateway else (),
            nft=tuple(_nat(topology, node)),
            sysctls={f"net/ipv4/conf/{VXLAN}/rp_filter": "2", "net/ipv4/conf/all/send_redirects": "0"},
            pod=pods.pod_lines(node),
        )


def vxlan_lines(topology: Topology, node: Node) -> tuple[str, ...]:
    """Lines for `ip -batch` that make the device; on a worker all of its frames go to the gateway."""
    gateway = topology.nodes[topology.location_of(node.name).leader]
    group = "" if gateway.name == node.name else f" remote {gateway.node_ip}"
    return (
        f"link add {VXLAN} mtu {VXLAN_MTU_BYTES} type vxlan id {VNI}{group} dstport {PORT}",
        f"address add {node.overlay_ip}/8 dev {VXLAN}",
        f"link set {VXLAN} up",
    )


def fdb_line(other: Node) -> str:
    """A line for `bridge -batch` on the gateway: frames for everybody go to this node as well."""
    return f"fdb append {ANYBODY} dev {VXLAN} dst {other.node_ip} self permanent"


def _nat(topology: Topology, node: Node) -> Iterator[str]:
    """Pods keep their addresses; what the host itself sends takes its address among the pods."""
    chain = "ip submariner SUBMARINER-POSTROUTING"
    yield "add table ip submariner"
    yield f"add chain {chain} {{ type nat hook postrouting priority srcnat - 10; }}"
    own = ", ".join(remote_cidrs(topology, topology.location_of(node.name)))
    remote = ", ".join(_beyond(topology, node))
    yield f"add rule {chain} ip saddr {{ {own} }} ip daddr {{ {remote} }} accept"
    yield f"add rule {chain} ip saddr {{ {remote} }} ip daddr {{ {own} }} accept"
    yield f'add rule {chain} oifname "{VXLAN}" ip saddr 240.0.0.0/8 snat to {node.pod_gateway_ip}'


class Submariner:
    """The fabric: the WireGuard cable between the gateways, and everybody's routes towards it."""

    device = DEVICE
    carries_overlay = False
    programs: tuple[Program, ...] = ()

    def has_device(self, topology: Topology, node: Node) -> bool:
        """The active gateway alone has a cable."""
        return topology.is_leader(node.name)

    def configuration(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
        """The cable's key, port and peers: the gateway of each other cluster, for all prefixes of that cluster."""
        keepalive_s = topology.location_of(node.name).keepalive_s
        port = topology.wireguard.port
        peers = [
            Peer(
                public_key=keys[location.leader].public,
                allowed_ips=remote_cidrs(topology, location),
                endpoint=f"{topology.nodes[location.leader].public_ip}:{port}",
                keepalive_s=keepalive_s,
            )
            for location in topology.remote_locations(node.name)
        ]
        return render_configuration(private_key=keys[node.name].private, port=port, peers=peers)

    def device_lines(self, topology: Topology, node: Node) -> tuple[str, ...]:
        """Lines for `ip -batch`: MTU and up; the device has no address."""
        del node
        return (f"link set {DEVICE} mtu {topology.wireguard.mtu_bytes} up",)

    def route_lines(self, topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
        """The gateway's rule and table, or a worker's routes by way of the gateway."""
        del overlay
        if not self.has_device(topology, node):
            gateway = topology.nodes[topology.location_of(node.name).leader]
            return tuple(route_line(prefix, gateway) for prefix in _beyond(topology, node))
        return (
            f"rule add pref {PRIORITY} lookup {TABLE}",
            *(table_line(prefix, node) for prefix in _beyond(topology, node)),
        )

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """All that Submariner keeps is in the cluster's API."""
        del topology, node, keys
        return {}


def route_line(prefix: str, gateway: Node) -> str:
    """A line for `ip -batch`: a worker's way to the other cluster."""
    return f"route add {prefix} via {gateway.overlay_ip} dev {VXLAN} proto static"


def table_line(prefix: str, node: Node) -> str:
    """A line for `ip -batch`: the gateway's way into its cable."""
    return f"route add {prefix} dev {DEVICE} src {node.pod_gateway_ip} scope link proto static table {TABLE}"


SUBMARINER = Submariner()
SUBMARINER_OVERLAY = SubmarinerOverlay()
