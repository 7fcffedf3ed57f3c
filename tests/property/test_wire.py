"""Properties of the wire format: encoding and decoding are inverse, and no bytes whatever cause an exception."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.auth import node_id
from meshwatchd.wire.mesh_tlv import SESSION_FLAGS, Coordination, CoordinationKind, GossipEntry, OwnState, encode_gossip
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.parse import RejectReason, verify_and_parse
from meshwatchd.wire.replay import WINDOW, ReplayGuard, ReplayVerdict
from meshwatchd.wire.seal import HMAC_TLV_BYTES, mesh_end, peek, sign
from meshwatchd.wire.stamp import SenderPacket, encode_sender
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate
from meshwatchd.wire.tlv import Tlv, TlvType
from tests.support.stamp_codec import ReflectorPacket, decode_reflector, decode_sender, encode_reflector
from tests.support.wire_pair import A1, TO_A1, TO_B1, answer, answered, received, request

BOUNDED = settings(derandomize=True, max_examples=150, deadline=None)

u8, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
estimates = st.builds(ErrorEstimate.decode, u16)
# A type of 0 with zero flags and length is padding, not a TLV.
tlvs = st.lists(st.builds(Tlv, type=st.integers(1, 255), value=st.binary(max_size=40), flags=u8), max_size=4)
tags = st.binary(min_size=16, max_size=16)
entries = st.lists(st.builds(GossipEntry, u8, u8, u32), max_size=8).map(tuple)
states = st.builds(
    OwnState, node_id=st.just(node_id(A1)), epoch=u64, heard=u32, known=u32, gossip_block=entries.map(encode_gossip)
)
messages = st.builds(
    Coordination,
    kind=st.sampled_from(CoordinationKind),
    reason=u8,
    pair=u8,
    rank=u8,
    generation=u32,
    nonce=u64,
    evidence_hundredths=u16,
    target_node_id=u64,
)
addresses = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)
specs = st.builds(
    ProbeSpec,
    ssid=st.integers(1, 0xFFFF),
    path=u16,
    layer=u8,
    flags=st.integers(0, SESSION_FLAGS).map(lambda flags: flags & SESSION_FLAGS),
    destination=st.none() | addresses,
    coordination=st.none() | messages,
    payload_bytes=st.sampled_from([0, 500, 1400]),
)


@BOUNDED
@given(
    packet=st.builds(
        SenderPacket,
        sequence=u32,
        timestamp_ntp=u64,
        error_estimate=estimates,
        ssid=u16,
        hmac=tags,
        tlvs=tlvs.map(tuple),
    )
)
def test_authenticated_sender_packets_survive(packet):
    """Whatever the fields are."""
    mode = StampMode.AUTHENTICATED

    assert packet == decode_sender(encode_sender(packet, mode), mode)


@BOUNDED
@given(
    packet=st.builds(
        ReflectorPacket,
        sequence=u32,
        timestamp_ntp=u64,
        error_estimate=estimates,
        receive_ntp=u64,
        sender_sequence=u32,
        sender_timestamp_ntp=u64,
        sender_error_estimate=estimates,
        sender_ttl=u8,
        ssid=u16,
        tlvs=tlvs.map(tuple),
    ),
    mode=st.sampled_from(StampMode),
)
def test_reflector_packets_survive_in_both_modes(packet, mode):
    """Whatever the fields are."""
    assert packet == decode_reflector(encode_reflector(packet, mode), mode)


@BOUNDED
@given(spec=specs, own=states, sequence=u32, timestamp=u64)
def test_probes_and_their_answers_survive(spec, own, sequence, timestamp):
    """Template to receiver, and its answer back to the sender, at the same length."""
    packet = bytes(ProbeTemplate(spec, key=TO_B1, own=own).seal(sequence, timestamp))
    parsed = received(packet)
    reply = answer(packet)
    returned = answered(reply)

    assert (sequence, timestamp, spec.ssid) == (parsed.sequence, parsed.timestamp_ntp, parsed.ssid)
    assert (spec.path, spec.layer, spec.flags) == (parsed.mesh.path, parsed.mesh.layer, parsed.mesh.flags)
    assert (own.epoch, own.heard, own.known) == (parsed.mesh.epoch, parsed.mesh.heard, parsed.mesh.known)
    assert own.gossip_block == encode_gossip(parsed.mesh.gossip)
    assert (spec.destination, spec.coordination) == (parsed.destination, parsed.coordination)
    assert len(packet) == len(reply)
    assert (sequence, timestamp) == (returned.sender_sequence, returned.sender_timestamp_ntp)
    assert spec.coordination == returned.coordination


@BOUNDED
@given(data=st.binary(max_size=400))
def test_arbitrary_bytes_never_raise(data):
    """Whatever they are."""
    assert isinstance(verify_and_parse(data, TO_A1), RejectReason)
    assert peek(data) is None


@BOUNDED
@given(area=st.binary(max_size=120))
def test_whatever_a_peer_signs_never_raises_and_is_answered_at_its_length(area):
    """A hostile peer holds the key: bytes behind the mesh TLV are its choice."""
    whole = request()
    packet = bytearray(whole[: mesh_end(whole)] + area + whole[-HMAC_TLV_BYTES:])
    sign(packet, TO_B1.send)

    parsed = verify_and_parse(bytes(packet), TO_A1)

    if isinstance(parsed, RejectReason):
        assert RejectReason.MALFORMED_TLV is parsed
    else:
        reply = answer(bytes(packet))
        assert len(packet) == len(reply)
        answered(reply)


KNOWN_TYPES = st.sampled_from(TlvType)
"""Every TLV the RFCs and this mesh define, at whatever length: the right one is among those that are tried often."""
SIZES = st.sampled_from([0, 1, 4, 8, 12, 16, 20, 24, 32, 40]) | st.integers(0, 60)
asked = st.lists(st.tuples(KNOWN_TYPES, u8, SIZES, u8), max_size=6)


@BOUNDED
@given(asked=asked, cut=st.integers(0, 8))
def test_no_combination_of_tlvs_makes_an_answer_longer(asked, cut):
    """Whole and cut short: nobody gets more bytes out of a reflector than were put in."""
    parts = [Tlv(type=kind, value=bytes([fill]) * size, flags=flags) for kind, flags, size, fill in asked]
    area = b"".join(part.encode() for part in parts)
    area = area[: len(area) - cut]
    whole = request()
    packet = bytearray(whole[: mesh_end(whole)] + area + whole[-HMAC_TLV_BYTES:])
    sign(packet, TO_B1.send)
    if not isinstance(verify_and_parse(bytes(packet), TO_A1), RejectReason):
        assert len(packet) == len(answer(bytes(packet)))


@BOUNDED
@given(sequences=st.lists(st.integers(0, 3 * WINDOW), max_size=60))
def test_no_number_counts_twice_and_none_inside_the_window_is_lost(sequences):
    """Compared with a set that never forgets."""
    guard = ReplayGuard()
    guard.confirm(1)
    seen: set[int] = set()
    for sequence in sequences:
        is_tracked = not seen or max(seen) - sequence < WINDOW
        expected = ReplayVerdict.FRESH if is_tracked else ReplayVerdict.TOO_OLD
        if is_tracked and sequence in seen:
            expected = ReplayVerdict.DUPLICATE
        assert expected is guard.accept(1, sequence)
        seen.add(sequence)
