"""What Cilium's own WireGuard device has to hold: a peer for each node of every cluster, with the node's addresses.

    /v1/cluster/nodes   west/w1 10.82.0.11, cilium_host 10.11.1.71, health endpoint 10.11.1.200
    cilium_wg0          peer KEY endpoint 10.82.0.11:51871 allowed-ips 10.82.0.11/32, 10.11.1.71/32, 10.11.1.200/32

VXLAN between nodes goes through it, so a peer whose AllowedIPs miss its own endpoint gets nothing and shakes hands
(cilium#35644). Which addresses there should be depends on version and mode. So the other peers of the same device are
what one is measured by: nothing is said of an address that most of them do not have either, or of a cluster none of
whose nodes has a peer, since that one may not encrypt.

Nothing is put back here: the agent owns the device, and writes its peers when it starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.cluster_mesh import ENCRYPTION, RESTART, ROUTER, TUNNELS
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.prefixes import holds
from meshwatchd.model.snapshot import Snapshot, WireGuardPeer, WireGuardState
from meshwatchd.model.sources import CiliumNode, CiliumNodes

LEAST_HOLDERS = 2
"""Other peers that have an address of a kind, before one without it is odd."""

MAX_NAMED = 8
"""Nodes in one sentence."""

_Held = Mapping[CiliumNode, tuple[WireGuardPeer, ...]]


def audit_devices(snapshot: Snapshot, node: str) -> Iterator[AuditFinding]:
    """Devices of Cilium's that are there and down: its agent makes them when it starts, and takes none down."""
    for name in (ROUTER, *TUNNELS, ENCRYPTION):
        link = snapshot.link(name)
        if link is not None and not link.is_up:
            code = FaultCode.WIREGUARD_DEVICE_MISSING if name == ENCRYPTION else FaultCode.OVERLAY_DEVICE_DOWN
            because = (f"{name} is administratively down: ip link set dev {name} up", RESTART.format(node))
            yield AuditFinding(code=code, device=name, subject=name, culprit=node, because=because)


def audit_peers(
    state: WireGuardState, told: CiliumNodes, node: str, names: Mapping[str, str], *, is_tunnelled: bool
) -> Iterator[AuditFinding]:
    """What is wrong with the peers of Cilium's WireGuard device.

    Args:
        state: of the device.
        told: the nodes that the agent knows.
        node: this node.
        names: of nodes of the mesh by address, where they go by another name than the agent's.
        is_tunnelled: pods' packets go between nodes' addresses.
    """
    held = _held([each for each in told.nodes if each != told.own and each.node_ip], state.peers)
    audit = _PeerAudit(state, held, node, names)
    yield from audit.missing()
    yield from audit.duplicates()
    yield from audit.bare(is_tunnelled=is_tunnelled)


class _PeerAudit:
    """One look at the device."""

    def __init__(self, state: WireGuardState, held: _Held, node: str, names: Mapping[str, str]) -> None:
        self._state, self._held, self._node, self._names = state, held, node, names

    def missing(self) -> Iterator[AuditFinding]:
        """Nodes without a peer, of clusters whose other nodes have one."""
        encrypting = {each.cluster for each, peers in self._held.items() if peers}
        for each, peers in self._held.items():
            if not peers and each.cluster in encrypting:
                text = f"the agent knows {_named(each)} at {each.node_ip}, and {ENCRYPTION} has no peer there"
                yield self._finding(FaultCode.WIREGUARD_PEER_MISSING, each, each.node_ip, text, is_cut_off=True)

    def duplicates(self) -> Iterator[AuditFinding]:
        """Endpoints that two peers have."""
        counts = Counter(peer.endpoint for peer in self._state.peers if peer.endpoint)
        for endpoint in sorted(each for each, count in counts.items() if count > 1):
            peers = [peer for peer in self._state.peers if peer.endpoint == endpoint]
            keys = [peer.public_key for peer in peers]
            owner = next((each for each in self._held if each.node_ip == peers[0].host), None)
            text = f"{ENCRYPTION} has {len(keys)} peers at {endpoint}: {', '.join(keys[:MAX_NAMED])}"
            yield self._finding(FaultCode.WIREGUARD_PEER_DUPLICATE, owner, endpoint, text, is_cut_off=True)

    def bare(self, *, is_tunnelled: bool) -> Iterator[AuditFinding]:
        """Nodes whose peer may not carry an address that the peers of most nodes may carry."""
        kinds: dict[str, Callable[[CiliumNode], str]] = {
            **({"its own endpoint": _endpoint} if is_tunnelled else {}),
            f"{ROUTER} there": _router,
            "its health endpoint": _health,
        }
        lacking: dict[CiliumNode, list[str]] = {}
        deaf: set[CiliumNode] = set()
        for kind, address_of in kinds.items():
            asked = {each: address_of(each) for each, peers in self._held.items() if peers and address_of(each)}
            bare = [each for each, address in asked.items() if not _may_carry(self._held[each], address)]
            holders = len(asked) - len(bare)
            if holders < LEAST_HOLDERS or holders <= len(bare):
                continue
            for each in bare:
                lacking.setdefault(each, []).append(f"{asked[each]}, {kind}")
            deaf |= set(bare) if "health" not in kind else set()
        for each, addresses in lacking.items():
            peer = self._held[each][0]
            text = f"AllowedIPs of peer {peer.public_key} at {peer.endpoint} miss {'; '.join(addresses)}"
            yield self._finding(FaultCode.ALLOWED_IPS_MISSING, each, each.node_ip, text, is_cut_off=each in deaf)

    def _finding(
        self, code: FaultCode, of: CiliumNode | None, subject: str, text: str, *, is_cut_off: bool
    ) -> AuditFinding:
        peer = self._names.get(of.node_ip, of.name) if of is not None else ""
        return AuditFinding(
            code=code,
            device=self._state.device,
            subject=subject,
            peer=peer,
            culprit=self._node,
            because=(text, RESTART.format(self._node)),
            is_cut_off=is_cut_off and bool(peer),
        )


def _held(nodes: Collection[CiliumNode], peers: Iterable[WireGuardPeer]) -> _Held:
    """The peers of each node: those at its address, or that may carry its address among pods if it has moved."""
    by_host: dict[str, list[WireGuardPeer]] = {}
    by_router: dict[str, list[WireGuardPeer]] = {}
    routers = {f"{node.router_ip}/32" for node in nodes if node.router_ip}
    for peer in peers:
        by_host.setdefault(peer.host, []).append(peer)
        for prefix in routers.intersection(peer.allowed_ips):
            by_router.setdefault(prefix, []).append(peer)
    return {node: tuple(by_host.get(node.node_ip) or by_router.get(f"{node.router_ip}/32") or ()) for node in nodes}


def _may_carry(peers: Iterable[WireGuardPeer], address: str) -> bool:
    """Mostly an address stands there by itself, and among many pods: only what does not is looked for in prefixes."""
    lone = f"{address}/32"
    return any(lone in peer.allowed_ips for peer in peers) or any(
        holds(prefix, address) for peer in peers for prefix in peer.allowed_ips if not prefix.endswith(("/32", "/128"))
    )


def _endpoint(node: CiliumNode) -> str:
    return node.node_ip


def _router(node: CiliumNode) -> str:
    return node.router_ip


def _health(node: CiliumNode) -> str:
    return node.health_ip


def _named(node: CiliumNode) -> str:
    return f"{node.cluster}/{node.name}" if node.cluster else node.name
