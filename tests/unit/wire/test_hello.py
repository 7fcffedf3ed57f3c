"""Hellos on the wire: what is accepted, and the reason why the rest is not."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from meshwatchd.adapters.identity import NodeIdentity, is_signed_by
from meshwatchd.model.discovery import Candidate, Hello
from meshwatchd.model.node_report import AdvertisedVerdict, NodeReport
from meshwatchd.wire import hello as wire
from meshwatchd.wire.auth import KeyRole, MeshSecret
from meshwatchd.wire.hello import Greeting, HelloKeys, HelloRejection, Stamp
from tests.support import hellos

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
KEYS = HelloKeys([MeshSecret(secret=OLD)])
GREETING = Greeting(
    sender="a1",
    stamp=Stamp(epoch=7, counter=1),
    hello=hellos.hello("a1"),
    answers=Stamp(epoch=5, counter=9),
    asks=True,
    seen="203.0.113.11",
)
PACKET = wire.encode(GREETING, KEYS)


def test_what_was_said_is_understood():
    """All fields survive, those with defaults included."""
    assert GREETING == wire.decode(PACKET, KEYS)


def test_an_ordinary_hello_leaves_room():
    """Defaults and field names must not use up the datagram: long names have to fit as well."""
    assert len(PACKET) < 700


def test_other_nodes_are_told_where_there_is_room():
    """They help to find a mesh; what the node says of itself must arrive in any case."""
    known = tuple(f"192.168.100.{number}" for number in range(101, 117))
    greeting = dataclasses.replace(GREETING, knows=known)
    assert greeting == wire.decode(wire.encode(greeting, KEYS), KEYS)

    verbose = dataclasses.replace(greeting, hello=hellos.hello("a1", capabilities=("x" * 450,)))
    packet = wire.encode(verbose, KEYS)
    assert len(packet) <= wire.MAX_BYTES
    assert dataclasses.replace(verbose, knows=()) == wire.decode(packet, KEYS)


def test_who_is_present_is_told_rather_than_who_may_be_anywhere():
    """Introductions go first, then the report; without the rest a node would be taken for dead."""
    present = {f"192.168.100.{number}": number for number in range(100, 116)}
    told = dataclasses.replace(GREETING, present=present)
    full = dataclasses.replace(told, knows=tuple(f"10.200.{number}.111" for number in range(60)))

    assert told == wire.decode(wire.encode(told, KEYS), KEYS)
    assert told == wire.decode(wire.encode(full, KEYS), KEYS)


def test_a_report_goes_along_where_there_is_room():
    """It is for people: introductions go first, then the report, and what the mesh is made of stays."""
    report = NodeReport(severity="critical", verdicts=(AdvertisedVerdict("cloud", "leader-dead", "b1"),))
    told = dataclasses.replace(GREETING, report=report)
    assert told == wire.decode(wire.encode(told, KEYS), KEYS)
    long = NodeReport(verdicts=tuple(AdvertisedVerdict("c" * 200, "local", f"b{number}") for number in range(6)))
    assert GREETING == wire.decode(wire.encode(dataclasses.replace(GREETING, report=long), KEYS), KEYS)


def test_a_node_in_the_middle_of_a_rotation_is_understood():
    """One node signs with the new secret while another only accepts it."""
    ahead = HelloKeys([MeshSecret(secret=NEW), MeshSecret(secret=OLD, role=KeyRole.RECEIVE_ONLY)])
    behind = HelloKeys([MeshSecret(secret=OLD), MeshSecret(secret=NEW, role=KeyRole.RECEIVE_ONLY)])

    assert GREETING == wire.decode(wire.encode(GREETING, ahead), behind)
    assert GREETING == wire.decode(wire.encode(GREETING, behind), ahead)


def test_a_dropped_secret_is_believed_no_more():
    """After the third round of a rotation the old secret is a stranger's."""
    keys = HelloKeys([MeshSecret(secret=OLD)])
    keys.replace([MeshSecret(secret=NEW)])

    assert HelloRejection.UNKNOWN_KEY is wire.decode(PACKET, keys)


def test_secrets_that_cannot_be_used_together_leave_the_old_ones():
    """A broken key file during a rotation must not make a node deaf."""
    keys = HelloKeys([MeshSecret(secret=OLD)])
    with pytest.raises(ValueError, match="active"):
        keys.replace([])

    assert GREETING == wire.decode(PACKET, keys)


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", HelloRejection.TOO_SHORT),
        (PACKET[: wire.LEAST_BYTES - 1], HelloRejection.TOO_SHORT),
        (PACKET + bytes(1200), HelloRejection.TOO_LONG),
        (b"X" + PACKET[1:], HelloRejection.NOT_OURS),
        (PACKET[:4] + b"\2" + PACKET[5:], HelloRejection.OTHER_VERSION),
        (PACKET[:6] + bytes([PACKET[6] ^ 1]) + PACKET[7:], HelloRejection.UNKNOWN_KEY),
        (PACKET[:-1], HelloRejection.BAD_TAG),
        (PACKET[:-1] + bytes([PACKET[-1] ^ 1]), HelloRejection.BAD_TAG),
    ],
)
def test_what_is_no_hello_is_refused_with_its_reason(datagram, reason):
    """The reason is what an operator sees counted."""
    assert reason is wire.decode(datagram, KEYS)


@pytest.mark.parametrize(
    "greeting",
    [
        Greeting(sender="b1", stamp=Stamp(epoch=7, counter=1), hello=hellos.hello("a1")),
        Greeting(sender="a1", stamp=Stamp(epoch=0, counter=1), hello=hellos.hello("a1")),
        Greeting(sender="a1", stamp=Stamp(epoch=1, counter=0), hello=hellos.hello("a1")),
    ],
)
def test_a_signed_contradiction_is_malformed(greeting):
    """The tag proves who speaks, not that it makes sense."""
    assert HelloRejection.MALFORMED is wire.decode(wire.encode(greeting, KEYS), KEYS)


def test_what_does_not_fit_is_refused_where_it_is_made():
    """A hello in two pieces would be lost where fragments are."""
    long = msgspec.structs.replace(GREETING.hello, capabilities=tuple(f"capability-{number}" for number in range(100)))
    with pytest.raises(ValueError, match="1200"):
        wire.encode(Greeting(sender="a1", stamp=GREETING.stamp, hello=long), KEYS)


def test_fields_of_later_versions_are_ignored():
    """Nodes are upgraded one after the other."""

    class LaterHello(Hello, frozen=True, kw_only=True):
        mood: str = ""

    later = LaterHello(**msgspec.structs.asdict(hellos.hello("a1")), mood="fine")
    read = wire.decode(wire.encode(Greeting(sender="a1", stamp=GREETING.stamp, hello=later), KEYS), KEYS)

    assert isinstance(read, Greeting)
    assert hellos.hello("a1") == read.hello


def test_a_hello_of_an_earlier_version_has_no_overlay_numbers():
    """Peers that are not upgraded yet advertise no port and no VNI, which is no mismatch."""
    now = msgspec.structs.replace(GREETING.hello.view, vtep_port=8472, vtep_vni=1)
    current = wire.encode(
        Greeting(sender="a1", stamp=GREETING.stamp, hello=msgspec.structs.replace(GREETING.hello, view=now)), KEYS
    )
    read, earlier = wire.decode(current, KEYS), wire.decode(PACKET, KEYS)

    assert isinstance(read, Greeting)
    assert isinstance(earlier, Greeting)
    assert (8472, 1) == (read.hello.view.vtep_port, read.hello.view.vtep_vni)
    assert (0, 0) == (earlier.hello.view.vtep_port, earlier.hello.view.vtep_vni)
    assert b"vtep_port" not in PACKET


def test_structs_in_lists_are_understood():
    """Lists are packed as they are; only structs are thinned out."""
    view = msgspec.structs.replace(GREETING.hello.view, candidates=(Candidate(address="10.2.0.11", is_local=True),))
    greeting = Greeting(sender="a1", stamp=GREETING.stamp, hello=msgspec.structs.replace(GREETING.hello, view=view))

    assert greeting == wire.decode(wire.encode(greeting, KEYS), KEYS)


SIGNER, OTHER = NodeIdentity(b"s" * 32), NodeIdentity(b"o" * 32, b"s" * 32)


def _read(packet):
    return wire.decode(packet, KEYS, is_signed=is_signed_by)


@pytest.mark.parametrize("signer", [SIGNER, OTHER])
def test_a_signed_hello_says_by_whom(signer):
    """And who vouches for that identity, and what it knows of the receiver's."""
    greeting = dataclasses.replace(GREETING, holds=wire.fingerprint(OTHER.public), signs_pair=True)
    expected = dataclasses.replace(greeting, identity=signer.public, former=signer.former)

    assert expected == _read(wire.encode(greeting, KEYS, signer))


def test_a_version_without_identities_reads_a_signed_hello():
    """It skips what it does not know."""

    class Former(msgspec.Struct, frozen=True, kw_only=True):
        """As it was decoded."""

        hello: Hello

    packet = wire.encode(GREETING, KEYS, SIGNER)
    body = packet[40 + len("a1") : -16]

    assert GREETING.hello == msgspec.msgpack.decode(body, type=Former).hello


def test_a_signed_hello_leaves_room():
    """Also while an identity is exchanged."""
    assert len(wire.encode(GREETING, KEYS, OTHER)) < 950


def test_who_has_the_mesh_key_changes_no_bit_of_a_signed_hello():
    """The tag is made anew each time, as any node of the mesh can."""
    packet = wire.encode(GREETING, KEYS, SIGNER)
    _number, key = KEYS.signing()
    for position in (5, 8, 16, 24, 41, 60, len(packet) - 17):
        text = bytearray(packet[:-16])
        text[position] ^= 1
        assert isinstance(_read(bytes(text) + key.tag(bytes(text))), HelloRejection)


def test_a_voucher_of_somebody_else_is_no_hello():
    """Or the next identity of every node could be the thief's."""

    class Pretender:
        """Says that a node it is not has signed its identity."""

        public, sign = OTHER.public, OTHER.sign
        former, voucher = NodeIdentity(b"v" * 32).public.signing, OTHER.voucher

    assert HelloRejection.BAD_SIGNATURE is _read(wire.encode(GREETING, KEYS, Pretender))


def test_without_a_verifier_no_signed_hello_is_believed():
    """What was not looked at counts for nothing."""
    assert HelloRejection.BAD_SIGNATURE is wire.decode(wire.encode(GREETING, KEYS, SIGNER), KEYS)
