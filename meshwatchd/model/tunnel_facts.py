"""Facts about WireGuard devices and their peers, as the agent sees them change."""

from __future__ import annotations

import msgspec


class EndpointMoved(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A WireGuard peer is heard from another address: it roamed, or its NAT did."""

    device: str
    peer: str
    before: str
    after: str


class AllowedIpsMoved(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Prefixes of a WireGuard device belong to another peer.

    Attributes:
        prefixes: the first of them.
        is_owner_gone: the peer that had them was removed: a change of leader or key rather than a theft.
    """

    device: str
    prefixes: tuple[str, ...]
    from_peer: str
    to_peer: str
    is_owner_gone: bool


class HandshakeStale(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Packets are sent to a WireGuard peer and its last handshake is too old for any of them to be read.

    Attributes:
        age_ns: of the last handshake; of the peer where there was none.
    """

    device: str
    peer: str
    age_ns: int


class HandshakeRenewed(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A peer whose handshake was stale has answered."""

    device: str
    peer: str


class TunnelPeersChanged(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Peers of a WireGuard device were added or removed, told by their public keys."""

    device: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


class TunnelKeyChanged(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A WireGuard device has another key of its own, told by the public halves: no peer will know it."""

    device: str
    before: str
    after: str
