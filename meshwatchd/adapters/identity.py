"""The key of this node alone: a seed in the state directory, and what is signed and agreed on with it.

    identity.key (32 bytes, base64, mode 0600) --HKDF-SHA-256--> Ed25519 (RFC 8032), X25519 (RFC 7748)
    identity.former.key                        the one before, which vouches for the one in force

The seed never leaves the node. To exchange it, rename the file to identity.former.key and restart: peers accept the new
identity because the former one has signed it.
"""

from __future__ import annotations

import base64
import secrets
import time
from pathlib import Path
from typing import Final

from nacl.bindings import crypto_scalarmult
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey
from nacl.signing import SigningKey, VerifyKey

from meshwatchd.adapters.storage import mesh_file
from meshwatchd.adapters.wireguard.files import write_privately
from meshwatchd.config.keys import read_private_key
from meshwatchd.core.membership.identities import GRACE_NS, Step
from meshwatchd.model.identity import PairBinding, PublicIdentity
from meshwatchd.wire.auth import hkdf_expand, hkdf_extract
from meshwatchd.wire.hello import rotation_text

FILE_NAME: Final = "identity.key"
FORMER_NAME: Final = "identity.former.key"
SEED_BYTES: Final = 32
_SALT: Final = b"meshwatchd node identity"
_SIGNING, _EXCHANGE = b"ed25519 v1", b"x25519 v1"


class NodeIdentity:
    """Both key pairs of this node.

    Args:
        seed: 32 bytes that nobody else has.
        former: the seed before this one, if it vouches for it.

    Attributes:
        public: what peers know this node by.
        former: the public signing key of the former identity; empty without one.
        voucher: its signature of this one, 64 bytes; empty without one.
    """

    def __init__(self, seed: bytes, former: bytes | None = None) -> None:
        extracted = hkdf_extract(_SALT, seed)
        self._signing = SigningKey(hkdf_expand(extracted, _SIGNING, SEED_BYTES))
        self._exchange = PrivateKey(hkdf_expand(extracted, _EXCHANGE, SEED_BYTES))
        self.public = PublicIdentity(signing=bytes(self._signing.verify_key), exchange=bytes(self._exchange.public_key))
        self.former = self.voucher = b""
        if former is not None:
            before = NodeIdentity(former)
            self.former, self.voucher = before.public.signing, before.sign(rotation_text(self.public))

    def sign(self, text: bytes) -> bytes:
        """The Ed25519 signature of a text, 64 bytes."""
        return self._signing.sign(text).signature

    def share(self, peer: PublicIdentity) -> bytes:
        """The 32 bytes that this node and a peer alone can compute; empty where the peer's key is a weak point."""
        try:
            return crypto_scalarmult(bytes(self._exchange), bytes(PublicKey(peer.exchange)))
        except CryptoError:
            # RFC 7748 section 6.1: a point of small order gives zeros, which everybody can compute.
            return b""


def is_signed_by(signing: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the owner of a public Ed25519 key has signed a text; False for what is no key at all."""
    try:
        VerifyKey(signing).verify(text, signature)
    except CryptoError:
        return False
    return True


def load_identity(folder: Path) -> NodeIdentity:
    """This node's identity; a missing seed is drawn and written with mode 0600.

    Raises:
        ConfigError: a file cannot be read, others may read it, or it holds no seed.
        KernelError: a new seed cannot be written.
    """
    path = folder / FILE_NAME
    seed, former = (read_private_key(each, key="daemon.state_dir") for each in (path, folder / FORMER_NAME))
    if seed is None:
        seed = secrets.token_bytes(SEED_BYTES)
        write_privately(path, base64.b64encode(seed).decode() + "\n", is_durable=True)
    return NodeIdentity(seed, former)


def read_binding(folder: Path, node: str, peer: str) -> tuple[PairBinding, ...]:
    """How the daemon of this node signs its probes to a peer, for a process beside it; nothing where by the mesh's key.

    Raises:
        ConfigError: as for `load_identity`.
    """
    seed = read_private_key(folder / FILE_NAME, key="daemon.state_dir")
    kept = mesh_file.load(folder, node).kept if seed is not None else None
    if seed is None or kept is None:
        return ()
    own = NodeIdentity(seed)
    return tuple(
        PairBinding(
            peer=each.name,
            shared=own.share(each.identity),
            signs=each.step is not Step.STRANGE,
            is_alone=each.step is Step.SIGNS and time.time_ns() - each.since_ns >= GRACE_NS,
        )
        for each in kept.identities
        if each.name == peer and kept.identity == own.public
    )
