"""What a running Kilo agent leaves in the kernel, rendered without Kilo: kilo0, peers, routes, rules.

`mesh-granularity=location`: the leader of a location speaks WireGuard for all its nodes, and packets between
locations walk

    b3 --overlay--> b1 (leader) --kilo0--> a1 (leader) --overlay--> a3

and the state that makes them do so is, on a leader, routes over kilo0 and rules that deliver what comes out
of kilo0; on everyone else, the same routes by way of the leader's overlay address. Verified against real
Kilo (squat/kilo 0.7.0, pkg/mesh/routes.go, pkg/mesh/topology.go), including what looks odd: kilo0 exists on
non-leaders as well, down, with the address, key and peers it had when the node led.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from netnslab.overlay import Overlay
from netnslab.topology import Location, Node, Topology
from netnslab.wireguard import KeyPair, Peer, Program, render_configuration

DEVICE = "kilo0"

TABLE = 1107
"""kiloTableIndex: delivery into the own location of what comes out of kilo0."""


def device_lines(topology: Topology, node: Node) -> tuple[str, ...]:
    """Lines for `ip -batch` that dress an existing kilo0: MTU, address, and up on leaders only."""
    prefix_length = topology.wireguard.cidr.partition("/")[2]
    address = f"{topology.location_of(node.name).wireguard_ip}/{prefix_length}"
    state = "up" if topology.is_leader(node.name) else "down"
    return (
        f"link set {DEVICE} mtu {topology.wireguard.mtu_bytes}",
        f"address add {address} dev {DEVICE}",
        f"link set {DEVICE} {state}",
    )


def route_lines(topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
    """Lines for `ip -batch`: all of Kilo's routes and rules on one node."""
    if topology.is_leader(node.name):
        return (*_leader_routes(topology, node), *_delivery(topology, node, overlay))
    return tuple(_member_routes(topology, node, overlay))


def allowed_ips(topology: Topology, location: Location) -> tuple[str, ...]:
    """What the leader of `location` may send: pods and address of each node, then its WireGuard address."""
    prefixes = [prefix for node in topology.members(location.name) for prefix in (node.pod_cidr, f"{node.node_ip}/32")]
    return (*prefixes, f"{location.wireguard_ip}/32")


def configuration(topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
    """kilo0's key, port and peers for `wg setconf`: the leader of each other location.

    The keepalive of a node's peers is the node's own annotation, not the peer's (topology.go,
    PersistentKeepalive).
    """
    own = topology.location_of(node.name)
    peers = []
    for location in topology.remote_locations(node.name):
        leader = topology.nodes[location.leader]
        endpoint = f"{leader.public_ip}:{topology.wireguard.port}" if leader.public_ip else None
        peers.append(
            Peer(
                public_key=keys[leader.name].public,
                allowed_ips=allowed_ips(topology, location),
                endpoint=endpoint,
                keepalive_s=own.keepalive_s,
            )
        )
    return render_configuration(private_key=keys[node.name].private, port=topology.wireguard.port, peers=peers)


def _leader_routes(topology: Topology, node: Node) -> Iterator[str]:
    for location in topology.remote_locations(node.name):
        for remote in topology.members(location.name):
            for prefix in (remote.node_ip, remote.pod_cidr):
                yield (
                    f"route replace {prefix} via {location.wireguard_ip} dev {DEVICE}"
                    f" proto static src {node.node_ip} onlink"
                )


def _delivery(topology: Topology, node: Node, overlay: Overlay) -> Iterator[str]:
    """Rules and routes that hand what comes out of kilo0 for a neighbour's node address to the overlay.

    The rules carry neither priority nor protocol: the kernel puts each before the one added last.
    """
    for neighbour in topology.neighbours(node.name):
        yield (
            f"route replace {neighbour.node_ip} via {neighbour.overlay_ip} dev {overlay.relay_device}"
            f" proto static onlink table {TABLE}"
        )
        yield f"rule add to {neighbour.node_ip} iif {DEVICE} lookup {TABLE}"


def _member_routes(topology: Topology, node: Node, overlay: Overlay) -> Iterator[str]:
    leader = topology.nodes[topology.location_of(node.name).leader]
    prefixes = [location.wireguard_ip for location in topology.locations.values()]
    for location in topology.remote_locations(node.name):
        for remote in topology.members(location.name):
            prefixes += [remote.node_ip, remote.pod_cidr]
    for prefix in prefixes:
        yield (
            f"route replace {prefix} via {leader.overlay_ip} dev {overlay.relay_device}"
            f" proto static src {node.node_ip} onlink"
        )


class Kilo:
    """The fabric of the kilo topologies; it has no files, and its routes need the overlay."""

    device = DEVICE
    carries_overlay = False
    programs: tuple[Program, ...] = ()

    def has_device(self, topology: Topology, node: Node) -> bool:
        """Every node has it, up on leaders alone."""
        del topology, node
        return True

    def configuration(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
        """See `configuration`."""
        return configuration(topology, node, keys)

    def device_lines(self, topology: Topology, node: Node) -> tuple[str, ...]:
        """See `device_lines`."""
        return device_lines(topology, node)

    def route_lines(self, topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
        """See `route_lines`."""
        return route_lines(topology, node, overlay)

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """Kilo keeps its keys in annotations and in its own directory, which nobody else reads."""
        del topology, node, keys
        return {}


KILO = Kilo()
