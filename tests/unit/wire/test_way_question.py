"""Questions about ways: what is written is read, and nothing else is believed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import KeyRole, MeshKeys, MeshSecret, PairKey, Purpose
from meshwatchd.wire.signed_datagram import Rejection
from meshwatchd.wire.way_question import (
    MAX_BYTES,
    WayContent,
    WayKind,
    WayMessage,
    decode,
    encode,
    find_pair,
)

SECRET = MeshSecret(secret=bytes(range(32)))
OTHER = MeshSecret(secret=bytes(range(1, 33)))


def keys_of(own: str, *peers: str, secrets=(SECRET,), purpose=Purpose.WAYS) -> MeshKeys:
    """The keys of a node that knows some others."""
    keys = MeshKeys(own, secrets, purpose)
    for peer in peers:
        keys.admit(peer)
    return keys


E1, W1 = keys_of("e1", "w1", "e2"), keys_of("w1", "e1", "e2")
TO_W1 = E1.sending("w1")


def hear(datagram: bytes, keys: MeshKeys = W1) -> WayMessage | Rejection:
    """What a node makes of a datagram."""
    pair = find_pair(datagram, keys)
    return decode(datagram, pair) if isinstance(pair, PairKey) else pair


def message(kind: WayKind = WayKind.ASK, **changes: object) -> WayMessage:
    """A datagram of e1 for w1."""
    content = WayContent(sender=NodeName("e1"), target=NodeName("w1"))
    return WayMessage(kind=kind, nonce=2**64 - 1, content=msgspec.structs.replace(content, **changes))


@pytest.mark.parametrize("kind", list(WayKind))
def test_what_is_written_is_read(kind):
    """Every kind, with everything it may carry."""
    whole = message(kind, about=NodeName("e2"), seen="10.81.0.11", is_reached=True, is_willing=True)
    assert whole == hear(encode(whole, TO_W1))


@pytest.mark.parametrize("size", [200, 300, 1472, 8972, MAX_BYTES, 2 * MAX_BYTES])
def test_a_datagram_is_padded_to_a_size_and_never_beyond(size):
    """Within a few bytes; what is padded says the same."""
    datagram = encode(message(), TO_W1, size=size)
    wanted = min(size, MAX_BYTES)
    assert wanted - 12 <= len(datagram) <= wanted
    assert isinstance(heard := hear(datagram), WayMessage)
    assert message() == msgspec.structs.replace(heard, content=msgspec.structs.replace(heard.content, padding=b""))


def test_an_answer_is_no_longer_than_its_question():
    """A forged source gets no more than was sent in its name."""
    asked = encode(message(), TO_W1, size=1472)
    content = WayContent(sender=NodeName("w1"), target=NodeName("e1"), seen="10.81.0.11")
    answer = encode(WayMessage(kind=WayKind.REACHED, nonce=1, content=content), W1.sending("e1"), size=len(asked))
    assert len(answer) <= len(asked)


def test_keys_of_another_purpose_or_secret_or_node_are_not_believed():
    """Nor is a datagram that one node sends in the name of another."""
    taps = keys_of("e1", "w1", purpose=Purpose.TAPS)
    assert Rejection.BAD_TAG is hear(encode(message(), taps.sending("w1")))
    assert Rejection.UNKNOWN_KEY is hear(encode(message(), keys_of("e1", "w1", secrets=(OTHER,)).sending("w1")))
    assert Rejection.UNKNOWN_KEY is hear(encode(message(), TO_W1), keys_of("w1", "e2"))
    forged = encode(message(sender=NodeName("e2")), TO_W1)
    assert hear(forged) in (Rejection.BAD_TAG, Rejection.MALFORMED)


def test_a_rotation_is_survived():
    """Signed with the new secret, believed by who still signs with the old one."""
    old = MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY)
    new = keys_of("e1", "w1", secrets=(OTHER, old))
    both = keys_of("w1", "e1", secrets=(SECRET, MeshSecret(secret=OTHER.secret, role=KeyRole.RECEIVE_ONLY)))
    assert message() == hear(encode(message(), new.sending("w1")), both)


@given(st.binary(max_size=200))
def test_noise_is_none_of_ours(noise):
    """Whatever its length."""
    assert isinstance(hear(noise), Rejection)


@given(st.integers(0, 90), st.integers(1, 255))
def test_a_byte_that_is_changed_is_noticed(place, change):
    """Anywhere but in the reserved byte, which the tag covers as well."""
    datagram = bytearray(encode(message(), TO_W1))
    datagram[place % len(datagram)] ^= change
    assert message() != hear(bytes(datagram))
    assert not isinstance(hear(bytes(datagram)), WayMessage)


def test_content_that_is_none_is_malformed():
    """Signed by a node of another version."""
    good = encode(message(), TO_W1)
    text = good[:24] + msgspec.msgpack.encode({"sender": 7})
    assert Rejection.MALFORMED is hear(text + TO_W1.send.tag(text))
    strange = good[:5] + b"\x09" + good[6:-16]
    assert Rejection.MALFORMED is hear(strange + TO_W1.send.tag(strange))
    assert Rejection.WRONG_LENGTH is hear(good[:30])
    assert Rejection.NOT_OURS is hear(b"XXXX" + good[4:])
