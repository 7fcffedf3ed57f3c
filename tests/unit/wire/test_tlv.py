"""The frame of TLVs: strict bounds, nothing raised while scanning, unknown types kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.tlv import MALFORMED, MAX_TLVS, UNRECOGNIZED, Tlv, decode_tlvs, encode_tlvs, scan

UNKNOWN = Tlv(type=200, value=b"abc")


def test_a_tlv_is_flags_type_length_and_value():
    """A sender sets U; lengths count the value only and are in network byte order."""
    assert bytes.fromhex("80c80003616263") == UNKNOWN.encode()
    assert bytes.fromhex("40c80000") == Tlv(type=200, value=b"", flags=MALFORMED).encode()


def test_unknown_types_and_all_flags_survive():
    """What is not understood is carried, bit for bit."""
    tlvs = (UNKNOWN, Tlv(type=254, value=b"", flags=0x1F), Tlv(type=1, value=bytes(300), flags=0))

    assert tlvs == decode_tlvs(b"base" + encode_tlvs(tlvs), 4)


@pytest.mark.parametrize("cut", range(1, 7))
def test_a_tlv_cut_short_at_any_byte_is_an_error(cut):
    """Inside the header and inside the value alike."""
    with pytest.raises(DecodeError, match="byte 7 is cut short"):
        decode_tlvs(UNKNOWN.encode() + UNKNOWN.encode()[:cut])


def test_a_length_beyond_the_packet_is_not_believed():
    """The scan stops before it and says where."""
    packet = UNKNOWN.encode() + bytes((UNRECOGNIZED, 1, 0xFF, 0xFF)) + bytes(20)

    found = scan(packet, 0)

    assert [200] == [span.type for span in found.spans]
    assert (7, True) == (found.rest, found.is_malformed)


def test_a_limit_inside_the_packet_is_a_limit():
    """A TLV that ends behind the given end does not exist."""
    assert scan(UNKNOWN.encode(), 0, 6).is_malformed


def test_zero_padding_of_a_twamp_light_sender_is_no_tlv():
    """RFC 8762 section 4.6: such senders pad with zeros, any number of them."""
    for length in (1, 3, 4, 27):
        found = scan(UNKNOWN.encode() + bytes(length), 0)

        assert (1, 7, False) == (len(found.spans), found.rest, found.is_malformed)


def test_a_reserved_type_with_content_is_a_tlv():
    """Only zeros are padding."""
    assert [0] == [span.type for span in scan(Tlv(type=0, value=b"x", flags=0).encode(), 0).spans]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(data=st.binary(max_size=64))
def test_a_scan_accounts_for_every_byte_of_anything(data):
    """Spans are adjacent, in order and inside; the rest begins where the last one ends."""
    found = scan(data, 0)

    edges = [0, *(span.end for span in found.spans)]
    assert edges[:-1] == [span.offset for span in found.spans]
    assert edges[-1] == found.rest <= len(data)


def test_no_more_tlvs_are_followed_than_there_is_use_for():
    """The next one counts as malformed, zeros behind the last do not."""
    many = UNKNOWN.encode() * MAX_TLVS

    assert (MAX_TLVS, False) == (len(scan(many + bytes(9), 0).spans), scan(many + bytes(9), 0).is_malformed)
    assert (len(many), True) == scan(many + UNKNOWN.encode(), 0)[1:]
    assert (2 * len(UNKNOWN.encode()), True) == scan(many, 0, most=2)[1:]


def test_zeros_in_front_of_content_are_tlvs_of_type_zero():
    """Each is looked at, and the packet is searched for the end of its zeros once."""
    found = scan(bytes(4 * MAX_TLVS) + b"\1", 0)

    assert (MAX_TLVS, True) == (len(found.spans), found.is_malformed)
