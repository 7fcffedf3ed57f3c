"""Hellos as datagrams: what one daemon tells another about itself, signed by the node, admitted by a key of the mesh.

    offset  bytes  content, big endian
    0       4      magic
    4       1      version
    5       1      flags: 1 an answer is wanted
    6       1      key id of the secret it is signed with (see `auth`)
    7       1      length n of the name
    8       8      boot epoch of the sender
    16      8      counter of its hellos in this epoch, from 1 on
    24      8      epoch of the hello that this one answers, 0 for none
    32      8      counter of that hello
    40      n      the sender's name in UTF-8
    40+n    m      the hello in MessagePack, without what has its default; fields a receiver does not know are ignored
    end-80  64     Ed25519 signature over all before, by the sender's own key (`model.identity`)
    end-16  16     tag over all before (HMAC-SHA-256, truncated)

The signature is the last field of the MessagePack, whose value is the last of its bytes; a version without identities
leaves it out and skips it where it is. The tag is what a stranger cannot make, and any node of the mesh can.

A hello is recorded as easily as a probe, so its content counts only under an epoch that was proven: by an answer to a
hello of ours (`membership.replay_protection`). Answers are no larger than hellos, so nobody is flooded by way of us.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

import msgspec

from meshwatchd.model.decoding import Door
from meshwatchd.model.digest import sha256
from meshwatchd.model.discovery import Hello
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.identity import PUBLIC_KEY_BYTES, PublicIdentity
from meshwatchd.model.node_report import NodeReport
from meshwatchd.wire.auth import TAG_BYTES, KeyRole, MacKey, MeshSecret, check_secrets, derive_hello_key, key_id

MAGIC: Final = b"MWHL"
VERSION: Final = 1
MAX_BYTES: Final = 1200
"""Crosses every tunnel in one piece: IPv6 guarantees 1 280 bytes, of which 48 are headers."""

_HEADER: Final = struct.Struct("> 4s B B B B Q Q Q Q")
_ASKS: Final = 1
LEAST_BYTES: Final = _HEADER.size + TAG_BYTES + 2
SIGNATURE_BYTES: Final = 64
FINGERPRINT_BYTES: Final = 8
_LABEL_SIGNATURE: Final = b"meshwatchd hello v1"
_LABEL_ROTATION: Final = b"meshwatchd next identity v1"
_LABEL_FINGERPRINT: Final = b"meshwatchd identity v1"

IsSigned = Callable[[bytes, bytes, bytes], bool]
"""Whether the owner of a public Ed25519 key has signed a text: key, signature, text."""


class Signer(Protocol):
    """A node's own keys: `adapters.identity.NodeIdentity`."""

    @property
    def public(self) -> PublicIdentity:
        """What peers know the node by."""

    @property
    def former(self) -> bytes:
        """The public signing key of the identity before; empty without one."""

    @property
    def voucher(self) -> bytes:
        """The signature of `rotation_text` by that key; empty without one."""

    def sign(self, text: bytes) -> bytes:
        """64 bytes."""


class HelloRejection(StrEnum):
    """Why a datagram is no hello; the name is that of its counter."""

    TOO_SHORT = "hello-too-short"
    TOO_LONG = "hello-too-long"
    NOT_OURS = "hello-not-ours"
    OTHER_VERSION = "hello-other-version"
    UNKNOWN_KEY = "hello-unknown-key"
    BAD_TAG = "hello-bad-tag"
    BAD_SIGNATURE = "hello-bad-signature"
    REPEATED = "hello-repeated"
    MALFORMED = "hello-malformed"


class Stamp(NamedTuple):
    """Which hello of a sender: unique for ever, since no epoch comes twice."""

    epoch: int
    counter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """One datagram's content.

    Attributes:
        sender: the node's name, the same as in the hello's view.
        answers: the hello that this one answers, or None.
        asks: an answer is wanted.
        seen: the address at which the sender's tunnel of the mesh has the receiver; "" where it has none.
        came_from: in answers, the address from which the hello came that is answered; "" where its port was changed.
        knows: addresses of other nodes that the sender hears; left out where the datagram has no room for them.
        present: addresses of known nodes of other locations, with how many seconds ago the sender heard each; likewise.
        holds: fingerprint of the receiver's identity as the sender remembers it; empty where it says nothing of it.
        signs_pair: the sender signs its probes to the receiver with the key of the pair.
        report: how the sender fares, for people; left out where the datagram has no room for it.
        identity: decoded only: whose signature the hello has; None for one of a version without.
        former: decoded only: the public signing key that vouches for this identity; empty without one.
    """

    sender: str
    stamp: Stamp
    hello: Hello
    answers: Stamp | None = None
    asks: bool = False
    seen: str = ""
    came_from: str = ""
    knows: tuple[str, ...] = ()
    present: Mapping[str, int] = field(default_factory=dict)
    holds: bytes = b""
    signs_pair: bool = False
    report: NodeReport | None = None
    identity: PublicIdentity | None = None
    former: bytes = b""


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    hello: Hello
    seen: str = ""
    came_from: str = ""
    knows: tuple[str, ...] = ()
    present: dict[str, int] = {}
    holds: bytes = b""
    signs_pair: bool = False
    report: NodeReport | None = None
    signing: bytes = b""
    exchange: bytes = b""
    former: bytes = b""
    voucher: bytes = b""
    signature: bytes = b""


_OPTIONAL: Final = ("seen", "came_from", "present", "report", "knows")
_SACRIFICES: Final = ((), _OPTIONAL[4:], _OPTIONAL[3:], _OPTIONAL[2:])
_DOOR: Final = Door("hello", "a node with our key is of another version: meshwatchctl version on each")
_DECODER: Final = msgspec.msgpack.Decoder(_Body)


class HelloKeys:
    """The keys of the whole mesh: one signs, both are believed.

    Args:
        secrets: one active and at most one receive-only.
    """

    def __init__(self, secrets: Sequence[MeshSecret]) -> None:
        """Raises ValueError when the secrets cannot be used together; the text names the remedy."""
        self._keys: dict[int, MacKey] = {}
        self._signing_id = 0
        self.replace(secrets)

    @property
    def signing_id(self) -> int:
        """The key id of what this node signs with."""
        return self._signing_id

    def replace(self, secrets: Sequence[MeshSecret]) -> None:
        """Use these secrets from here on.

        Raises:
            ValueError: they cannot be used together, and nothing has changed.
        """
        check_secrets(secrets)
        self._keys = {key_id(each.secret): MacKey(derive_hello_key(each.secret)) for each in secrets}
        self._signing_id = next(key_id(each.secret) for each in secrets if each.role is KeyRole.ACTIVE)

    def signing(self) -> tuple[int, MacKey]:
        """What to sign with."""
        return self._signing_id, self._keys[self._signing_id]

    def find(self, number: int) -> MacKey | None:
        """The key of that id, None for strangers' and dropped ones."""
        return self._keys.get(number)


def fingerprint(identity: PublicIdentity) -> bytes:
    """The 8 bytes by which a hello names the identity of its receiver."""
    return sha256(_LABEL_FINGERPRINT + identity.signing + identity.exchange).digest()[:FINGERPRINT_BYTES]


def rotation_text(identity: PublicIdentity) -> bytes:
    """What a node's former key signs to vouch for the next identity of that node."""
    return _LABEL_ROTATION + identity.signing + identity.exchange


def encode(greeting: Greeting, keys: HelloKeys, signer: Signer | None = None) -> bytes:
    """The datagram.

    Raises:
        ValueError: it does not fit into MAX_BYTES; names or capabilities are too long.
    """
    number, key = keys.signing()
    name = greeting.sender.encode()
    answers = greeting.answers or Stamp(epoch=0, counter=0)
    around = _HEADER.size + len(name) + TAG_BYTES
    # What is sacrificed first for room: introductions are repeated by others, reports are for people.
    for lacks in _SACRIFICES:
        packed = _pack(greeting, signer, lacks)
        if around + len(packed) <= MAX_BYTES:
            break
    size = around + len(packed)
    if len(name) > 255 or size > MAX_BYTES:
        raise ValueError(f"a hello of {size} bytes is longer than {MAX_BYTES}; shorten the names of node and location")
    flags = _ASKS if greeting.asks else 0
    stamp = greeting.stamp
    header = _HEADER.pack(
        MAGIC, VERSION, flags, number, len(name), stamp.epoch, stamp.counter, answers.epoch, answers.counter
    )
    text = header + name + packed
    if signer is not None:
        signed = text[:-SIGNATURE_BYTES]
        text = signed + signer.sign(_LABEL_SIGNATURE + signed)
    return text + key.tag(text)


def _pack(greeting: Greeting, signer: Signer | None, lacks: Container[str]) -> bytes:
    """The MessagePack of a greeting; with a signer it ends with as many zeros as its signature takes."""
    body: dict[str, object] = {"hello": _without_defaults(greeting.hello)}
    said = {name: getattr(greeting, name) for name in _OPTIONAL if name not in lacks}
    body |= {name: content for name, content in said.items() if content}
    if signer is not None:
        if greeting.holds:
            body |= {"holds": greeting.holds, "signs_pair": greeting.signs_pair}
        body |= {"signing": signer.public.signing, "exchange": signer.public.exchange}
        if signer.voucher:
            body |= {"former": signer.former, "voucher": signer.voucher}
        body["signature"] = bytes(SIGNATURE_BYTES)
    return msgspec.msgpack.encode(body)


def decode(
    datagram: bytes,
    keys: HelloKeys,
    is_repeated: Callable[[str, Stamp, Stamp | None], bool] | None = None,
    *,
    is_signed: IsSigned = lambda _key, _signature, _text: False,
) -> Greeting | HelloRejection:
    """What a datagram says, or why it is none of ours: the cheap reasons first, nothing believed before the tag.

    Args:
        datagram: from the wire.
        keys: of the mesh.
        is_repeated: whether a sender's hello, which may be an answer, has been heard: a replay costs no decoding.
        is_signed: verifies signatures of nodes; asked last, since it costs most. Without it none is verified.
    """
    if not LEAST_BYTES <= len(datagram) <= MAX_BYTES:
        return HelloRejection.TOO_SHORT if len(datagram) < LEAST_BYTES else HelloRejection.TOO_LONG
    magic, version, flags, number, name_bytes, *numbers = _HEADER.unpack_from(datagram)
    if magic != MAGIC:
        return HelloRejection.NOT_OURS
    if version != VERSION:
        return HelloRejection.OTHER_VERSION
    key = keys.find(number)
    if key is None:
        return HelloRejection.UNKNOWN_KEY
    if not key.is_tag_of(datagram[-TAG_BYTES:], datagram[:-TAG_BYTES]):
        return HelloRejection.BAD_TAG
    body_at = _HEADER.size + name_bytes
    epoch, counter, answers_epoch, answers_counter = numbers
    stamp = Stamp(epoch, counter)
    answers = Stamp(answers_epoch, answers_counter) if answers_epoch else None
    try:
        with _DOOR:
            sender = datagram[_HEADER.size : body_at].decode()
            if is_repeated is not None and is_repeated(sender, stamp, answers):
                return HelloRejection.REPEATED
            body = _DECODER.decode(datagram[body_at:-TAG_BYTES])
    except DecodeError:
        return HelloRejection.MALFORMED
    if not sender or sender != body.hello.view.node or not epoch or not counter:
        return HelloRejection.MALFORMED
    identity = PublicIdentity(signing=body.signing, exchange=body.exchange) if body.signing else None
    if identity is not None and not _is_own_word(datagram[:-TAG_BYTES], body, identity, is_signed):
        return HelloRejection.BAD_SIGNATURE
    return Greeting(
        sender=sender,
        stamp=stamp,
        hello=body.hello,
        answers=answers,
        asks=bool(flags & _ASKS),
        seen=body.seen,
        came_from=body.came_from,
        knows=body.knows,
        present=body.present,
        holds=body.holds if identity is not None else b"",
        signs_pair=body.signs_pair and identity is not None,
        report=body.report,
        identity=identity,
        former=body.former if identity is not None else b"",
    )


def _is_own_word(text: bytes, body: _Body, identity: PublicIdentity, is_signed: IsSigned) -> bool:
    """Whether the owner of an identity has signed this hello, and a former one vouches for it if the hello says so."""
    signed, signature = text[:-SIGNATURE_BYTES], text[-SIGNATURE_BYTES:]
    if {len(identity.signing), len(identity.exchange)} != {PUBLIC_KEY_BYTES} or body.signature != signature:
        return False
    if body.former and not is_signed(body.former, body.voucher, rotation_text(identity)):
        return False
    return is_signed(identity.signing, signature, _LABEL_SIGNATURE + signed)


def _without_defaults(value: msgspec.Struct) -> dict[str, object]:
    """A struct as a map of what differs from its defaults; a hello has thirty fields, and most say nothing.

    Defaults are those of the last fields, as for a function's arguments (msgspec.Struct.__struct_defaults__).
    """
    names, defaults = value.__struct_fields__, value.__struct_defaults__
    required = len(names) - len(defaults)
    told: dict[str, object] = {}
    for index, name in enumerate(names):
        content = getattr(value, name)
        if index >= required and content == defaults[index - required]:
            continue
        told[name] = _without_defaults(content) if isinstance(content, msgspec.Struct) else content
    return told
