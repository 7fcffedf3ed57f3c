"""What a lab consists of: locations, nodes and addresses. Frozen data; `topology_file` reads it from TOML.

Addresses are canonical text ("10.2.0.13"), checked once while parsing, because they go into argument vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine, with one pod on it.

    Attributes:
        index: position in the file from 1; the source of its MAC addresses.
        node_ip: its address on its location's LAN.
        overlay_ip: the address of its overlay device, the gateway Kilo routes through.
        pod_gateway_ip, pod_ip: the bridge's and the pod's address inside pod_cidr.
        public_ip: where the wide area reaches it by 1:1 NAT; None when it cannot be reached.
        wireguard_ip: its own address on the mesh's WireGuard device, where every node has one; None where only
            locations have (Kilo).
    """

    name: str
    index: int
    location: str
    node_ip: str
    pod_cidr: str
    overlay_ip: str
    pod_gateway_ip: str
    pod_ip: str
    public_ip: str | None
    wireguard_ip: str | None = None

    @property
    def switch_port(self) -> str:
        """The switch side of its LAN cable, a bridge port in the wan namespace."""
        return f"{self.name}-eth0"

    @property
    def eth0_mac(self) -> str:
        """The address of its NIC: locally administered, the same in every run."""
        return f"02:4e:00:00:00:{self.index:02x}"

    @property
    def overlay_mac(self) -> str:
        """The address of its VXLAN device, which flannel publishes to all nodes."""
        return f"02:4e:01:00:00:{self.index:02x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Nodes on one LAN, with the leader that carries the traffic of all and its ranked standbys.

    Attributes:
        gateway: the address of the router, on the bridge in the wan namespace.
        keepalive_s: WireGuard's persistent keepalive of its nodes in seconds; 0 is off.
        nat_ip: the one address behind which all its nodes hide, with a table of connections; None: 1:1 NAT.
    """

    name: str
    lan: str
    gateway: str
    leader: str
    standbys: tuple[str, ...]
    wireguard_ip: str
    keepalive_s: int
    nat_ip: str | None = None

    @property
    def bridge(self) -> str:
        """The switch of this LAN, in the wan namespace."""
        return f"br-{self.name}"

    @property
    def relays(self) -> tuple[str, ...]:
        """The nodes that may relay for it, the leader first."""
        return (self.leader, *self.standbys)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireGuard:
    """The mesh's WireGuard device: the prefix of its addresses, its UDP port and its MTU."""

    cidr: str
    port: int
    mtu_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A whole lab, by name and in the order of the file.

    Attributes:
        fabric: who joins the locations by WireGuard: kilo, or wg-quick (every node with every other).
        overlay: the pod network.
        host_mesh: what runs on each node below WireGuard: nebula, or nothing.
        is_routed: the LANs reach each other by their own addresses, as peered networks do; else by public ones alone.
    """

    name: str
    overlay: str
    wireguard: WireGuard
    locations: Mapping[str, Location]
    nodes: Mapping[str, Node]
    fabric: str = "kilo"
    host_mesh: str = ""
    is_routed: bool = False

    def location_of(self, node: str) -> Location:
        """The location a node lives in."""
        return self.locations[self.nodes[node].location]

    def is_leader(self, node: str) -> bool:
        """Whether the node carries its location's traffic."""
        return self.location_of(node).leader == node

    def members(self, location: str) -> tuple[Node, ...]:
        """The nodes of one location."""
        return tuple(node for node in self.nodes.values() if node.location == location)

    def neighbours(self, node: str) -> tuple[Node, ...]:
        """The other nodes of a node's location."""
        return tuple(other for other in self.members(self.nodes[node].location) if other.name != node)

    def remote_locations(self, node: str) -> tuple[Location, ...]:
        """The locations a node does not live in."""
        return tuple(each for each in self.locations.values() if each.name != self.nodes[node].location)
