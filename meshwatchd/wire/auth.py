"""From one secret of the mesh to a key for each pair of nodes and direction, and the tags made with them.

    secret (32 bytes, same on all nodes), secret of the pair (X25519 of both nodes' own keys, 32 bytes)
       | HKDF-SHA-256, info = label, smaller name, larger name, name of the node that signs
       v
    key "b1 signs for a1"      key "a1 signs for b1"

The mesh's secret admits, the pair's secret says who it is: a node that is broken into can sign for itself alone, and
a packet sent back to its maker does not verify. Until two nodes know each other's keys, and with a peer of a version
that has none, the mesh's secret stands alone: then every node, and whoever has read its file, can sign for both of
them. Hellos introduce the keys (`membership.identities`); a bit of a packet's key id says how its key is derived.

A node has a key with itself too, for probes to its own reflector. Both names in it are its own, so that no packet
between two nodes verifies under it. Both directions are one there: what keeps a request from being taken for
its own answer is the reply flag, and what keeps it from being answered twice the window of `replay`.

To change the secret without losing a packet: every node first gets the new one as receive-only, then, node
by node, the roles are swapped, then the old one is dropped. Own probes are signed with the active secret;
an answer is signed with whichever secret its request used, because that one the peer provably has.

Source: RFC 5869 (HKDF), RFC 2104 (HMAC), RFC 8762 section 4.4 (truncation to 128 bits).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from meshwatchd.model.digest import compare_digest, sha256
from meshwatchd.model.identity import PairBinding

TAG_BYTES: Final = 16
SECRET_BYTES: Final = 32
_HASH_BYTES: Final = 32
_BLOCK_BYTES: Final = 64
_SALT: Final = b"meshwatchd mesh secret"
_LABEL_PAIR: Final = b"meshwatchd "
_LABEL_BOUND: Final = b"meshwatchd bound "
_LABEL_HELLO: Final = b"meshwatchd hello v1"
_LABEL_KEY_ID: Final = b"meshwatchd key id v1"
MAX_SECRETS: Final = 2
BOUND: Final = 0x80
"""Turned over in the key id of a mesh secret, it makes that of the keys which also need the secret of the pair."""

Data = bytes | bytearray | memoryview


class MacKey:
    """A key ready to make and check 16-byte tags (HMAC-SHA-256, truncated).

    Keeps the hash states behind the padded key and copies them for each tag: the key is set up once.

    Attributes:
        digest: the whole HMAC of some bytes, 32 bytes long; its first TAG_BYTES are the tag. A function and not a
            method: it is called eight times for a probe and its answer.
    """

    __slots__ = ("digest",)

    def __init__(self, key: bytes) -> None:
        if len(key) > _BLOCK_BYTES:
            key = sha256(key).digest()
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        copy_inner = sha256(bytes(octet ^ 0x36 for octet in padded)).copy
        copy_outer = sha256(bytes(octet ^ 0x5C for octet in padded)).copy

        def digest(data: Data) -> bytes:
            inner, outer = copy_inner(), copy_outer()
            inner.update(data)
            outer.update(inner.digest())
            return outer.digest()

        self.digest = digest

    def tag(self, first: Data, second: Data = b"") -> bytes:
        """The tag over both parts, as if they were one piece."""
        return self.digest(b"".join((first, second)) if second else first)[:TAG_BYTES]

    def is_tag_of(self, tag: bytes, first: Data, second: Data = b"") -> bool:
        """Compare in a time that does not depend on where the tags differ."""
        return compare_digest(self.tag(first, second), tag)


def hkdf_extract(salt: bytes, secret: bytes) -> bytes:
    """RFC 5869 section 2.2; an absent salt is an empty one."""
    return MacKey(salt or bytes(_HASH_BYTES)).digest(secret)


def hkdf_expand(pseudorandom_key: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 section 2.3; length at most 255 * 32 bytes."""
    assert length <= 255 * _HASH_BYTES
    key, output, block = MacKey(pseudorandom_key), b"", b""
    for counter in range(1, -(-length // _HASH_BYTES) + 1):
        block = key.digest(block + info + bytes((counter,)))
        output += block
    return output[:length]


def node_id(name: str) -> int:
    """The 64 bits that stand for a node in packets: the first 8 bytes of SHA-256 of its name in UTF-8."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big")


def key_id(secret: bytes) -> int:
    """The 8 bits that tell the secrets of one mesh apart; derived, so that nobody has to number them."""
    return hkdf_expand(hkdf_extract(_SALT, secret), _LABEL_KEY_ID, 1)[0]


class Purpose(StrEnum):
    """What a key of a pair signs; a tag made for one verifies as no other."""

    PROBES = "stamp v1"
    TAPS = "tap v2"
    HELLOS = "short hello v1"
    WAYS = "way v1"


def derive_key(
    secret: bytes, *, signer: str, receiver: str, shared: bytes = b"", purpose: Purpose = Purpose.PROBES
) -> bytes:
    """The 32-byte key with which `signer` signs what it sends to `receiver`.

    Args:
        secret: of the mesh, 32 bytes.
        signer: name of the node that signs.
        receiver: name of the node that verifies.
        shared: 32 bytes that these two nodes alone can compute; empty for a key that every node can derive.
        purpose: what it signs.
    """
    names = (*sorted((signer, receiver)), signer)
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    label = (_LABEL_BOUND if shared else _LABEL_PAIR) + purpose.encode()
    info = label + b"".join(len(raw).to_bytes(2, "big") + raw for raw in map(str.encode, names))
    return hkdf_expand(hkdf_extract(_SALT, secret + shared), info, _HASH_BYTES)


def derive_hello_key(secret: bytes) -> bytes:
    """The 32-byte key of hellos: one for the whole mesh.

    It admits and says no more: a node that is greeted for the first time has no key of a pair yet. Which node speaks is
    in the signature inside (`wire.hello`).
    """
    return hkdf_expand(hkdf_extract(_SALT, secret), _LABEL_HELLO, _HASH_BYTES)


class KeyRole(StrEnum):
    """What a secret is used for."""

    ACTIVE = "active"
    RECEIVE_ONLY = "receive-only"


class MeshSecret(msgspec.Struct, frozen=True, kw_only=True):
    """One secret of the mesh; 32 random bytes."""

    secret: bytes
    role: KeyRole = KeyRole.ACTIVE

    def __repr__(self) -> str:
        return f"MeshSecret(key_id={key_id(self.secret)}, role={self.role})"


class PairKey(msgspec.Struct, frozen=True, kw_only=True):
    """Both directions between this node and one peer under one secret.

    Attributes:
        key_id: as packets carry it.
        secret_id: of the mesh secret it was derived from, with the pair's shared secret or without.
    """

    key_id: int
    secret_id: int
    peer: str
    peer_id: int
    send: MacKey
    receive: MacKey

    @property
    def is_bound(self) -> bool:
        """Whether the two nodes alone can derive it, and not each node of the mesh."""
        return self.key_id != self.secret_id


class MeshKeys:
    """All keys of this node: one secret that signs, at most one more that is only accepted.

    Keys of a pair are derived when they are first asked for: a mesh of 1 000 nodes costs tens of milliseconds of
    hashing, and a rotation must not stop the engine for that long. A stranger who knows names and key ids can
    cause each derivation once, no more.
    """

    def __init__(self, own_name: str, secrets: Sequence[MeshSecret], purpose: Purpose = Purpose.PROBES) -> None:
        """Raises ValueError when the secrets cannot be used together; the text names the remedy."""
        self._own_name, self._purpose = own_name, purpose
        self._names: dict[int, str] = {}
        self._secrets: dict[int, bytes] = {}
        self._signing_id = 0
        self._sending: dict[str, PairKey] = {}
        self._by_ids: dict[tuple[int, int], PairKey] = {}
        self._bindings: dict[str, PairBinding] = {}
        self.replace(secrets)

    @property
    def signing_id(self) -> int:
        """The key id of what this node signs its probes with."""
        return self._signing_id

    @property
    def accepted_ids(self) -> tuple[int, ...]:
        """The key ids of all packets that are believed, in rising order."""
        return tuple(sorted(self._secrets))

    def replace(self, secrets: Sequence[MeshSecret]) -> None:
        """Use these secrets from here on; what was derived from one that stays is kept.

        Raises:
            ValueError: they cannot be used together, and nothing has changed.
        """
        check_secrets(secrets)
        before, self._secrets = self._secrets, {key_id(secret.secret): secret.secret for secret in secrets}
        # Compared by secret: another one may have the same key id as one that was dropped.
        kept = {number for number, secret in self._secrets.items() if before.get(number) == secret}
        self._by_ids = {ids: pair for ids, pair in self._by_ids.items() if pair.secret_id in kept}
        self._signing_id = next(key_id(each.secret) for each in secrets if each.role is KeyRole.ACTIVE)
        self._sending.clear()

    def bind(self, bindings: Iterable[PairBinding]) -> None:
        """Sign and believe by these from here on; peers that are not among them stay as they are."""
        for binding in bindings:
            if binding.shared:
                self._bindings[binding.peer] = binding
            else:
                self._bindings.pop(binding.peer, None)
            self._drop(binding.peer)

    def _drop(self, peer: str) -> None:
        """Derive the keys of a peer anew when they are asked for."""
        peer_id = node_id(peer)
        self._sending.pop(peer, None)
        self._by_ids = {ids: pair for ids, pair in self._by_ids.items() if ids[0] != peer_id}

    def add_peer(self, peer: str) -> PairKey:
        """Admit a node; returns the key for own probes."""
        self.admit(peer)
        return self.sending(peer)

    def admit(self, peer: str) -> None:
        """Believe a node; its keys are derived when they are first needed."""
        self._names[node_id(peer)] = peer

    def remove_peer(self, peer: str) -> None:
        """Forget a node; its packets are refused from here on."""
        self._names.pop(node_id(peer), None)
        self._drop(peer)

    def name(self, peer_id: int) -> str | None:
        """The admitted node that a packet claims to come from, whatever it is signed with."""
        return self._names.get(peer_id)

    def sending(self, peer: str) -> PairKey:
        """The key for own probes to a peer that was added."""
        pair = self._sending.get(peer)
        if pair is None:
            binding = self._bindings.get(peer)
            bound = BOUND if binding is not None and binding.signs else 0
            pair = self.receiving(node_id(peer), self._signing_id ^ bound)
            assert pair is not None, "sending to a node that was not added"
            self._sending[peer] = pair
        return pair

    def receiving(self, peer_id: int, key_id: int) -> PairKey | None:
        """The key a packet claims (see `seal.peek`); None for strangers, dropped secrets and what the pair outgrew."""
        pair = self._by_ids.get((peer_id, key_id))
        if pair is None and peer_id in self._names:
            pair = self._derive(key_id, peer_id)
            if pair is not None:
                self._by_ids[peer_id, key_id] = pair
        return pair

    def _derive(self, key_id: int, peer_id: int) -> PairKey | None:
        peer = self._names[peer_id]
        binding = self._bindings.get(peer)
        is_bound = key_id not in self._secrets
        secret_id = key_id ^ BOUND if is_bound else key_id
        shared = binding.shared if is_bound and binding is not None else b""
        is_accepted = bool(shared) if is_bound else binding is None or not binding.is_alone
        if secret_id not in self._secrets or not is_accepted:
            return None
        secret = self._secrets[secret_id]
        return PairKey(
            key_id=key_id,
            secret_id=secret_id,
            peer=peer,
            peer_id=peer_id,
            send=self._make(secret, signer=self._own_name, receiver=peer, shared=shared),
            receive=self._make(secret, signer=peer, receiver=self._own_name, shared=shared),
        )

    def _make(self, secret: bytes, *, signer: str, receiver: str, shared: bytes) -> MacKey:
        return MacKey(derive_key(secret, signer=signer, receiver=receiver, shared=shared, purpose=self._purpose))


def check_secrets(secrets: Sequence[MeshSecret]) -> None:
    """Whether these secrets can be used together.

    Raises:
        ValueError: they cannot; the text names the remedy.
    """
    if any(len(secret.secret) != SECRET_BYTES for secret in secrets):
        raise ValueError(f"a mesh secret has {SECRET_BYTES} bytes; make one with: head -c 32 /dev/urandom | base64")
    if len(secrets) > MAX_SECRETS or [secret.role for secret in secrets].count(KeyRole.ACTIVE) != 1:
        raise ValueError("one secret must be active and at most one more receive-only")
    if len({key_id(secret.secret) & ~BOUND for secret in secrets}) != len(secrets):
        raise ValueError("both mesh secrets have the same key id; make another one")
