"""Compares WireGuard devices with how they were while all was well, and listens for peers that deliver nothing.

WireGuard is silent by design: what is wrong with a peer shows in counters only. A peer is *silent* while bytes go out
to it and what comes in is no more than handshakes. Then:

    never shaken hands, or not for as long as a session lives   -> wireguard-no-handshake
    shaken hands since the silence began                        -> wireguard-no-data
    moved to another endpoint since all was well                -> wireguard-endpoint-moved
    known by another key, its own or ours, and never heard      -> wireguard-key-mismatch

What no peer may carry is lost at once, counters or not: `allowed_prefixes`.

Where the session from before the silence still lives, nothing is said here: the probes say that the tunnel is blocked.

One silent peer of several may be broken at either end or between: each end names the other, as the probes do. All of
several silent at once have this node in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from types import MappingProxyType

import msgspec

from meshwatchd.core.audit.allowed_prefixes import MAX_TOLD, is_of_mesh, is_peer_of, missing_prefixes
from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.native_peers import Known, audit_native_peers, endpoint_evidence, is_hidden, is_private
from meshwatchd.core.audit.wireguard_changes import STALE_NS
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import Hello
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.prefixes import overlap
from meshwatchd.model.settings import SECOND, MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, WireGuardPeer, WireGuardState
from meshwatchd.model.topology import Node

INITIATION_BYTES, RESPONSE_BYTES, EMPTY_BYTES = 148, 92, 32
"""What handshakes are made of, the empty packet that confirms the session included; WireGuard counts all of them."""

HANDSHAKE_BYTES = INITIATION_BYTES + RESPONSE_BYTES + EMPTY_BYTES

MOST_MESSAGES = 8
"""Of each kind between two looks: either end begins a handshake every five seconds at most."""

FIRST_HANDSHAKE_NS = 15 * SECOND
"""Three attempts, five seconds apart. A tunnel that has rested shakes hands like a new one."""

_SILENCE = (FaultCode.WIREGUARD_NO_HANDSHAKE, FaultCode.WIREGUARD_NO_DATA)


@dataclass(slots=True, kw_only=True)
class _Track:
    """What the counters of one peer have told.

    Attributes:
        silent_since: when the present silence began, 0 while data arrives or nothing is sent.
        known_since: when it was first seen under this key of ours.
    """

    rx_bytes: int
    tx_bytes: int
    handshake_ns: int
    own_key: str
    known_since: int
    silent_since: int = 0


class TunnelAudit:
    """Follows the devices of the mesh from one look to the next."""

    def __init__(self) -> None:
        self._tracks: dict[tuple[str, str], _Track] = {}

    def observe(self, states: Iterable[WireGuardState]) -> None:
        """Take in what devices count at present."""
        tracks: dict[tuple[str, str], _Track] = {}
        for state in states:
            for peer in state.peers:
                key = state.device, peer.public_key
                tracks[key] = _follow(self._tracks.get(key), state, peer)
        self._tracks = tracks

    def rest(self, devices: Iterable[str]) -> None:
        """These devices are down: nobody answers them, and their silence begins when they are up.

        A userspace WireGuard goes on shaking hands behind a device that is down, and kilo0 is on all but leaders.
        """
        resting = set(devices)
        for (device, _), track in self._tracks.items():
            if device in resting:
                track.silent_since = 0

    def silent(self, device: str) -> frozenset[str]:
        """The public keys of a device's peers that are sent to and deliver nothing."""
        return frozenset(key for (name, key), track in self._tracks.items() if name == device and track.silent_since)

    def silence(self, state: WireGuardState) -> tuple[int, int]:
        """For how many nanoseconds a peer of a device has been silent, the longest, and how many are sent to at all."""
        tracks = [self._tracks[state.device, peer.public_key] for peer in state.peers if peer.tx_bytes]
        return max((state.at_ns - each.silent_since for each in tracks if each.silent_since), default=0), len(tracks)

    def look(
        self,
        states: Iterable[WireGuardState],
        *,
        mesh: MeshSettings,
        node: str,
        good: GoodState | None,
        addresses: Iterable[str] = (),
        hellos: Mapping[str, Hello] = MappingProxyType({}),
        routes: Iterable[DeviceRoute] | None = None,
    ) -> tuple[AuditFinding, ...]:
        """What is wrong with the devices; those that are not the mesh's are nobody's business.

        Args:
            states: as they were last observed, of devices that are up.
            mesh: names the device.
            node: this node.
            good: how they were while all was well, or None.
            addresses: all of this node.
            hellos: what nodes say of themselves, by name.
            routes: into devices of the mesh; None where they are not known.
        """
        found: list[AuditFinding] = []
        own = tuple(addresses)
        is_behind_nat = bool(own) and all(is_hidden(address) for address in own)
        for state in states:
            if state.device == mesh.wireguard_device:
                was = next((w for w in good.wireguard if w.device == state.device), None) if good is not None else None
                known = Known(state=state, was=was, mesh=mesh, node=node, hellos=hellos)
                found += _placed([_about(each, state, mesh) for each in self._look_at(known)], known)
                found += missing_prefixes(state, mesh, node, routes)
                found += audit_native_peers(known)
                if is_behind_nat and was is not None:
                    found += _lost_keepalives(state, was, node)
        return tuple(found)

    def _look_at(self, known: Known) -> Iterator[AuditFinding]:
        state, was, mesh, node = known.state, known.was, known.mesh, known.node
        yield from self._own_key(state, was, node)
        yield from _stolen(known)
        local = next((each for each in mesh.node if each.name == node), None)
        for peer in state.peers:
            yield from self._judge(peer, known)
            if local is not None and _needs_keepalive(local, peer):
                yield _finding(
                    FaultCode.KEEPALIVE_MISSING,
                    state,
                    peer,
                    node,
                    (
                        f"{node} has no endpoint that others know, and {local.node_ip} is private",
                        f"its peer at {peer.endpoint} has no persistent keepalive",
                    ),
                )

    def _own_key(self, state: WireGuardState, was: WireGuardState | None, node: str) -> Iterator[AuditFinding]:
        """Another key of the own device is a rotation where anybody has shaken hands under it."""
        if was is None or not was.public_key or was.public_key == state.public_key:
            return
        tracks = [self._tracks[state.device, peer.public_key] for peer in state.peers]
        if not tracks or any(each.handshake_ns > each.known_since for each in tracks):
            return
        yield AuditFinding(
            code=FaultCode.WIREGUARD_KEY_MISMATCH,
            device=state.device,
            subject=state.device,
            culprit=node,
            because=(
                f"{state.device} has the key {state.public_key}, while all was well it was {was.public_key}",
                "no peer has shaken hands since",
            ),
        )

    def _judge(self, peer: WireGuardPeer, known: Known) -> Iterator[AuditFinding]:
        state, was, node = known.state, known.was, known.node
        track = self._tracks[state.device, peer.public_key]
        if not track.silent_since or not is_of_mesh(peer, known.mesh):
            return
        silence = state.at_ns - track.silent_since
        replaced = _replaced(peer, was)
        moved = endpoint_evidence(peer, known)
        if not peer.handshake_ns and replaced is not None and silence >= FIRST_HANDSHAKE_NS:
            because = (f"it took the place of {replaced.public_key}, which answered", "it has never shaken hands")
            yield _finding(FaultCode.WIREGUARD_KEY_MISMATCH, state, peer, node, because)
        elif moved:
            evidence = (moved[0], _say(silence), *moved[1:])
            yield _finding(FaultCode.WIREGUARD_ENDPOINT_MOVED, state, peer, node, evidence)
        elif not peer.handshake_ns and silence >= FIRST_HANDSHAKE_NS:
            yield _finding(
                FaultCode.WIREGUARD_NO_HANDSHAKE, state, peer, node, ("it has never shaken hands", _say(silence))
            )
        elif peer.handshake_ns and state.at_ns - peer.handshake_ns > STALE_NS and silence >= FIRST_HANDSHAKE_NS:
            age_s = (state.at_ns - peer.handshake_ns) // SECOND
            because = (f"the last handshake is {age_s} s ago, and a session lives for 180 s", _say(silence))
            yield _finding(FaultCode.WIREGUARD_NO_HANDSHAKE, state, peer, node, because)
        elif peer.handshake_ns > track.silent_since:
            because = ("it has shaken hands since nothing comes in", _say(silence))
            yield _finding(FaultCode.WIREGUARD_NO_DATA, state, peer, node, because)


def _follow(track: _Track | None, state: WireGuardState, peer: WireGuardPeer) -> _Track:
    if track is None or track.own_key != state.public_key:
        return _Track(
            rx_bytes=peer.rx_bytes,
            tx_bytes=peer.tx_bytes,
            handshake_ns=peer.handshake_ns,
            own_key=state.public_key,
            known_since=state.at_ns,
            # What was sent to a peer that has never been heard was sent in vain from the beginning.
            silent_since=state.at_ns if peer.tx_bytes and not peer.rx_bytes else 0,
        )
    came, went = peer.rx_bytes - track.rx_bytes, peer.tx_bytes - track.tx_bytes
    allowance = HANDSHAKE_BYTES if peer.handshake_ns != track.handshake_ns else 0
    silent_since = track.silent_since
    if came < 0 or (came > allowance and not _are_messages(came)):
        silent_since = 0
    elif went > 0 and not silent_since:
        silent_since = state.at_ns
    track.rx_bytes, track.tx_bytes, track.handshake_ns = peer.rx_bytes, peer.tx_bytes, peer.handshake_ns
    track.silent_since = silent_since
    return track


def _are_messages(count: int) -> bool:
    """Whether so many bytes are initiations and responses alone: the peer's own attempts in vain are no data either."""
    return any(
        (count - INITIATION_BYTES * initiations) % RESPONSE_BYTES == 0
        and 0 <= (count - INITIATION_BYTES * initiations) // RESPONSE_BYTES <= MOST_MESSAGES
        for initiations in range(MOST_MESSAGES + 1)
    )


def _stolen(known: Known) -> Iterator[AuditFinding]:
    """Prefixes whose peer of before is still there and has lost them to another, which has no right to them."""
    state, was = known.state, known.was
    if was is None:
        return
    present = {peer.public_key for peer in state.peers}
    owner = {prefix: peer.public_key for peer in was.peers for prefix in peer.allowed_ips}
    for thief in state.peers:
        stolen = [p for p in thief.allowed_ips if owner.get(p, thief.public_key) != thief.public_key]
        robbed = (p for p in stolen if owner[p] in present and _is_of_nodes(p, known.mesh))
        taken = sorted(p for p in robbed if not _is_rightful(p, thief, known))
        if taken:
            yield _finding(
                FaultCode.ALLOWED_IPS_STOLEN,
                state,
                thief,
                known.node,
                (f"it has {', '.join(taken[:MAX_TOLD])}", f"while all was well {owner[taken[0]]} had it, a peer still"),
            )


def _is_of_nodes(prefix: str, mesh: MeshSettings) -> bool:
    """Whether a prefix has to do with a node or its pods.

    Others are moved on purpose: a floating address, the network of one site that another site's Peer object gets.
    """
    if ":" in prefix:
        network = ip_network(prefix, strict=False)
        own = (ip for node in mesh.node for ip in (node.node_ip6, node.overlay_ip6, node.wireguard_ip6) if ip)
        return any(ip_address(ip) in network for ip in own)
    addresses = {ip for node in mesh.node for ip in (node.node_ip, node.wireguard_ip, node.overlay_ip) if ip}
    pods = {node.pod_cidr for node in mesh.node}
    return any(":" not in each and overlap(prefix, each) for each in addresses | pods)


def _is_rightful(prefix: str, peer: WireGuardPeer, known: Known) -> bool:
    """Whether the mesh gives a prefix to the location of the node whose key that peer is.

    Kilo numbers tunnel addresses anew when a location comes, and a node may move to another location.
    """
    owner = known.owner(peer.public_key)
    if owner is None:
        return False
    near = [each for each in known.mesh.node if each.location == owner.location]
    return prefix == f"{owner.wireguard_ip}/32" or any(prefix in (f"{each.node_ip}/32", each.pod_cidr) for each in near)


def _replaced(peer: WireGuardPeer, was: WireGuardState | None) -> WireGuardPeer | None:
    """The peer of before that had this one's prefixes under another key."""
    if was is None or any(each.public_key == peer.public_key for each in was.peers):
        return None
    return next((each for each in was.peers if set(each.allowed_ips) & set(peer.allowed_ips)), None)


def _needs_keepalive(local: Node, peer: WireGuardPeer) -> bool:
    """A relay without an endpoint is behind NAT (`topology.Node`); it has to keep the way to public peers open."""
    if peer.keepalive_s or local.standby_public_key is None or local.standby_endpoint is not None or not peer.endpoint:
        return False
    try:
        return is_private(local.node_ip) and not is_private(peer.host)
    except ValueError:
        return False


def _about(finding: AuditFinding, state: WireGuardState, mesh: MeshSettings) -> AuditFinding:
    """The finding with the node that the peer is, where the mesh tells; whose prefixes were stolen is another one."""
    peer = next((each for each in state.peers if each.public_key == finding.subject), None)
    if peer is None or finding.code is FaultCode.ALLOWED_IPS_STOLEN:
        return finding
    names = (each.name for each in mesh.node if is_peer_of(each, peer))
    return msgspec.structs.replace(finding, peer=next(names, ""))


def _placed(found: list[AuditFinding], known: Known) -> Iterator[AuditFinding]:
    """The findings, with the peers that are silent as culprits, unless that is all of several."""
    silent = {each.subject for each in found if each.code in _SILENCE}
    is_own = len(silent) > 1 and len(silent) == sum(is_of_mesh(each, known.mesh) for each in known.state.peers)
    for each in found:
        is_theirs = each.code in _SILENCE and each.peer and not is_own
        yield msgspec.structs.replace(each, culprit=each.peer) if is_theirs else each


def _lost_keepalives(state: WireGuardState, was: WireGuardState, node: str) -> Iterator[AuditFinding]:
    """Peers at public addresses that were kept alive while all was well, from a node that has none itself.

    Whether a NAT in between needs it nobody here can tell: whoever set it will have known.
    """
    kept = {peer.public_key: peer.keepalive_s for peer in was.peers if peer.keepalive_s}
    for peer in state.peers:
        if peer.public_key in kept and not peer.keepalive_s and peer.host and not is_hidden(peer.host):
            because = (
                f"it had a persistent keepalive of {kept[peer.public_key]} s while all was well, and has none",
                "no address of this node is public: a NAT in between forgets it when it is silent",
            )
            yield _finding(FaultCode.KEEPALIVE_MISSING, state, peer, node, because)


def _say(silence_ns: int) -> str:
    return f"for {silence_ns // SECOND} s packets have gone out to it and no data has come in"


def _finding(  # noqa: PLR0917 - the fields of what it makes
    code: FaultCode, state: WireGuardState, peer: WireGuardPeer, node: str, because: tuple[str, ...]
) -> AuditFinding:
    who = f"peer {peer.public_key} of {state.device}" + (f" at {peer.endpoint}" if peer.endpoint else "")
    return AuditFinding(code=code, device=state.device, subject=peer.public_key, culprit=node, because=(who, *because))
