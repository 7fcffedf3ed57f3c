"""The session-sender's packets, and answers of good and bad reflectors."""

from __future__ import annotations

import pytest

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.parse import RejectReason
from meshwatchd.wire.standard_probe import StandardProbe, StandardReply, read_reply
from meshwatchd.wire.standard_tlv import DirectMeasurement
from meshwatchd.wire.tlv import INTEGRITY_FAILED, UNRECOGNIZED, Tlv
from tests.support import stamp_peer
from tests.support.stamp_codec import decode_sender

KEY = b"shared with the other maker"
COS = Tlv(type=4, value=bytes(4))
OPEN = StandardProbe(ssid=9, tlvs=(COS,), payload_bytes=100)
SIGNED = StandardProbe(mode=StampMode.AUTHENTICATED, key=MacKey(KEY), ssid=9, tlvs=(COS,), payload_bytes=200)


def _answered(probe, packet, *, habits=None):
    peer = stamp_peer.PeerReflector(habits or stamp_peer.Habits(key=KEY if probe.mode is SIGNED.mode else None))
    peer._socket.close()
    return peer._answer(packet, stamp_peer.ntp_now())


@pytest.mark.parametrize("probe", [OPEN, SIGNED])
def test_a_packet_has_the_size_wanted_and_reads_back(probe):
    """Padding makes up the difference; a tag, where there is one, comes last."""
    packet = probe.encode(7, 0xEC00_0000_0000_0001)
    read = decode_sender(packet, probe.mode)

    assert probe.payload_bytes == len(packet)
    assert (7, 0xEC00_0000_0000_0001, 9) == (read.sequence, read.timestamp_ntp, read.ssid)
    assert ([4, 1], [4, 1, 8])[probe is SIGNED] == [tlv.type for tlv in read.tlvs]
    assert {UNRECOGNIZED} == {tlv.flags for tlv in read.tlvs}


def test_sizes_between_none_and_an_empty_padding_are_impossible():
    """Extra Padding has a header of four bytes."""
    sizes = [size for size in range(44, 56) if StandardProbe(payload_bytes=size).is_size_possible()]

    assert [44, *range(48, 56)] == sizes
    assert not StandardProbe(tlvs=(COS,), payload_bytes=51).is_size_possible()
    assert StandardProbe(tlvs=(COS,)).is_size_possible()


def test_direct_measurement_counts_the_packets():
    """RFC 8972 section 4.5: what was sent, this one included."""
    probe = StandardProbe(tlvs=(DirectMeasurement(sender_tx=0).to_tlv(),))

    assert [1, 5] == [
        DirectMeasurement.from_tlv(decode_sender(probe.encode(number, 1), probe.mode).tlvs[0]).sender_tx
        for number in (0, 4)
    ]


@pytest.mark.parametrize("probe", [OPEN, SIGNED])
def test_a_peers_answer_is_read(probe):
    """Its own fields, and our TLVs with its flags."""
    reply = read_reply(_answered(probe, probe.encode(7, 5)), probe)

    assert isinstance(reply, StandardReply)
    assert (0, 7, 5, 9, 255) == (
        reply.sequence,
        reply.sender_sequence,
        reply.sender_timestamp_ntp,
        reply.ssid,
        reply.sender_ttl,
    )
    assert [(4, UNRECOGNIZED), (1, 0)] == [(tlv.type, tlv.flags) for tlv in reply.tlvs][:2]
    assert (False, False) == (reply.is_integrity_failed, reply.is_malformed)


def test_a_twamp_reflectors_answer_is_read():
    """41 bytes, no SSID; and that of a reflector which stops even before the TTL."""
    packet = StandardProbe(ssid=9).encode(7, 5)
    data = _answered(OPEN, packet, habits=stamp_peer.Habits(is_twamp=True))

    replies = [read_reply(data[:length], StandardProbe(ssid=9)) for length in (44, 41, 38)]
    assert [(7, 0, 255), (7, 0, 255), (7, 0, 0)] == [
        (reply.sender_sequence, reply.ssid, reply.sender_ttl) for reply in replies if isinstance(reply, StandardReply)
    ]


def test_an_answer_cut_anywhere_is_refused_or_marked():
    """Truncation at every byte, in both modes."""
    for probe, least in ((OPEN, 36), (SIGNED, 112)):
        data = _answered(probe, probe.encode(7, 5))
        for length in range(len(data)):
            reply = read_reply(data[:length], probe)
            if length < least:
                assert RejectReason.WRONG_LENGTH is reply
            elif probe is SIGNED and length > 112:
                assert isinstance(reply, StandardReply)
                assert reply.is_integrity_failed


@pytest.mark.parametrize("key", [None, MacKey(b"?")])
def test_an_answer_under_another_key_is_refused(key):
    """Whoever has not the key has not answered."""
    probe = StandardProbe(mode=StampMode.AUTHENTICATED, key=key)

    assert RejectReason.BAD_BASE_TAG is read_reply(_answered(SIGNED, SIGNED.encode(7, 5)), probe)


@pytest.mark.parametrize("case", ["flag", "no tag", "tag of another", "odd tag flags"])
def test_tlvs_that_do_not_verify_are_not_read(case):
    """RFC 8972 section 4.8; the base packet has its own tag and still counts."""
    data = bytearray(_answered(SIGNED, SIGNED.encode(7, 5)))
    if case == "flag":
        data[112] |= INTEGRITY_FAILED
    elif case == "no tag":
        del data[-20:]
    elif case == "tag of another":
        data[-1] ^= 1
    else:
        data[-20] |= 1
    reply = read_reply(bytes(data), SIGNED)

    assert isinstance(reply, StandardReply)
    assert (True, ()) == (reply.is_integrity_failed, reply.tlvs)


def test_padding_that_a_twamp_reflector_returns_is_not_read_as_tlvs():
    """It moves ours behind its 41 bytes: the SSID lies where a STAMP reflector has zeros (RFC 5357 section 4.2.1)."""
    reply = read_reply(_answered(OPEN, OPEN.encode(7, 5), habits=stamp_peer.Habits(is_twamp=True)), OPEN)

    assert isinstance(reply, StandardReply)
    assert (7, 5, 0, ()) == (reply.sender_sequence, reply.sender_timestamp_ntp, reply.ssid, reply.tlvs)
    assert (False, False) == (reply.is_malformed, reply.is_integrity_failed)
