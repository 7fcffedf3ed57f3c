"""Verification: nothing that was touched passes, each rejection has its reason, hostile TLVs do no harm."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from meshwatchd.wire.auth import MeshKeys, MeshSecret
from meshwatchd.wire.mesh_tlv import MESH_BYTES, GossipEntry, encode_gossip
from meshwatchd.wire.parse import ParsedProbe, RejectReason, verify_and_parse
from meshwatchd.wire.seal import HMAC_TLV_BYTES, MESH_OFFSET, MESH_VALUE_OFFSET, mesh_end, sign
from meshwatchd.wire.standard_tlv import Location, class_of_service
from meshwatchd.wire.template import ProbeTemplate
from meshwatchd.wire.tlv import Tlv, encode_tlvs
from tests.support.wire_pair import (
    A1,
    A1_STATE,
    B1,
    B1_ADDRESS,
    COORDINATION,
    SPEC,
    TO_A1,
    TO_B1,
    answer,
    answered,
    received,
    request,
)

FULL = request(msgspec.structs.replace(SPEC, coordination=COORDINATION, payload_bytes=290))


@pytest.mark.parametrize("packet", [FULL, answer(FULL)], ids=["request", "answer"])
def test_every_single_bit_flip_is_rejected(packet):
    """2 320 variants of a request and as many of its answer: not one passes."""
    key = TO_A1 if packet is FULL else TO_B1
    reasons: Counter[str] = Counter()
    for bit in range(len(packet) * 8):
        flipped = bytearray(packet)
        flipped[bit // 8] ^= 1 << bit % 8
        verdict = verify_and_parse(bytes(flipped), key)
        assert isinstance(verdict, RejectReason), f"bit {bit} is unprotected"
        reasons[verdict] += 1

    assert {"not-mesh", "wrong-version", "wrong-key-id", "wrong-sender", "bad-base-tag", "bad-tlv-tag"} == set(reasons)


def test_every_truncation_is_rejected():
    """At every length, down to nothing; so is every byte more."""
    for length in range(len(FULL)):
        assert isinstance(verify_and_parse(FULL[:length], TO_A1), RejectReason), length
    assert isinstance(verify_and_parse(FULL + b"\0", TO_A1), RejectReason)


def test_a_packet_sent_back_to_its_maker_does_not_verify():
    """Directions have keys of their own, and the sender's name is checked before."""
    assert RejectReason.WRONG_SENDER is verify_and_parse(FULL, TO_B1)


def test_packets_of_another_mesh_do_not_verify():
    """Another secret, even if it has the same key id."""
    other = MeshKeys(A1, [MeshSecret(secret=b"\5" * 32)]).add_peer(B1)
    packet = bytearray(ProbeTemplate(SPEC, key=other, own=A1_STATE).seal(1, 2))

    assert RejectReason.WRONG_KEY_ID is verify_and_parse(packet, TO_A1)
    packet[121] = TO_A1.key_id
    sign(packet, other.send)
    assert RejectReason.BAD_BASE_TAG is verify_and_parse(packet, TO_A1)


def test_base_and_tlvs_of_two_packets_cannot_be_joined():
    """Both parts are signed by the peer and have the same sequence number, but belong to different sessions."""
    one, other = request(SPEC, sequence=5), request(msgspec.structs.replace(SPEC, ssid=10, path=2), sequence=5)

    assert RejectReason.SPLICED is verify_and_parse(one[:112] + other[112:], TO_A1)


def _with_tlvs(area: bytes) -> bytes:
    """A request of the peer with these bytes behind the mesh TLV, properly signed."""
    packet = bytearray(FULL[: mesh_end(FULL)] + area + FULL[-HMAC_TLV_BYTES:])
    sign(packet, TO_B1.send)
    return bytes(packet)


@pytest.mark.parametrize(
    "area",
    [
        b"\x80",
        b"\x80\x01\x00",
        b"\x80\x01\xff\xff",
        b"\x80\x01\x00\x05abcd",
        b"\x80\x01\x00\x14abcd",
        encode_tlvs([Tlv(type=8, value=bytes(16)), Tlv(type=9, value=B1_ADDRESS)]),
    ],
    ids=["flag only", "no length", "huge", "one short", "into the tag", "second tag"],
)
def test_lengths_that_do_not_add_up_are_rejected(area):
    """Even when a peer signed them; a tag has one place."""
    assert RejectReason.MALFORMED_TLV is verify_and_parse(_with_tlvs(area), TO_A1)


@pytest.mark.parametrize(
    "tlv",
    [
        Tlv(type=9, value=b"abc"),
        Tlv(type=253, value=bytes(31)),
        Tlv(type=253, value=bytes(32)),
        Tlv(type=200, value=b"?"),
        Tlv(type=0, value=b""),
        Tlv(type=252, value=bytes(96)),
    ],
)
def test_values_that_mean_nothing_are_left_alone(tlv):
    """Unknown types and wrong sizes are the reflector's to mark; what is understood beside them counts."""
    parsed = received(_with_tlvs(tlv.encode() + Tlv(type=1, value=b"").encode()))

    assert parsed.destination is None
    assert parsed.coordination is None


def test_a_malformed_mark_in_an_answer_ends_the_reading():
    """RFC 8972 section 4: the remainder is not looked at."""
    area = encode_tlvs([Tlv(type=200, value=b"", flags=0x40), Tlv(type=9, value=B1_ADDRESS, flags=0)])

    assert received(_with_tlvs(area)).destination is None


def test_a_refused_destination_is_seen_in_answers_only():
    """In requests the U flag is what every sender must set."""
    packet = request(msgspec.structs.replace(SPEC, destination=bytes(4)))

    assert not received(packet).is_destination_refused
    assert answered(answer(packet)).is_destination_refused
    assert not answered(answer(request())).is_destination_refused


def test_a_mesh_tlv_that_reaches_into_the_signature_is_refused():
    """A peer holds the key, and may say that its short mesh TLV is a long one."""
    template = ProbeTemplate(msgspec.structs.replace(SPEC, destination=None), key=TO_B1, own=A1_STATE)
    template.be_brief(True)
    packet = bytearray(template.seal(1, 2))
    packet[MESH_OFFSET + 2 : MESH_VALUE_OFFSET] = MESH_BYTES.to_bytes(2, "big")
    sign(packet, TO_B1.send)

    assert RejectReason.NOT_MESH is verify_and_parse(bytes(packet), TO_A1)


def test_gossip_of_eight_pairs_is_read():
    """The whole area is used."""
    gossip = tuple(GossipEntry(pair, 1, pair) for pair in range(8))
    own = msgspec.structs.replace(A1_STATE, gossip_block=encode_gossip(gossip))

    assert gossip == received(bytes(ProbeTemplate(SPEC, key=TO_B1, own=own).seal(1, 2))).mesh.gossip


def test_reasons_are_labels_of_a_counter():
    """Short, lower case, hyphenated; a metric's label must never change by accident."""
    assert isinstance(received(FULL), ParsedProbe)
    assert [
        "wrong-length",
        "not-mesh",
        "wrong-version",
        "wrong-key-id",
        "wrong-sender",
        "bad-base-tag",
        "bad-tlv-tag",
        "spliced",
        "malformed-tlv",
    ] == [str(reason) for reason in RejectReason]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (SPEC, False),
        (msgspec.structs.replace(SPEC, destination=None), False),
        (msgspec.structs.replace(SPEC, coordination=COORDINATION), False),
        (msgspec.structs.replace(SPEC, extra_tlvs=(class_of_service(1),)), True),
        (msgspec.structs.replace(SPEC, coordination=COORDINATION, extra_tlvs=(Location.request().to_tlv(),)), True),
        (msgspec.structs.replace(SPEC, extra_tlvs=(Tlv(type=251, value=b""),)), True),
    ],
    ids=["destination", "nothing", "message", "class-of-service", "location", "unknown"],
)
def test_questions_are_noticed(spec, expected):
    """An answer to them needs more than the packet itself, which is then asked of the kernel."""
    assert expected is received(request(spec)).has_questions
