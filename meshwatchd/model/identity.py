"""What a node is known by beside its name, and what two nodes agree on by it.

seed of a node --> Ed25519: signs its hellos            PublicIdentity.signing
              `--> X25519: one secret for each peer     PublicIdentity.exchange
"""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import NodeName

PUBLIC_KEY_BYTES = 32
"""Of Ed25519 (RFC 8032 section 5.1.5) and of X25519 (RFC 7748 section 5)."""


class PublicIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Both public keys of a node, 32 bytes each.

    Attributes:
        signing: Ed25519, verifies what the node says of itself.
        exchange: X25519, makes the secret that it shares with one peer.
    """

    signing: bytes
    exchange: bytes


class PairBinding(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine is told of a peer's identity: how probes between the two are signed.

    Attributes:
        shared: 32 bytes that only these two nodes can compute; empty where the peer's identity is forgotten.
        signs: own probes are signed with the pair's key; the peer has proven that it has it.
        is_alone: what is signed with a key of the whole mesh is refused in the peer's name.
    """

    peer: NodeName
    shared: bytes = b""
    signs: bool = False
    is_alone: bool = False

    def __repr__(self) -> str:
        return f"PairBinding({self.peer}, signs={self.signs}, is_alone={self.is_alone})"
