"""Properties of STAMP with other makers: scapy agrees, hostile bytes are harmless, and a changed bit is noticed.

Bits of mesh packets are changed one by one in tests/unit/wire/test_parse.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib import stamp as oracle

from meshwatchd.adapters.stamp_interop.loss import Counted, find_loss
from meshwatchd.adapters.stamp_interop.sessions import REORDERED, Session
from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.answer import Arrival, Reflector
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.parse import RejectReason
from meshwatchd.wire.stamp import SenderPacket, encode_sender
from meshwatchd.wire.standard_probe import StandardProbe, StandardReply, read_reply
from meshwatchd.wire.standard_reflect import StandardRequest, answer_request, read_request
from meshwatchd.wire.tlv import INTEGRITY_FAILED, Tlv
from tests.support import stamp_peer
from tests.support.stamp_codec import decode_sender
from tests.support.wire_pair import B1_ADDRESS

BOUNDED = settings(derandomize=True, max_examples=150, deadline=None)

KEY = b"shared with the other maker"
OPEN, AUTHENTICATED = StampMode.OPEN, StampMode.AUTHENTICATED
ARRIVAL = Arrival(source=B1_ADDRESS, source_port=5, destination=B1_ADDRESS, destination_port=862, dscp=46, ecn=1)
REFLECTOR = Reflector(addresses=frozenset({B1_ADDRESS}), arrival=ARRIVAL)

u8, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
estimates = st.builds(ErrorEstimate.decode, u16)
known_types = st.integers(1, 11) | st.sampled_from([240, 252, 253, 254, 255])
whole_tlvs = st.lists(st.builds(Tlv, type=known_types, value=st.binary(max_size=40), flags=u8), max_size=8)
right_sizes = st.sampled_from(
    [(2, 4), (2, 44), (3, 4), (4, 4), (5, 12), (6, 4), (7, 16), (8, 16), (9, 4), (9, 16), (10, 8)]
)
right_tlvs = right_sizes.flatmap(
    lambda kind: st.builds(Tlv, type=st.just(kind[0]), value=st.binary(min_size=kind[1], max_size=kind[1]))
)


def _hostile(flags: int, kind: int, length: int, value: bytes) -> bytes:
    """A TLV whose length is a claim."""
    return bytes((flags, kind)) + length.to_bytes(2, "big") + value


claims = st.builds(_hostile, u8, u8, u16 | st.integers(0, 20), st.binary(max_size=24))
nested = st.recursive(
    claims, lambda inner: st.builds(lambda area: _hostile(0x80, 2, len(area) + 4, bytes(4) + area), inner), max_leaves=6
)
tiny = st.builds(lambda kind, count: bytes((0x80, kind, 0, 0)) * count, u8, st.integers(0, 2_000))
hostile_areas = st.one_of(
    st.lists(claims | nested | tiny, max_size=4).map(b"".join),
    st.lists(right_tlvs, max_size=5).map(lambda many: b"".join(tlv.encode() for tlv in many)),
    st.binary(max_size=120),
)


def _answer(packet: bytes, mode: StampMode, key: MacKey | None, number: int | None = 1) -> bytes | RejectReason:
    read = read_request(packet, mode=mode, key=key)
    if not isinstance(read, StandardRequest):
        return read
    return answer_request(
        packet,
        read,
        mode=mode,
        key=key,
        reflector=REFLECTOR,
        reflector_sequence=number,
        rx_ntp=7,
        tx_ntp=9,
        ttl=63,
    )


@BOUNDED
@given(
    packet=st.builds(
        SenderPacket, sequence=u32, timestamp_ntp=u64, error_estimate=estimates, ssid=u16, tlvs=whole_tlvs.map(tuple)
    )
)
def test_scapy_and_we_write_the_same_packets(packet):
    """Ours read by scapy and written again by it are the same bytes, and read by us the same fields."""
    data = encode_sender(packet, OPEN)
    theirs = oracle.STAMPSessionSenderTestUnauthenticated(data)

    assert (packet.sequence, packet.ssid) == (theirs.seq, theirs.ssid)
    assert packet.timestamp_ntp == theirs.fields["ts"]
    assert [(tlv.flags, tlv.type, tlv.value) for tlv in packet.tlvs] == [
        (int(tlv.flags), tlv.type, bytes(tlv.value)) for tlv in theirs.tlv_objects
    ]
    theirs.clear_cache()
    assert data == bytes(theirs)
    assert packet == decode_sender(bytes(theirs), OPEN)


@BOUNDED
@given(tlvs=st.lists(right_tlvs.filter(lambda tlv: tlv.type != 8), max_size=5), sequence=u32, ssid=u16)
def test_scapy_reads_what_we_answer(tlvs, sequence, ssid):
    """Its question, our answer: its fields again, and each TLV in its place with its type and length."""
    asked = [oracle.STAMPTestTLV(type=tlv.type, len=len(tlv.value), value=tlv.value) for tlv in tlvs]
    question = bytes(oracle.STAMPSessionSenderTestUnauthenticated(seq=sequence, ssid=ssid, tlv_objects=asked))
    answered = _answer(question, OPEN, None)
    assert isinstance(answered, bytes)
    reply = oracle.STAMPSessionReflectorTestUnauthenticated(answered)

    assert (1, sequence, ssid, 63, 7, 9) == (
        reply.seq,
        reply.seq_sender,
        reply.ssid,
        reply.ttl_sender,
        reply.fields["ts_rx"],
        reply.fields["ts"],
    )
    assert [(tlv.type, len(tlv.value)) for tlv in tlvs] == [(tlv.type, len(tlv.value)) for tlv in reply.tlv_objects]


@BOUNDED
@given(area=hostile_areas, sequence=u32, is_keyed=st.booleans(), is_counted=st.booleans())
def test_hostile_tlvs_are_answered_at_their_length(area, sequence, is_keyed, is_counted):
    """Lengths beyond the end, none at all, nested, by the thousand, with flags; with and without a key."""
    packet = stamp_peer.sender_packet(sequence) + area
    answered = _answer(packet, OPEN, MacKey(KEY) if is_keyed else None, 1 if is_counted else None)

    assert isinstance(answered, bytes)
    assert len(packet) == len(answered)


@BOUNDED
@given(area=hostile_areas, is_signed=st.booleans())
def test_hostile_tlvs_of_a_holder_of_the_key_are_answered_at_their_length(area, is_signed):
    """With a tag of their own and without; the answer's base packet is signed in any case."""
    packet = stamp_peer.sender_packet(3, key=KEY) + area
    if is_signed:
        packet += stamp_peer.write_tlvs([(0x80, 8, stamp_peer.mac(KEY, packet[:4] + area))])
    answered = _answer(packet, AUTHENTICATED, MacKey(KEY))

    assert isinstance(answered, bytes)
    assert len(packet) == len(answered)
    assert 3 == stamp_peer.read_answer(answered, KEY).sender_sequence


@BOUNDED
@given(data=st.binary(max_size=300))
def test_garbage_gets_nothing_where_packets_are_signed(data):
    """Nor in open mode if it is shorter than an answer; nobody raises."""
    assert isinstance(_answer(data, AUTHENTICATED, MacKey(KEY)), RejectReason)
    assert (len(data) >= 41) is isinstance(_answer(data, OPEN, None), bytes)
    for probe in (StandardProbe(), StandardProbe(key=MacKey(KEY)), StandardProbe(mode=AUTHENTICATED, key=MacKey(KEY))):
        read = read_reply(data, probe)
        assert isinstance(read, RejectReason) or probe.mode is OPEN


@BOUNDED
@given(area=hostile_areas)
def test_hostile_answers_never_raise(area):
    """A reflector of another maker, in both modes."""
    for probe in (StandardProbe(), StandardProbe(mode=AUTHENTICATED, key=MacKey(KEY))):
        answered = _answer(probe.encode(3, 4), probe.mode, probe.key)
        assert isinstance(answered, bytes)
        read = read_reply(answered + area, probe)
        assert isinstance(read, StandardReply)
        assert 3 == read.sender_sequence


TLVS = (Tlv(type=2, value=bytes(24)), Tlv(type=4, value=bytes(4)), Tlv(type=9, value=B1_ADDRESS))
SIGNED = StandardProbe(mode=AUTHENTICATED, key=MacKey(KEY), ssid=9, tlvs=TLVS, payload_bytes=220)


@pytest.mark.parametrize("mode", StampMode)
def test_a_question_cut_at_any_byte_gets_an_answer_of_its_length_or_none(mode):
    """Truncation never lengthens, and a signed question without its end is told by the flag I."""
    probe = SIGNED if mode is AUTHENTICATED else StandardProbe(ssid=9, tlvs=TLVS, payload_bytes=220)
    packet = probe.encode(3, 4)
    least = 112 if mode is AUTHENTICATED else 41
    for length in range(len(packet)):
        answered = _answer(packet[:length], mode, probe.key)
        assert (length >= least) is isinstance(answered, bytes)
        if isinstance(answered, bytes):
            assert length == len(answered)
            if mode is AUTHENTICATED and length >= least + 4:
                assert answered[least] & INTEGRITY_FAILED


def _flips(packet: bytes):
    """Every packet that differs in one bit, and the byte where."""
    for position in range(len(packet) * 8):
        changed = bytearray(packet)
        changed[position // 8] ^= 1 << position % 8
        yield position // 8, bytes(changed)


def test_each_bit_of_a_standard_request_is_signed():
    """A base packet is refused, TLVs come back with I; six bits of one byte change nothing at all.

    The HMAC TLV's own flags are in no tag (RFC 8972 section 4.8). The answer sets them itself; M and I, which no sender
    sets, count as tampering.
    """
    packet = SIGNED.encode(3, 4)
    whole, tag_flags = _answer(packet, AUTHENTICATED, SIGNED.key), len(packet) - 20
    unnoticed = []
    for at, changed in _flips(packet):
        answered = _answer(changed, AUTHENTICATED, SIGNED.key)
        if isinstance(answered, bytes) and not answered[112] & INTEGRITY_FAILED:
            assert whole == answered
            unnoticed.append(at)

    assert [tag_flags] * 6 == unnoticed


def test_each_bit_of_a_standard_answer_is_signed():
    """Refused, or its TLVs are not read and that is said."""
    answered = _answer(SIGNED.encode(3, 4), AUTHENTICATED, SIGNED.key)
    assert isinstance(answered, bytes)
    for at, changed in _flips(answered):
        read = read_reply(changed, SIGNED)
        assert (
            isinstance(read, RejectReason) if at < 112 else isinstance(read, StandardReply) and read.is_integrity_failed
        )


@BOUNDED
@given(times=st.lists(st.integers(0, 3 * REORDERED), max_size=400))
def test_no_packet_is_answered_twice(times):
    """Whatever the order; and one that is later than all before is always answered."""
    session = Session(0)
    seen: set[int] = set()
    for time in times:
        is_replay = session.is_replay(time, time)
        assert is_replay or time not in seen
        assert not is_replay or (seen and time <= max(seen))
        seen.add(time)


fates = st.lists(
    st.tuples(
        st.sampled_from(["answered", "lost there", "lost back"]),
        st.integers(1, 3) | st.just(1),
        st.booleans(),
        st.integers(0, 3) | st.just(0),
    ),
    min_size=1,
    max_size=60,
)
"""Of each packet: what becomes of it, how often it arrives there, whether the reflector starts anew before it, how many
places later it arrives."""


def _reflect(story, *, begin=0):
    """The answers that come back: sequence, number and time of each."""
    order = sorted(range(len(story)), key=lambda sequence: (sequence + story[sequence][3], sequence))
    number, answers = begin, []
    for place, sequence in enumerate(order):
        fate, arrivals, is_anew, _ = story[sequence]
        number = 0 if is_anew else number
        for arrival in range(0 if fate == "lost there" else arrivals):
            if fate == "answered":
                answers.append(Counted(sequence, number, 10 * place + arrival))
            number += 1
    return answers


@BOUNDED
@given(story=fates, begin=u16 | st.just(0), data=st.data())
def test_every_lost_packet_is_counted_once_whatever_the_reflectors_count_does(story, begin, data):
    """Copies, reordering on both ways, a count that begins again: there, back and undetermined are all the losses."""
    answers = data.draw(st.permutations(_reflect(story, begin=begin)))
    if answers:
        loss = find_loss(answers, len(story))
        assert len(story) - len({answer.sequence for answer in answers}) == sum(
            (loss.forward, loss.reverse, loss.undetermined)
        )
        assert min(loss.forward, loss.reverse, loss.undetermined) >= 0


@BOUNDED
@given(answers=st.lists(st.builds(Counted, st.integers(0, 20), u32 | st.integers(0, 20), u64), min_size=1, max_size=30))
def test_every_lost_packet_is_counted_once_whatever_a_reflector_writes(answers):
    """Numbers and times that mean nothing."""
    loss = find_loss(answers, 21)

    assert 21 - len({answer.sequence for answer in answers}) == loss.forward + loss.reverse + loss.undetermined
    assert min(loss.forward, loss.reverse, loss.undetermined) >= 0


def _truth(story, answers):
    """How many were lost on each way, of those up to the last that was answered."""
    last = max(answer.sequence for answer in answers)
    seen = [fate for fate, *_ in story[: last + 1]]
    return seen.count("lost there"), seen.count("lost back")


@BOUNDED
@given(story=fates, data=st.data())
def test_one_count_for_each_packet_shows_each_way_exactly(story, data):
    """However the answers overtake one another."""
    plain = [(fate, 1, False, 0) for fate, *_ in story]
    answers = data.draw(st.permutations(_reflect(plain)))
    if answers:
        loss = find_loss(answers, len(story))
        assert _truth(plain, answers) == (loss.forward, loss.reverse)


@BOUNDED
@given(story=fates, data=st.data())
def test_copies_on_the_way_there_turn_no_loss_round(story, data):
    """With nothing lost on the way back all losses before the last answer are forward ones."""
    one_way = [("lost there" if fate == "lost there" else "answered", times, False, 0) for fate, times, _, _ in story]
    answers = data.draw(st.permutations(_reflect(one_way)))
    if answers:
        loss = find_loss(answers, len(story))
        assert _truth(one_way, answers) == (loss.forward, loss.reverse)
