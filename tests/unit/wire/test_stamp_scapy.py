"""scapy's STAMP layer reads what we write and writes what we read, in open mode, both directions.

scapy names TLV flags from the wrong end (it shows U=0x80 as a reserved bit), so flags are compared as numbers.
"""

from __future__ import annotations

from scapy.contrib import stamp as oracle

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.stamp import SenderPacket, encode_sender
from meshwatchd.wire.tlv import Tlv
from tests.support.stamp_codec import ReflectorPacket, decode_reflector, decode_sender, encode_reflector

ESTIMATE = ErrorEstimate(is_synchronized=True, scale=17, multiplier=200)
OTHER_ESTIMATE = ErrorEstimate(scale=3, multiplier=4)
TLVS = (Tlv(type=1, value=b"abcd"), Tlv(type=253, value=bytes(32), flags=0x40), Tlv(type=9, value=b"", flags=0))

SENDER = SenderPacket(
    sequence=2**32 - 2, timestamp_ntp=0xEC00_1111_2222_3333, error_estimate=ESTIMATE, ssid=77, tlvs=TLVS
)
REFLECTOR = ReflectorPacket(
    sequence=5,
    timestamp_ntp=0xEC00_1111_2222_4444,
    error_estimate=OTHER_ESTIMATE,
    receive_ntp=0xEC00_1111_2222_3FFF,
    sender_sequence=SENDER.sequence,
    sender_timestamp_ntp=SENDER.timestamp_ntp,
    sender_error_estimate=ESTIMATE,
    sender_ttl=255,
    ssid=77,
    tlvs=TLVS,
)


def _estimate(ours):
    return oracle.ErrorEstimate(S=int(ours.is_synchronized), Z=0, scale=ours.scale, multiplier=ours.multiplier)


def _estimate_fields(theirs):
    return (theirs.S, theirs.Z, theirs.scale, theirs.multiplier)


def _tlvs(ours):
    made = []
    for tlv in ours:
        theirs = oracle.STAMPTestTLV(type=tlv.type, len=len(tlv.value), value=tlv.value)
        theirs.flags = tlv.flags
        made.append(theirs)
    return made


def _tlv_fields(theirs):
    return [(int(tlv.flags), tlv.type, bytes(tlv.value)) for tlv in theirs]


def _raw(packet, **timestamps):
    # An int given to the constructor counts as seconds; the field itself holds the 64 bits of the wire.
    packet.fields.update(timestamps)
    return bytes(packet)


def test_scapy_reads_our_sender_packet():
    """Every field, timestamp as 64 bits."""
    theirs = oracle.STAMPSessionSenderTestUnauthenticated(encode_sender(SENDER, StampMode.OPEN))

    assert SENDER.sequence == theirs.seq
    assert SENDER.timestamp_ntp == theirs.fields["ts"]
    assert (1, 0, 17, 200) == _estimate_fields(theirs.err_estimate)
    assert SENDER.ssid == theirs.ssid
    assert theirs.mbz == 0
    assert [(tlv.flags, tlv.type, tlv.value) for tlv in TLVS] == _tlv_fields(theirs.tlv_objects)


def test_we_read_scapys_sender_packet():
    """The same packet, written by scapy."""
    theirs = oracle.STAMPSessionSenderTestUnauthenticated(
        seq=SENDER.sequence, err_estimate=_estimate(ESTIMATE), ssid=SENDER.ssid, tlv_objects=_tlvs(TLVS)
    )

    assert SENDER == decode_sender(_raw(theirs, ts=SENDER.timestamp_ntp), StampMode.OPEN)


def test_scapy_reads_our_reflector_packet():
    """Every field, the copies of the sender's among them."""
    theirs = oracle.STAMPSessionReflectorTestUnauthenticated(encode_reflector(REFLECTOR, StampMode.OPEN))

    assert (REFLECTOR.sequence, REFLECTOR.sender_sequence) == (theirs.seq, theirs.seq_sender)
    assert [REFLECTOR.timestamp_ntp, REFLECTOR.receive_ntp, REFLECTOR.sender_timestamp_ntp] == [
        theirs.fields[name] for name in ("ts", "ts_rx", "ts_sender")
    ]
    assert (0, 0, 3, 4) == _estimate_fields(theirs.err_estimate)
    assert (1, 0, 17, 200) == _estimate_fields(theirs.err_estimate_sender)
    assert (77, 255, 0, 0) == (theirs.ssid, theirs.ttl_sender, theirs.mbz1, theirs.mbz2)
    assert [(tlv.flags, tlv.type, tlv.value) for tlv in TLVS] == _tlv_fields(theirs.tlv_objects)


def test_we_read_scapys_reflector_packet():
    """The same packet, written by scapy."""
    theirs = oracle.STAMPSessionReflectorTestUnauthenticated(
        seq=REFLECTOR.sequence,
        err_estimate=_estimate(OTHER_ESTIMATE),
        ssid=REFLECTOR.ssid,
        seq_sender=REFLECTOR.sender_sequence,
        err_estimate_sender=_estimate(ESTIMATE),
        ttl_sender=255,
        tlv_objects=_tlvs(TLVS),
    )
    data = _raw(
        theirs,
        ts=REFLECTOR.timestamp_ntp,
        ts_rx=REFLECTOR.receive_ntp,
        ts_sender=REFLECTOR.sender_timestamp_ntp,
    )

    assert REFLECTOR == decode_reflector(data, StampMode.OPEN)
