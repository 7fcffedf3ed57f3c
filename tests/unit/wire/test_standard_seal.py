"""When TLVs of other makers count as signed."""

from __future__ import annotations

import pytest

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.standard_seal import is_signature_needed, is_tlv_tag_valid, sign_base, sign_tlvs, tlv_tag
from meshwatchd.wire.tlv import Tlv, encode_tlvs, scan

KEY = MacKey(b"shared")
NUMBER = b"\0\0\0\x07"


def test_the_base_tag_covers_the_first_96_bytes():
    """RFC 8762 section 4.4."""
    packet = bytearray(range(112))
    sign_base(packet, KEY)

    assert KEY.tag(bytes(range(96))) == packet[96:]


def test_signed_tlvs_verify_and_nothing_else_does():
    """Number, TLVs and tag in one; Extra Padding behind is all that may follow."""
    packet = bytearray(NUMBER + encode_tlvs((Tlv(type=4, value=bytes(4)), Tlv(type=8, value=bytes(16)))))
    tag = tlv_tag(scan(packet, 4))
    assert tag is not None
    sign_tlvs(packet, tag, KEY, start=4)

    def verifies(data: bytes) -> bool:
        return is_tlv_tag_valid(data, scan(data, 4), tag, KEY, start=4)

    assert verifies(bytes(packet))
    assert verifies(bytes(packet) + Tlv(type=1, value=b"padding").encode())
    assert not verifies(bytes(packet) + Tlv(type=4, value=bytes(4)).encode())
    assert not verifies(bytes(packet) + b"\x80\x01\0\x09")
    assert not verifies(b"\1" + bytes(packet[1:]))


@pytest.mark.parametrize(
    ("tlvs", "mode", "is_needed"),
    [
        ((), StampMode.AUTHENTICATED, False),
        ((Tlv(type=1, value=b"1"),), StampMode.AUTHENTICATED, False),
        ((Tlv(type=1, value=b"1"), Tlv(type=1, value=b"2")), StampMode.AUTHENTICATED, True),
        ((Tlv(type=4, value=bytes(4)),), StampMode.AUTHENTICATED, True),
        ((Tlv(type=4, value=bytes(4)),), StampMode.OPEN, False),
    ],
)
def test_authenticated_tlvs_need_a_tag(tlvs, mode, is_needed):
    """RFC 8972 section 4.8, with its one exception."""
    assert is_needed is is_signature_needed(scan(encode_tlvs(tlvs), 0), mode)
