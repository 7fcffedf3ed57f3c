"""Peers of a mesh whose pods are routed straight into WireGuard: each node is a peer for the prefix of its pods alone.

    wg set DEV peer D1 allowed-ips ""                d1's pods in no peer's AllowedIPs     allowed-ips-missing
    wg set DEV peer D1 allowed-ips 10.42.2.0/25      half of them                          allowed-ips-missing
    wg set DEV peer C2 allowed-ips 10.42.2.0/24,...  all, or a part, with another peer     allowed-ips-stolen
    a peer that was never written                    known by d1's own word of its key     wireguard-peer-missing

The address that a node is probed by is among its pods: who is in nobody's AllowedIPs is cut off as a whole. Which key
is a node's it says itself in its hello, so that a daemon that starts into the wedge needs no memory of better days.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address, ip_network

from meshwatchd.core.audit.allowed_prefixes import parts_elsewhere
from meshwatchd.core.audit.native_route import is_native
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import Hello
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.mesh_profile import FLANNEL_WIREGUARD, FLANNEL_WORDS
from meshwatchd.model.prefixes import holds, is_part
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import WireGuardPeer, WireGuardState
from meshwatchd.model.topology import Node

_PRIVATE = tuple(
    ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
"""RFC 1918, RFC 6598, RFC 4193."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of the peers of one device.

    Attributes:
        state: as it is.
        was: as it was while all was well, or None.
        hellos: what nodes say of themselves, by name.
    """

    state: WireGuardState
    was: WireGuardState | None
    mesh: MeshSettings
    node: str
    hellos: Mapping[str, Hello]

    def key_of(self, other: Node) -> str:
        """The public key of a node: its own word, else that of the peer that had its pods; empty where nobody knows."""
        hello = self.hellos.get(other.name)
        if hello is not None and hello.tunnel_public_key:
            return hello.tunnel_public_key
        return self._keys_before.get(other.pod_cidr, "")

    def owner(self, key: str) -> Node | None:
        """The node that has a key."""
        return self._owners.get(key)

    def peer(self, key: str) -> WireGuardPeer | None:
        """The peer with that key, as it is."""
        return self._peers.get(key)

    def before(self, key: str) -> WireGuardPeer | None:
        """The same as it was while all was well."""
        return self._peers_before.get(key)

    @cached_property
    def _peers(self) -> Mapping[str, WireGuardPeer]:
        return {each.public_key: each for each in self.state.peers}

    @cached_property
    def _peers_before(self) -> Mapping[str, WireGuardPeer]:
        return {each.public_key: each for each in self.was.peers} if self.was is not None else {}

    @cached_property
    def _keys_before(self) -> Mapping[str, str]:
        return {prefix: key for key, each in self._peers_before.items() for prefix in each.allowed_ips}

    @cached_property
    def _owners(self) -> Mapping[str, Node]:
        return {key: each for each in self.mesh.node if (key := self.key_of(each))}


def audit_native_peers(known: Known) -> Iterator[AuditFinding]:
    """Whose pods no peer, or another peer, may carry; nothing in meshes where pods travel otherwise."""
    if not is_native(known.mesh):
        return
    holders = {prefix: peer for peer in known.state.peers for prefix in peer.allowed_ips}
    pods = {each.pod_cidr for each in known.mesh.node}
    # What flannel writes is the prefix of a node: all else was written by somebody else.
    odd = {prefix: peer for prefix, peer in holders.items() if prefix not in pods and ":" not in prefix}
    for other in known.mesh.node:
        if other.name == known.node or ":" in other.pod_cidr or not other.has_pod_address():
            continue
        holder, key = holders.get(other.pod_cidr), known.key_of(other)
        if holder is not None and key and holder.public_key != key and known.owner(holder.public_key) is not None:
            yield _stolen(known, other, holder, (other.pod_cidr,))
        elif holder is None and not _is_wider(known.peer(key), other.pod_cidr):
            yield from _missing(known, other, holders)
        elif holder is not None:
            yield from _taken_in_part(known, other, holder, odd)


def drift(hello: Hello | None, peer: WireGuardPeer) -> str:
    """Where a node says that it is reached, where that is not where its peer sends to; empty where nothing tells.

    What it says is what most others see: where these are on its LAN, that is an address which says nothing.
    """
    if hello is None or not peer.endpoint:
        return ""
    outside = hello.standby_endpoint or hello.view.public_endpoint
    is_told = _is_address(outside) and not is_hidden(outside)
    return outside if is_told and peer.host not in (outside, hello.view.public_endpoint, hello.view.node_ip) else ""


def endpoint_evidence(peer: WireGuardPeer, known: Known) -> tuple[str, ...]:
    """Why a peer's endpoint is not the right one, and what puts it right; empty where nothing says so.

    While a peer is heard WireGuard follows it by itself: only of a silent one is this asked.
    """
    before = known.before(peer.public_key)
    has_moved = before is not None and before.endpoint and peer.endpoint and before.endpoint != peer.endpoint
    moved = (
        f"its endpoint was {before.endpoint} while all was well and is {peer.endpoint}" if has_moved and before else ""
    )
    if not is_native(known.mesh):
        return (moved,) if moved else ()
    other = known.owner(peer.public_key)
    told = drift(known.hellos.get(other.name), peer) if other is not None else ""
    if other is None or not (moved or told):
        return (moved,) if moved else ()
    right = endpoint_of(known, peer.public_key, other)
    device = known.state.device
    command = f"wg set {device} peer {peer.public_key} endpoint {right} sets it again"
    said = f"{other.name} reports that it is reached at {told}, and the endpoint is {peer.endpoint}"
    evidence = (*((moved,) if moved else ()), *((said,) if told else ()))
    return (*evidence, *((command,) if right and right != peer.endpoint else ()), *owner_words(device, known.node))


def advice(known: Known, key: str, other: Node) -> tuple[str, ...]:
    """How a peer that is gone comes back, as sentences; empty where an agent or a file of its own says it better."""
    if not is_native(known.mesh):
        return ()
    added = f"{put_back(known, key, other)} adds it, with the preshared key where the mesh has one"
    return (added, *owner_words(known.state.device, known.node))


def put_back(known: Known, key: str, other: Node) -> str:
    """The command that makes a peer what it was, as far as that is known."""
    before, now = known.before(key), known.peer(key)
    allowed = before.allowed_ips if before is not None else (*(now.allowed_ips if now is not None else ()),)
    prefixes = dict.fromkeys((*allowed, *(() if other.pod_cidr in allowed else (other.pod_cidr,))))
    command = f"wg set {known.state.device} peer {key} allowed-ips {','.join(prefixes)}"
    if now is not None:
        return command
    endpoint = endpoint_of(known, key, other)
    keepalive = f" persistent-keepalive {before.keepalive_s}" if before is not None and before.keepalive_s else ""
    return f"{command}{f' endpoint {endpoint}' if endpoint else ''}{keepalive}"


def endpoint_of(known: Known, key: str, other: Node) -> str:
    """Where a peer should be sent to: as while all was well, but where that stands and its node says another."""
    before, now, hello = known.before(key), known.peer(key), known.hellos.get(other.name)
    if before is not None and before.endpoint:
        has_changed = now is not None and now.endpoint != before.endpoint
        if has_changed or not drift(hello, before):
            return before.endpoint
    host = (hello.standby_endpoint or hello.view.public_endpoint or hello.view.node_ip) if hello is not None else ""
    port = (hello.tunnel_port if hello is not None else 0) or known.state.listen_port
    return f"{host}:{port}" if host and port else ""


def owner_words(device: str, node: str) -> tuple[str, ...]:
    """What the makers of the device would have done."""
    return (FLANNEL_WORDS.format(node),) if device == FLANNEL_WIREGUARD else ()


def is_hidden(address: str) -> bool:
    """Whether nobody on the Internet can call an address; what is no address is not known to be hidden."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return is_private(address) or found.is_loopback or found.is_link_local


def is_private(address: str) -> bool:
    """Whether NAT is what makes an address reach the Internet; addresses for documentation count as public ones."""
    found = ip_address(address)
    return any(found.version == each.version and found in each for each in _PRIVATE)


def _is_address(text: str) -> bool:
    """An endpoint may be a name, which is not compared."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _missing(known: Known, other: Node, holders: Mapping[str, WireGuardPeer]) -> Iterator[AuditFinding]:
    device, key = known.state.device, known.key_of(other)
    peer, before = known.peer(key), known.before(key)
    if key and peer is None and before is not None:
        return  # a peer that was there and is gone is `wireguard_losses`'
    held = f"{device} has no peer whose AllowedIPs hold {other.pod_cidr} of {other.name}"
    if peer is None and key:
        yield AuditFinding(
            code=FaultCode.WIREGUARD_PEER_MISSING,
            device=device,
            subject=key,
            peer=other.name,
            culprit=known.node,
            because=(
                held,
                f"{other.name} reports that its key is {key}, and no peer has it",
                *advice(known, key, other),
            ),
        )
        return
    at = f" at {peer.endpoint}" if peer is not None and peer.endpoint else ""
    has = ", ".join(peer.allowed_ips) if peer is not None and peer.allowed_ips else "none"
    yield AuditFinding(
        code=FaultCode.ALLOWED_IPS_MISSING,
        device=device,
        subject=other.pod_cidr,
        peer=other.name,
        culprit=known.node,
        because=(
            held,
            *((f"peer {key}{at} is {other.name}, and its AllowedIPs are {has}",) if peer is not None else ()),
            *((f"{put_back(known, key, other)} puts it back",) if peer is not None else ()),
            *owner_words(device, known.node),
        ),
        is_cut_off=not any(holds(prefix, other.overlay_ip) for prefix in holders),
    )


def _taken_in_part(
    known: Known, other: Node, holder: WireGuardPeer, odd: Mapping[str, WireGuardPeer]
) -> Iterator[AuditFinding]:
    for key, taken in parts_elsewhere(odd, holder, other.pod_cidr).items():
        if (thief := known.peer(key)) is not None:
            yield _stolen(known, other, thief, tuple(taken))


def _stolen(known: Known, other: Node, thief: WireGuardPeer, taken: tuple[str, ...]) -> AuditFinding:
    device, key = known.state.device, known.key_of(other)
    owner = known.owner(thief.public_key)
    right = known.peer(key)
    rest = ",".join(each for each in thief.allowed_ips if each not in taken)
    back = f"wg set {device} peer {thief.public_key} allowed-ips {rest or repr('')}"
    if right is not None and other.pod_cidr in taken:
        back = put_back(known, key, other)
    return AuditFinding(
        code=FaultCode.ALLOWED_IPS_STOLEN,
        device=device,
        subject=thief.public_key,
        peer=other.name,
        culprit=known.node,
        because=(
            f"peer {thief.public_key} of {device}" + (f" is {owner.name}" if owner is not None else ""),
            f"it has {', '.join(taken)}, which is of the pods of {other.name}",
            *((f"{other.name} is peer {key}",) if key else ()),
            f"{back} takes it back",
            *owner_words(device, known.node),
        ),
        is_cut_off=any(holds(prefix, other.overlay_ip) for prefix in taken),
    )


def _is_wider(peer: WireGuardPeer | None, prefix: str) -> bool:
    """Whether a peer may carry a prefix by a wider one."""
    return peer is not None and any(is_part(prefix, each) for each in peer.allowed_ips)
