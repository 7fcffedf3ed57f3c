"""The datagrams of tap exchanges: what is written is read, and nothing else is believed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.model.bisection import PeerCounts, SeriesName
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import KeyRole, MeshSecret, derive_hello_key, derive_tap_key
from meshwatchd.wire.tap_request import (
    MAX_BYTES,
    TapContent,
    TapKeys,
    TapKind,
    TapMessage,
    TapRejection,
    decode,
    encode,
)

SECRET = MeshSecret(secret=bytes(range(32)))
OTHER = MeshSecret(secret=bytes(range(1, 33)))
KEYS = TapKeys([SECRET])
COUNTS = tuple(
    PeerCounts(name=name, at_lower=1000, at_overlay=None, answers_at_overlay=7, answers_at_lower=0)
    for name in SeriesName
)
LONGEST = "n" * 253
"""A name of the DNS has no more."""


def message(kind: TapKind = TapKind.COUNTS, **changes: object) -> TapMessage:
    """A datagram of b1 for b3."""
    content = TapContent(sender=NodeName("b1"), target=NodeName("b3"), counts=COUNTS)
    return TapMessage(kind=kind, nonce=2**64 - 1, content=msgspec.structs.replace(content, **changes))


@pytest.mark.parametrize("kind", list(TapKind))
def test_what_is_written_is_read(kind):
    """Every kind, with everything it may carry."""
    assert message(kind, ssid=0xC001) == decode(encode(message(kind, ssid=0xC001), KEYS), KEYS)


def test_the_longest_names_fit():
    """One datagram crosses every tunnel."""
    longest = message(sender=NodeName(LONGEST), target=NodeName(LONGEST))

    assert len(encode(longest, KEYS)) <= MAX_BYTES


def test_a_rotation_is_survived():
    """Signed with the new secret, believed by who still signs with the old one; a third secret is unknown."""
    ahead = TapKeys([OTHER, MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY)])

    assert message() == decode(encode(message(), KEYS), ahead)
    assert TapRejection.UNKNOWN_KEY is decode(encode(message(), ahead), KEYS)


def test_the_key_is_no_other_protocols():
    """A datagram of one cannot be taken for one of another, whatever its bytes."""
    assert derive_tap_key(SECRET.secret) != derive_hello_key(SECRET.secret)


@given(st.integers(0, 600), st.integers(1, 255))
def test_one_changed_byte_is_noticed(position, change):
    """Wherever it is."""
    datagram = bytearray(encode(message(), KEYS))
    position %= len(datagram)
    datagram[position] ^= change

    assert isinstance(decode(bytes(datagram), KEYS), TapRejection)


@given(st.binary(max_size=MAX_BYTES + 10))
def test_noise_is_refused(data):
    """Anything may arrive at an open port."""
    assert isinstance(decode(data, KEYS), TapRejection)
    assert isinstance(decode(b"MWTP\x01" + data, KEYS), TapRejection)


def _signed(kind: int, body: bytes) -> bytes:
    key = KEYS.find(KEYS.signing_id)
    assert key is not None
    text = b"MWTP\x01" + bytes((kind, KEYS.signing_id, 0)) + bytes(8) + body
    return text + key.tag(text)


@pytest.mark.parametrize(("kind", "body"), [(1, b"\xc1"), (9, encode(message(), KEYS)[16:-16]), (1, b"\x80")])
def test_what_a_node_of_the_mesh_gets_wrong_is_refused_as_well(kind, body):
    """No MessagePack, a kind of another version, no names."""
    assert TapRejection.MALFORMED is decode(_signed(kind, body), KEYS)
