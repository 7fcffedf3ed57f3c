"""wg0 on every node, a peer of every other, as wg-quick makes it from /etc/wireguard/wg0.conf. Pure text.

AllowedIPs are the peers' WireGuard addresses and nothing else: what flannel sends through it is addressed to those,
and a pod CIDR among them would make wg-quick compete with flannel's routes (overlays.md A.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from netnslab.errors import LabError
from netnslab.overlay import Overlay
from netnslab.topology import Node, Topology
from netnslab.wireguard import KeyPair, Peer, Program, render_configuration

DEVICE = "wg0"

FILE = Path("/etc/wireguard/wg0.conf")
K3S_FILE = Path("/etc/rancher/k3s/config.yaml")


def address(node: Node) -> str:
    """The node's own address on wg0.

    Raises:
        LabError: the topology gives it none.
    """
    if node.wireguard_ip is None:
        raise LabError(f"node {node.name} has no wireguard_ip, and with fabric wg-quick every node needs one")
    return node.wireguard_ip


class WgQuick:
    """The fabric of the flannel-wg topologies.

    Args:
        carries_pods: pods are among AllowedIPs, since no overlay hides them; and there is no K3s.
    """

    device = DEVICE
    carries_overlay = True
    programs: tuple[Program, ...] = ()

    def __init__(self, *, carries_pods: bool = False) -> None:
        self._carries_pods = carries_pods

    def has_device(self, topology: Topology, node: Node) -> bool:
        """Every node has it."""
        del topology, node
        return True

    def configuration(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
        """What `wg-quick strip` leaves of the file: keys, port and peers for `wg setconf`."""
        peers = [peer for _, peer in self._peers(topology, node, keys)]
        return render_configuration(private_key=keys[node.name].private, port=topology.wireguard.port, peers=peers)

    def device_lines(self, topology: Topology, node: Node) -> tuple[str, ...]:
        """Lines for `ip -batch` that do what wg-quick does: address, MTU, up; the /24 routes the peers."""
        return (
            f"address add {_address_with_length(topology, node)} dev {DEVICE}",
            f"link set mtu {topology.wireguard.mtu_bytes} up dev {DEVICE}",
        )

    def route_lines(self, topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
        """None: every peer is on the device's own prefix."""
        del topology, node, overlay
        return ()

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """wg-quick's file, and K3s told to run flannel over wg0."""
        lines = [
            "[Interface]",
            f"Address = {_address_with_length(topology, node)}",
            f"PrivateKey = {keys[node.name].private}",
            f"ListenPort = {topology.wireguard.port}",
            f"MTU = {topology.wireguard.mtu_bytes}",
        ]
        for name, peer in self._peers(topology, node, keys):
            lines += ["", "[Peer]", f"# {name}", *_peer_lines(peer)]
        text = "\n".join(lines) + "\n"
        if self._carries_pods:
            return {FILE: text}
        k3s = (f"node-name: {node.name}", f"node-ip: {address(node)}", f"flannel-iface: {DEVICE}")
        return {FILE: text, K3S_FILE: "\n".join(k3s) + "\n"}

    def _peers(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> list[tuple[str, Peer]]:
        """Every other node, by name; the NAT's side keeps the tunnel open, and nobody can call it first."""
        own = topology.location_of(node.name)
        peers = []
        for other in topology.nodes.values():
            if other.name == node.name:
                continue
            host = other.node_ip if other.location == node.location else other.public_ip
            peer = Peer(
                public_key=keys[other.name].public,
                allowed_ips=(f"{address(other)}/32", *((other.pod_cidr,) if self._carries_pods else ())),
                endpoint=f"{host}:{topology.wireguard.port}" if host else None,
                keepalive_s=own.keepalive_s,
            )
            peers.append((other.name, peer))
        return peers


def _address_with_length(topology: Topology, node: Node) -> str:
    return f"{address(node)}/{topology.wireguard.cidr.partition('/')[2]}"


def _peer_lines(peer: Peer) -> list[str]:
    lines = [f"PublicKey = {peer.public_key}", f"AllowedIPs = {', '.join(peer.allowed_ips)}"]
    if peer.endpoint is not None:
        lines.append(f"Endpoint = {peer.endpoint}")
    if peer.keepalive_s:
        lines.append(f"PersistentKeepalive = {peer.keepalive_s}")
    return lines


WG_QUICK = WgQuick()
