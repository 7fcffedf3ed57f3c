"""Whether the peers of the mesh's WireGuard device may carry each node behind them and its pods.

    AllowedIPs of the peer   10.2.0.12/32   10.244.5.0/24        Kilo writes both for each node behind a peer
                             b2 itself      b2's pods

WireGuard sends to no peer, and accepts from none, what is in no AllowedIPs. A node whose address is there and whose
pods are not answers every probe, and its pods are dead; one whose pods are there alone is silent, and its pods live. A
part of its pods with another peer goes there, for the longer prefix counts. A node of which neither is there has left
the mesh's agent's picture, which is its word against ours, and is not judged.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network

from meshwatchd.core.audit.expected_entries import home_of
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.prefixes import is_part
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, WireGuardPeer, WireGuardState
from meshwatchd.model.topology import Node

MAX_TOLD = 4
"""Prefixes in one sentence."""


def missing_prefixes(
    state: WireGuardState, mesh: MeshSettings, node: str, routes: Iterable[DeviceRoute] | None = None
) -> Iterator[AuditFinding]:
    """What is missing, or with another peer, of nodes of other locations that the mesh's agent knows.

    Args:
        state: the mesh's WireGuard device.
        mesh: says which pods are behind which node.
        node: this node.
        routes: into devices of the mesh. Pods whose prefix goes into another device need no AllowedIPs: those of Cilium
            travel in VXLAN between nodes' addresses, whatever prefixes Kilo has of them. None where they are not known.
    """
    routed = None if routes is None else {each.dst for each in routes if each.dev == state.device}
    holders = {prefix: peer for peer in state.peers for prefix in peer.allowed_ips}
    home, odd = home_of(node, mesh), _odd_prefixes(state, mesh)
    for other in mesh.node:
        # Where the overlay stands on the tunnel a node goes by its tunnel address, and pods travel inside of VXLAN.
        if other.location == home or other.wireguard_ip == other.node_ip:
            continue
        if routed is not None and not _is_held(other.pod_cidr, routed):
            continue
        address = f"{other.node_ip}/32"
        of_node, of_pods = holders.get(address), holders.get(other.pod_cidr)
        if of_node is not None and not _is_held(other.pod_cidr, holders):
            yield _missing(state, other, node, (other.pod_cidr, address, of_node))
        elif of_pods is not None and routed is not None and address in routed and not _is_held(address, holders):
            # Kilo routes no node that has no address of its own there.
            yield _missing(state, other, node, (address, other.pod_cidr, of_pods))
        if of_pods is not None:
            yield from _taken_in_part(state, other, node, right=of_pods, odd=odd)


def _missing(state: WireGuardState, other: Node, node: str, what: tuple[str, str, WireGuardPeer]) -> AuditFinding:
    """Of a node: a prefix that no peer holds, and another of it with the peer that does."""
    missing, held, peer = what
    at = f" at {peer.endpoint}" if peer.endpoint else ""
    is_node = missing.endswith("/32")
    back = ",".join((*peer.allowed_ips, missing))
    return AuditFinding(
        code=FaultCode.ALLOWED_IPS_MISSING,
        device=state.device,
        subject=missing,
        peer=other.name,
        culprit=node,
        because=(
            f"{state.device} has no peer whose AllowedIPs hold {missing} of {other.name}",
            f"peer {peer.public_key}{at} holds {held}, {'its pods' if is_node else f'the address of {other.name}'}",
            f"run: wg set {state.device} peer {peer.public_key} allowed-ips {back}",
        ),
        is_cut_off=is_node,
    )


def _odd_prefixes(state: WireGuardState, mesh: MeshSettings) -> dict[str, WireGuardPeer]:
    """Those that are no node and no node's pods, and who has them; a mesh in health has hardly any, however large."""
    known = {node.pod_cidr for node in mesh.node}
    known |= {f"{address}/32" for node in mesh.node for address in (node.node_ip, node.wireguard_ip)}
    return {each: peer for peer in state.peers for each in peer.allowed_ips if each not in known}


def parts_elsewhere(odd: Mapping[str, WireGuardPeer], right: WireGuardPeer, pods: str) -> dict[str, list[str]]:
    """The parts of a node's pods that other peers have, by the keys of these: the longer prefix counts.

    Args:
        odd: prefixes that the mesh's agent gives to nobody, and who has them.
        right: the peer that has the pods.
        pods: of the node.
    """
    parts: dict[str, list[str]] = {}
    for prefix, thief in odd.items():
        if thief.public_key != right.public_key and is_part(prefix, pods):
            parts.setdefault(thief.public_key, []).append(prefix)
    return parts


def _taken_in_part(
    state: WireGuardState, other: Node, node: str, *, right: WireGuardPeer, odd: Mapping[str, WireGuardPeer]
) -> Iterator[AuditFinding]:
    for key, taken in parts_elsewhere(odd, right, other.pod_cidr).items():
        yield AuditFinding(
            code=FaultCode.ALLOWED_IPS_STOLEN,
            device=state.device,
            subject=key,
            peer=other.name,
            culprit=node,
            because=(
                f"peer {key} of {state.device} has {', '.join(taken[:MAX_TOLD])}",
                f"peer {right.public_key} has {other.pod_cidr} of {other.name}, and the longer prefix counts",
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
