"""Short hellos on the wire: small, signed for one receiver, and refused where they are anything else."""

from __future__ import annotations

import dataclasses
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_report import AdvertisedVerdict, NodeReport
from meshwatchd.wire import hello
from meshwatchd.wire.auth import BOUND, KeyRole, MeshKeys, MeshSecret, Purpose, node_id
from meshwatchd.wire.hello import MAX_BYTES, Stamp
from meshwatchd.wire.short_hello import (
    LEAST_BYTES,
    MAX_KNOWN,
    ShortHello,
    ShortHelloRejection,
    decode,
    encode,
    is_short,
)

SECRET, OTHER = MeshSecret(secret=bytes(range(32))), MeshSecret(secret=bytes(range(1, 33)))
SHARED = b"\7" * 32
CALM = ShortHello(sender="b1", stamp=Stamp(2**60, 90), since=3, report=NodeReport(severity="ok"))
FULL = dataclasses.replace(
    CALM,
    seen="203.0.113.11",
    knows=tuple(f"10.2.0.{number}" for number in range(MAX_KNOWN)),
    present={f"10.1.0.{number}": number for number in range(16)},
)


def keys_of(own, *peers, shared=SHARED, secrets=(SECRET,), signs=True):
    """The keys of a node that shares a secret with some others."""
    keys = MeshKeys(own, secrets, Purpose.HELLOS)
    for peer in peers:
        keys.admit(peer)
    keys.bind(PairBinding(peer=NodeName(peer), shared=shared, signs=signs) for peer in peers)
    return keys


TO_A1 = keys_of("b1", "a1").sending("a1")
AT_A1 = keys_of("a1", "b1", "b2")
PACKET = encode(FULL, TO_A1)


def hear(datagram, keys=AT_A1, heard=()):
    """What a node makes of a datagram; some it has heard."""
    return decode(datagram, keys, lambda sender, stamp, _answers: (sender, stamp) in heard)


@pytest.mark.parametrize("each", [CALM, FULL])
def test_what_is_written_is_read(each):
    """All that differs from hello to hello."""
    assert is_short(encode(each, TO_A1))
    assert each == hear(encode(each, TO_A1))


def test_it_is_short():
    """With UDP and IP a node of a healthy mesh says in 105 bytes what takes 1 050; and however long names are."""
    long = encode(dataclasses.replace(CALM, sender="n" * 253, knows=FULL.knows), keys_of("n" * 253, "a1").sending("a1"))

    assert len(encode(dataclasses.replace(CALM, knows=FULL.knows), TO_A1)) == len(long) <= 105 - 28
    assert len(PACKET) <= 170


def test_the_longest_fits():
    """A report says 240 letters at most, and what is no part of a short hello is left out."""
    verdicts = tuple(AdvertisedVerdict("c" * 15, "f" * 25, "n" * 20) for _ in range(4))
    crowded = dataclasses.replace(
        FULL,
        report=NodeReport(severity="critical", verdicts=verdicts),
        knows=("fd00::1", "b2", *FULL.knows, "10.2.0.99"),
        present={**FULL.present, "fd00::1": 1, "10.9.9.9": 256, "10.9.9.8": -1},
    )
    read = hear(encode(crowded, TO_A1))

    assert dataclasses.replace(crowded, knows=FULL.knows, present=FULL.present) == read


def test_a_node_in_the_middle_of_a_rotation_is_understood():
    """Signed with the new secret, believed by who still signs with the old one; a third secret is unknown."""
    both = OTHER, MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY)

    assert FULL == hear(PACKET, keys_of("a1", "b1", secrets=both))
    ahead = encode(FULL, keys_of("b1", "a1", secrets=both).sending("a1"))
    assert ShortHelloRejection.UNKNOWN_KEY is hear(ahead)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (keys_of("a1", "b2"), ShortHelloRejection.UNKNOWN_KEY),
        (keys_of("a1", "b1", shared=b"\x08" * 32), ShortHelloRejection.BAD_TAG),
        (keys_of("a2", "b1"), ShortHelloRejection.BAD_TAG),
    ],
    ids=["a stranger", "another identity", "for another node"],
)
def test_only_who_shares_a_secret_with_the_sender_believes_it(keys, reason):
    """An identity that was exchanged takes the key with it."""
    assert reason is hear(PACKET, keys)


def test_whoever_has_the_mesh_key_speaks_for_nobody():
    """Not while the two have no key of their own, either: such a hello is a whole one."""
    text = PACKET[:5] + bytes([PACKET[5] ^ BOUND]) + PACKET[6:-16]
    mesh = keys_of("b1", "a1", signs=False).sending("a1")

    assert not mesh.is_bound
    assert ShortHelloRejection.UNKNOWN_KEY is hear(text + mesh.send.tag(text))
    assert ShortHelloRejection.BAD_TAG is hear(PACKET[:-16] + mesh.send.tag(PACKET[:-16]))


def test_the_key_is_no_other_protocols():
    """A probe cannot be made into a hello."""
    probes = MeshKeys("b1", [SECRET])
    probes.bind([PairBinding(peer=NodeName("a1"), shared=SHARED, signs=True)])

    assert probes.add_peer("a1").key_id == TO_A1.key_id
    assert probes.add_peer("a1").send.tag(b"") != TO_A1.send.tag(b"")


def test_what_is_sent_back_to_its_maker_does_not_verify():
    """Each direction has a key of its own."""
    back = PACKET[:6] + node_id("a1").to_bytes(8, "big") + PACKET[14:]

    assert ShortHelloRejection.BAD_TAG is hear(back, keys_of("b1", "a1"))


def test_a_replay_is_not_decoded():
    """It was heard, or a later one."""
    assert ShortHelloRejection.REPEATED is hear(PACKET, heard={("b1", FULL.stamp)})


@given(st.integers(0, 600), st.integers(1, 255))
def test_one_changed_byte_is_noticed(position, change):
    """Wherever it is."""
    datagram = bytearray(PACKET)
    position %= len(datagram)
    datagram[position] ^= change

    assert isinstance(hear(bytes(datagram)), ShortHelloRejection)


@given(st.binary(max_size=MAX_BYTES + 10))
def test_noise_is_refused(data):
    """Anything may arrive at an open port, and a whole hello is none."""
    for datagram in (data, b"MWHS\x01" + data, b"MWHL\x01" + data.ljust(LEAST_BYTES, b"\0")):
        assert isinstance(hear(datagram), ShortHelloRejection)


def _signed(body, *, epoch=5, counter=9, version=1):
    header = struct.pack("> 4s B B Q Q Q", b"MWHS", version, TO_A1.key_id, node_id("b1"), epoch, counter)
    return header + body + TO_A1.send.tag(header + body)


def _since(*numbers):
    return msgspec.msgpack.encode(numbers)


EMPTY = _since(1)


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (_signed(EMPTY, version=2), ShortHelloRejection.OTHER_VERSION),
        (_signed(b"\xc1"), ShortHelloRejection.MALFORMED),
        (_signed(b"\x80"), ShortHelloRejection.MALFORMED),
        (_signed(EMPTY, epoch=0), ShortHelloRejection.MALFORMED),
        (_signed(_since(0)), ShortHelloRejection.MALFORMED),
        (_signed(_since(9)), ShortHelloRejection.MALFORMED),
        (_signed(_since(2**64 - 1)), ShortHelloRejection.MALFORMED),
        (_signed(_since(-1)), ShortHelloRejection.MALFORMED),
        (_signed(_since()), ShortHelloRejection.MALFORMED),
        (_signed(bytes(MAX_BYTES)), ShortHelloRejection.WRONG_LENGTH),
        (_signed(b""), ShortHelloRejection.WRONG_LENGTH),
    ],
)
def test_what_a_node_of_the_mesh_gets_wrong_is_refused_as_well(datagram, reason):
    """The tag proves who speaks, not that it makes sense."""
    assert reason is hear(datagram)


def test_what_is_cut_off_or_of_a_later_version_is_passed_over():
    """Nodes are upgraded one after the other."""
    later = _signed(msgspec.msgpack.encode([1, None, "", b"\x0a\2\0\1\x0a", b"\x0a\1\0\1\7\x0a", "more", 9]))

    assert ShortHello(sender="b1", stamp=Stamp(5, 9), since=1, knows=("10.2.0.1",), present={"10.1.0.1": 7}) == hear(
        later
    )


def test_no_version_takes_one_for_the_other():
    """A version without short hellos drops them by their magic, before anything is counted."""
    keys = hello.HelloKeys([SECRET])

    assert hello.HelloRejection.NOT_OURS is hello.decode(PACKET, keys)
    assert not is_short(hello.MAGIC + PACKET[4:])
