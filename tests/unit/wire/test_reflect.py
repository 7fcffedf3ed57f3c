"""Answers: same length, both signatures, the reflector's own words."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.wire.answer import Reflector
from meshwatchd.wire.mesh_tlv import FLAG_FRESH, FLAG_REPLY
from meshwatchd.wire.mould import Mould, cut
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.reflect import read_asked, reflect, reflect_again
from meshwatchd.wire.standard_tlv import Location, class_of_service
from meshwatchd.wire.template import ProbeTemplate
from meshwatchd.wire.tlv import MALFORMED, UNRECOGNIZED, Tlv, decode_tlvs
from tests.support.wire_pair import (
    A1_STATE,
    B1_ADDRESS,
    B1_STATE,
    COORDINATION,
    GOSSIP,
    REFLECTOR,
    RX_NTP,
    SPEC,
    TO_A1,
    TO_B1,
    TX_NTP,
    answer,
    answered,
    received,
    request,
)

ESTIMATE = ErrorEstimate(is_synchronized=True, scale=10, multiplier=3)


def test_an_answer_carries_the_request_and_the_reflectors_own_words():
    """RFC 8762 section 4.3.2, and the mesh TLV overwritten."""
    parsed = answered(answer(request(msgspec.structs.replace(SPEC, coordination=COORDINATION), sequence=41)))

    assert parsed.is_reply
    assert (1000, 41, 0xEC00_0000_0000_0001, 9, 63) == (
        parsed.sequence,
        parsed.sender_sequence,
        parsed.sender_timestamp_ntp,
        parsed.ssid,
        parsed.sender_ttl,
    )
    assert (RX_NTP, TX_NTP, 0x2001) == (
        parsed.receive_ntp,
        parsed.timestamp_ntp,
        parsed.sender_error_estimate,
    )
    mesh = parsed.mesh
    assert (B1_STATE.node_id, B1_STATE.epoch, B1_STATE.heard, B1_STATE.known, GOSSIP) == (
        mesh.node_id,
        mesh.epoch,
        mesh.heard,
        mesh.known,
        mesh.gossip,
    )
    assert (1, 5, FLAG_FRESH | FLAG_REPLY) == (mesh.path, mesh.layer, mesh.flags)
    assert COORDINATION == parsed.coordination
    assert A1_STATE.node_id != mesh.node_id


@pytest.mark.parametrize("payload_bytes", [0, 244, 1392])
def test_an_answer_has_the_length_of_its_request(payload_bytes):
    """No amplification, and the same size is tried on the way back."""
    packet = request(msgspec.structs.replace(SPEC, payload_bytes=payload_bytes))

    assert len(packet) == len(answer(packet))


def test_a_brief_request_is_answered_briefly():
    """By the first of two pairs: a reflector that has more to say is not asked for it."""
    template = ProbeTemplate(SPEC, key=TO_B1, own=A1_STATE)
    template.be_brief(True)
    packet = template.seal(41, 0xEC00_0000_0000_0001)
    reply = answer(packet)

    assert len(packet) == len(reply)
    assert GOSSIP[:1] == answered(reply).mesh.gossip


def test_flags_of_an_answer_tell_what_was_understood():
    """U, set by the sender, is cleared but for the unknown type; padding and tag included."""
    extra = (Tlv(type=200, value=b"??"), Location.request().to_tlv(), class_of_service(0))
    spec = msgspec.structs.replace(SPEC, extra_tlvs=extra, coordination=COORDINATION, payload_bytes=400)

    tlvs = decode_tlvs(answer(request(spec)), 112)

    assert [(252, 0), (9, 0), (253, 0), (200, UNRECOGNIZED), (2, 0), (4, 0), (1, 0), (8, 0)] == [
        (tlv.type, tlv.flags) for tlv in tlvs
    ]


def test_a_peers_malformed_value_is_answered_with_m():
    """A newer or broken peer is told, and the answer still verifies."""
    packet = request(msgspec.structs.replace(SPEC, extra_tlvs=(Tlv(type=5, value=b"short"),)))

    reply = answer(packet)

    assert answered(reply).destination == B1_ADDRESS
    assert [MALFORMED] == [tlv.flags for tlv in decode_tlvs(reply, 112) if tlv.type == 5]


def test_an_answer_is_never_answered():
    """Two reflectors would play ping-pong."""
    reply = answer(request())

    with pytest.raises(AssertionError):
        reflect(
            reply,
            answered(reply),
            key=TO_B1,
            own=A1_STATE,
            reflector=REFLECTOR,
            reflector_sequence=1,
            rx_ntp=1,
            tx_ntp=2,
        )


def test_plain_requests_are_answered_by_each_node_for_itself():
    """What is remembered of the answer to one node's request says nothing for a node of another address."""
    packet = request(msgspec.structs.replace(SPEC, coordination=COORDINATION))
    elsewhere = Reflector(addresses=frozenset({bytes(4)}))
    refused = [answered(answer(packet, reflector=each)).is_destination_refused for each in (REFLECTOR, elsewhere) * 2]

    assert [False, True, False, True] == refused
    assert COORDINATION == answered(answer(packet)).coordination


def test_the_answer_to_a_repeated_request_is_the_one_it_would_get_anyway():
    """But for what the base packet says, requests that are alike have answers that are alike."""
    first, second = request(sequence=41), request(sequence=42, timestamp_ntp=0xEC00_0000_0000_0007)
    pieces, others = cut(first), cut(second)
    assert pieces is not None
    assert others is not None
    assert (pieces[2], pieces[4]) == (others[2], others[4])
    numbers = {"reflector_sequence": 7, "rx_ntp": RX_NTP + 1, "tx_ntp": TX_NTP + 1, "ttl": 61}
    model = reflect(
        first,
        received(first),
        key=TO_A1,
        own=B1_STATE,
        reflector=REFLECTOR,
        reflector_sequence=1,
        rx_ntp=RX_NTP,
        tx_ntp=TX_NTP,
    )

    again = reflect_again(Mould(model), read_asked(second), key=TO_A1, **numbers)

    assert reflect(second, received(second), key=TO_A1, own=B1_STATE, reflector=REFLECTOR, **numbers) == again
    answered = cut(model)
    assert answered is not None
    assert answered[2] != pieces[2], "an answer must not pass for a request"
