"""The outer shape: what may be known of a packet before a tag was checked, and where the tags are."""

from __future__ import annotations

import hmac

from meshwatchd.wire.auth import derive_key, node_id
from meshwatchd.wire.seal import MIN_PACKET_BYTES, peek, sign
from tests.support.wire_pair import A1, B1, SECRET, SPEC, TO_B1, request


def test_a_packet_says_who_claims_to_have_signed_it():
    """Node and secret, to find the key."""
    assert (node_id(A1), TO_B1.key_id) == peek(request())


def test_bytes_of_others_are_told_apart_before_any_hashing():
    """Length, type, size, enterprise and version are looked at; none may differ."""
    packet = request()
    for offset in (113, 114, 115, 116, 119, 120):
        changed = bytearray(packet)
        changed[offset] ^= 1
        assert peek(changed) is None, offset
    for length in range(MIN_PACKET_BYTES):
        assert peek(packet[:length]) is None
    assert peek(bytes(65_508)) is None


def test_tags_are_where_the_rfcs_put_them():
    """RFC 8762 section 4.4 and RFC 8972 section 4.8, computed with nothing but the standard library."""
    key = derive_key(SECRET.secret, signer=A1, receiver=B1)
    packet = request(SPEC)

    base_tag = hmac.digest(key, packet[:96], "sha256")[:16]
    tlv_tag = hmac.digest(key, packet[:4] + packet[112:-20], "sha256")[:16]
    assert base_tag == packet[96:112]
    assert base_tag[:8] == packet[144:152]
    assert tlv_tag == packet[-16:]
    assert bytes((0x80, 8, 0, 16)) == packet[-20:-16]


def test_signing_again_gives_the_same_packet():
    """The copy of the first tag is written before the second tag is made, whatever was there."""
    packet = bytearray(request())
    packet[96:112], packet[144:152], packet[-16:] = b"\xff" * 16, b"\xff" * 8, b"\xff" * 16

    sign(packet, TO_B1.send)

    assert request() == packet
