"""What a change in the state of a WireGuard device means.

WireGuard tells nobody anything: a peer that has gone, a handshake that fails, a prefix that another peer has taken. All
of it shows only in what a device is configured with and has counted, from one look to the next.

A session is used for 180 s (REJECT_AFTER_TIME) and renewed by whoever sends after 120 s. So while something is sent a
handshake older than that says that no answer comes. Traffic that arrives proves nothing about the next handshake,
and a peer to which nothing is sent may rest for as long as it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwatchd.model.outputs import TunnelFact
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import WireGuardPeer, WireGuardState
from meshwatchd.model.status import TunnelStatus
from meshwatchd.model.tunnel_facts import (
    AllowedIpsMoved,
    EndpointMoved,
    HandshakeRenewed,
    HandshakeStale,
    TunnelKeyChanged,
    TunnelPeersChanged,
)

STALE_NS = 195 * SECOND
"""REJECT_AFTER_TIME of the WireGuard paper (section 6.1) and three attempts, five seconds apart."""


class TunnelWatch:
    """Compares each look at the devices with the one before."""

    def __init__(self) -> None:
        self._states: dict[str, WireGuardState] = {}
        self._silent_since: dict[tuple[str, str], int] = {}
        self._stale: set[tuple[str, str]] = set()

    def observe(self, states: Iterable[WireGuardState]) -> list[TunnelFact]:
        """Take in the present state of all devices.

        Returns:
            What has changed since the last call; nothing about a device that was not there then.
        """
        now = {state.device: state for state in states}
        facts: list[TunnelFact] = []
        for device, state in now.items():
            before = self._states.get(device)
            if before is not None:
                facts += _compare(before, state)
            facts += self._judge_handshakes(before, state)
        self._states = now
        present = {(state.device, peer.public_key) for state in now.values() for peer in state.peers}
        self._silent_since = {key: since for key, since in self._silent_since.items() if key in present}
        self._stale &= present
        return facts

    def _judge_handshakes(self, before: WireGuardState | None, state: WireGuardState) -> Iterator[TunnelFact]:
        sent_before = {peer.public_key: peer.tx_bytes for peer in before.peers} if before is not None else {}
        for peer in state.peers:
            key = state.device, peer.public_key
            # A peer that has never answered is waited for from when it was first seen.
            since = peer.handshake_ns or self._silent_since.setdefault(key, state.at_ns)
            age = state.at_ns - since
            is_sending = peer.tx_bytes > sent_before.get(peer.public_key, peer.tx_bytes)
            if key in self._stale and age <= STALE_NS:
                self._stale.remove(key)
                yield HandshakeRenewed(device=state.device, peer=peer.public_key)
            elif key not in self._stale and age > STALE_NS and is_sending:
                self._stale.add(key)
                yield HandshakeStale(device=state.device, peer=peer.public_key, age_ns=age)


def changes_more_than_counters(before: Iterable[WireGuardState], after: Iterable[WireGuardState]) -> bool:
    """Whether two looks at the devices differ in anything but bytes and the instant of looking."""
    return [_without_counters(state) for state in before] != [_without_counters(state) for state in after]


def of_the_mesh(states: Iterable[WireGuardState]) -> tuple[WireGuardState, ...]:
    """The devices whose peers are few enough to be locations; one with a thousand is where people dial in."""
    return tuple(state for state in states if len(state.peers) <= MAX_MESH_PEERS)


def tunnel_status(states: Iterable[WireGuardState]) -> tuple[TunnelStatus, ...]:
    """The peers of all devices as operators see them, the first of each device.

    The age of a handshake is that at which it was read: a device that gives no answer for a while may have had another
    one meanwhile.
    """
    return tuple(
        TunnelStatus(
            device=state.device,
            peer=peer.public_key,
            endpoint=peer.endpoint,
            handshake_age_ns=max(0, state.at_ns - peer.handshake_ns) if peer.handshake_ns else None,
            rx_bytes=peer.rx_bytes,
            tx_bytes=peer.tx_bytes,
        )
        for state in states
        for peer in state.peers[:MAX_SHOWN]
    )


def _without_counters(state: WireGuardState) -> tuple[object, ...]:
    peers = [
        (peer.public_key, peer.endpoint, peer.allowed_ips, peer.keepalive_s, peer.handshake_ns) for peer in state.peers
    ]
    return state.device, state.public_key, state.listen_port, peers


def _compare(before: WireGuardState, after: WireGuardState) -> Iterator[TunnelFact]:
    device = after.device
    if before.public_key != after.public_key:
        yield TunnelKeyChanged(device=device, before=before.public_key, after=after.public_key)
    old = {peer.public_key: peer for peer in before.peers}
    new = {peer.public_key: peer for peer in after.peers}
    if old.keys() != new.keys():
        added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
        yield TunnelPeersChanged(device=device, added=tuple(added), removed=tuple(removed))
    yield from _moved_prefixes(device, old, new)
    for key in [key for key in new if key in old]:
        was, is_ = old[key].endpoint, new[key].endpoint
        if was and is_ and was != is_:
            yield EndpointMoved(device=device, peer=key, before=was, after=is_)


def _moved_prefixes(
    device: str, old: dict[str, WireGuardPeer], new: dict[str, WireGuardPeer]
) -> Iterator[AllowedIpsMoved]:
    """A prefix has one peer of a device: whoever is given it takes it from the one before, without a word."""
    owner = {prefix: key for key, peer in old.items() for prefix in peer.allowed_ips}
    moved: dict[tuple[str, str], list[str]] = {}
    for key, peer in new.items():
        for prefix in peer.allowed_ips:
            if owner.get(prefix, key) != key:
                moved.setdefault((owner[prefix], key), []).append(prefix)
    for (loser, winner), prefixes in moved.items():
        yield AllowedIpsMoved(
            device=device,
            prefixes=tuple(prefixes[:MAX_TOLD]),
            from_peer=loser,
            to_peer=winner,
            is_owner_gone=loser not in new,
        )


MAX_MESH_PEERS = 256

MAX_SHOWN = 64
"""Peers of one device in a status: more than anybody reads."""

MAX_TOLD = 16
"""Prefixes in one fact: a location has tens, and the first say which one it is."""
