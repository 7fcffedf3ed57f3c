"""Whether the peers of the mesh's WireGuard device may carry the pods of each node behind them.

    AllowedIPs of the peer   10.2.0.12/32   10.244.5.0/24        Kilo writes both for each node behind a peer
                             b2 itself      b2's pods

WireGuard sends to no peer, and accepts from none, what is in no AllowedIPs. A node whose address is there and whose
pods are not answers every probe, and its pods are dead. A node of which neither is there has left the mesh's agent's
picture, which is its word against ours, and is not judged.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from ipaddress import ip_address, ip_network

from meshwatchd.core.audit.expected_entries import home_of
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, WireGuardPeer, WireGuardState
from meshwatchd.model.topology import Node


def missing_prefixes(
    state: WireGuardState, mesh: MeshSettings, node: str, routes: Iterable[DeviceRoute] | None = None
) -> Iterator[AuditFinding]:
    """One finding for each pod prefix of another location that no peer holds, though one holds its node.

    Args:
        state: the mesh's WireGuard device.
        mesh: says which pods are behind which node.
        node: this node.
        routes: into devices of the mesh. Pods whose prefix goes into another device need no AllowedIPs: those of Cilium
            travel in VXLAN between nodes' addresses, whatever prefixes Kilo has of them. None where they are not known.
    """
    routed = None if routes is None else {each.dst for each in routes if each.dev == state.device}
    holders = {prefix: peer for peer in state.peers for prefix in peer.allowed_ips}
    home = home_of(node, mesh)
    for other in mesh.node:
        # Where the overlay stands on the tunnel a node goes by its tunnel address, and pods travel inside of VXLAN.
        if other.location == home or other.wireguard_ip == other.node_ip:
            continue
        if routed is not None and not _is_held(other.pod_cidr, routed):
            continue
        peer = holders.get(f"{other.node_ip}/32")
        if peer is not None and not _is_held(other.pod_cidr, holders):
            at = f" at {peer.endpoint}" if peer.endpoint else ""
            yield AuditFinding(
                code=FaultCode.ALLOWED_IPS_MISSING,
                device=state.device,
                subject=other.pod_cidr,
                peer=other.name,
                culprit=node,
                because=(
                    f"{state.device} has no peer whose AllowedIPs hold {other.pod_cidr} of {other.name}",
                    f"peer {peer.public_key}{at} holds {other.node_ip}/32, the address of {other.name}",
                ),
            )


def is_peer_of(node: Node, peer: WireGuardPeer) -> bool:
    """Whether a node is at the other end of a peer."""
    return any(prefix in peer.allowed_ips for prefix in tunnel_prefixes(node))


def tunnel_prefixes(node: Node) -> tuple[str, ...]:
    """What is allowed to the peer at whose end a node is: its tunnel address, or its pods with that address among them.

    Where pods are routed straight into the tunnel, as with flannel's wireguard backend, AllowedIPs are the pods alone.
    """
    if not node.wireguard_ip:
        return ()
    is_native = node.wireguard_ip == node.overlay_ip and node.has_pod_address()
    return (f"{node.wireguard_ip}/32", *((node.pod_cidr,) if is_native else ()))


def is_of_mesh(peer: WireGuardPeer, mesh: MeshSettings) -> bool:
    """Whether a node of the mesh is behind a peer, as far as its AllowedIPs tell; one without any may be.

    Others are dial-ins, as the laptops of Kilo's Peer objects: switched off they are silent, and nothing is wrong.
    """
    if not peer.allowed_ips:
        return True
    addresses = {ip for node in mesh.node for ip in (node.node_ip, node.wireguard_ip, node.overlay_ip) if ip}
    pods = {node.pod_cidr for node in mesh.node}
    return any(prefix in pods or prefix.removesuffix("/32") in addresses for prefix in peer.allowed_ips) or any(
        ip_address(ip) in network
        for network in map(ip_network, (prefix for prefix in peer.allowed_ips if not prefix.endswith(("/32", "/128"))))
        for ip in addresses
    )


def _is_held(prefix: str, holders: Container[str]) -> bool:
    """Whether a prefix, or one that covers it, is among those held; the kernel writes them without host bits."""
    if prefix in holders:
        return True
    network = ip_network(prefix, strict=False)
    return any(str(network.supernet(new_prefix=length)) in holders for length in range(network.prefixlen + 1))
