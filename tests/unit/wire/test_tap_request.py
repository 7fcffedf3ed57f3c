"""The datagrams of tap exchanges: what is written is read, and nothing else is believed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.model.bisection import PeerCounts, SeriesName
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import KeyRole, MeshKeys, MeshSecret, PairKey, Purpose, node_id
from meshwatchd.wire.signed_datagram import Rejection
from meshwatchd.wire.tap_request import (
    MAX_BYTES,
    TapContent,
    TapKind,
    TapMessage,
    decode,
    encode,
    find_pair,
)

SECRET = MeshSecret(secret=bytes(range(32)))
OTHER = MeshSecret(secret=bytes(range(1, 33)))
COUNTS = tuple(
    PeerCounts(name=name, at_lower=1000, at_overlay=None, answers_at_overlay=7, answers_at_lower=0)
    for name in SeriesName
)
LONGEST = "n" * 253
"""A name of the DNS has no more."""
SHARED = b"\7" * 32


def keys_of(own: str, *peers: str, secrets=(SECRET,), bindings=()) -> MeshKeys:
    """The keys of a node that knows some others."""
    keys = MeshKeys(own, secrets, Purpose.TAPS)
    for peer in peers:
        keys.admit(peer)
    keys.bind(bindings)
    return keys


def bound_to(peer: str, *, is_alone: bool = True) -> PairBinding:
    """Both nodes hold each other's identity."""
    return PairBinding(peer=NodeName(peer), shared=SHARED, signs=True, is_alone=is_alone)


B1, B3 = keys_of("b1", "b3", "b2"), keys_of("b3", "b1", "b2")
TO_B3 = B1.sending("b3")


def hear(datagram: bytes, keys: MeshKeys = B3) -> TapMessage | Rejection:
    """What a node makes of a datagram."""
    pair = find_pair(datagram, keys)
    return decode(datagram, pair) if isinstance(pair, PairKey) else pair


def message(kind: TapKind = TapKind.COUNTS, **changes: object) -> TapMessage:
    """A datagram of b1 for b3."""
    content = TapContent(sender=NodeName("b1"), target=NodeName("b3"), counts=COUNTS)
    return TapMessage(kind=kind, nonce=2**64 - 1, content=msgspec.structs.replace(content, **changes))


@pytest.mark.parametrize("kind", list(TapKind))
def test_what_is_written_is_read(kind):
    """Every kind, with everything it may carry."""
    assert message(kind, ssid=0xC001) == hear(encode(message(kind, ssid=0xC001), TO_B3))


def test_the_longest_names_fit():
    """One datagram crosses every tunnel."""
    longest = message(sender=NodeName(LONGEST), target=NodeName(LONGEST))

    assert len(encode(longest, TO_B3)) <= MAX_BYTES


def test_a_rotation_is_survived():
    """Signed with the new secret, believed by who still signs with the old one; a third secret is unknown."""
    both = OTHER, MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY)

    assert message() == hear(encode(message(), TO_B3), keys_of("b3", "b1", secrets=both))
    assert Rejection.UNKNOWN_KEY is hear(encode(message(), keys_of("b1", "b3", secrets=both).sending("b3")))


def test_the_key_is_no_other_protocols():
    """A datagram of one cannot be taken for one of another, whatever its bytes."""
    probes = MeshKeys("b1", [SECRET]).add_peer("b3")

    assert TO_B3.key_id == probes.key_id
    assert TO_B3.send.tag(b"") != probes.send.tag(b"")


def test_whoever_has_the_mesh_key_asks_in_no_other_nodes_name():
    """Not a minute after two nodes hold each other's identity; what a stolen node signs for itself is heard."""
    b3 = keys_of("b3", "b1", "b2", bindings=[bound_to("b1"), bound_to("b2", is_alone=False)])

    assert Rejection.UNKNOWN_KEY is hear(encode(message(), TO_B3), b3)
    assert message() == hear(encode(message(), keys_of("b1", "b3", bindings=[bound_to("b3")]).sending("b3")), b3)
    as_b2 = encode(message(sender=NodeName("b2")), keys_of("b2", "b3").sending("b3"))
    assert message(sender=NodeName("b2")) == hear(as_b2, b3)


def test_a_name_inside_is_that_of_the_keys():
    """One node signs with its own key and names another one."""
    text = encode(message(sender=NodeName("b2")), keys_of("b1", "b3").sending("b3"))
    forged = text[:16] + node_id("b1").to_bytes(8, "big") + text[24:-16]

    assert Rejection.MALFORMED is hear(forged + TO_B3.send.tag(forged))


def test_what_is_sent_back_to_its_maker_does_not_verify():
    """Each direction has a key of its own."""
    datagram = encode(message(), TO_B3)
    back = datagram[:16] + node_id("b3").to_bytes(8, "big") + datagram[24:]

    assert Rejection.BAD_TAG is hear(back, B1)


@given(st.integers(0, 600), st.integers(1, 255))
def test_one_changed_byte_is_noticed(position, change):
    """Wherever it is."""
    datagram = bytearray(encode(message(), TO_B3))
    position %= len(datagram)
    datagram[position] ^= change

    assert isinstance(hear(bytes(datagram)), Rejection)


@given(st.binary(max_size=MAX_BYTES + 10))
def test_noise_is_refused(data):
    """Anything may arrive at an open port."""
    assert isinstance(hear(data), Rejection)
    assert isinstance(hear(b"MWTP\x02" + data), Rejection)


def _signed(kind: int, body: bytes) -> bytes:
    text = b"MWTP\x02" + bytes((kind, TO_B3.key_id, 0)) + bytes(8) + node_id("b1").to_bytes(8, "big") + body
    return text + TO_B3.send.tag(text)


@pytest.mark.parametrize(("kind", "body"), [(1, b"\xc1"), (9, encode(message(), TO_B3)[24:-16]), (1, b"\x80")])
def test_what_a_node_of_the_mesh_gets_wrong_is_refused_as_well(kind, body):
    """No MessagePack, a kind of another version, no names."""
    assert Rejection.MALFORMED is hear(_signed(kind, body))
