import struct

import pytest

from meshwatchd.adapters.netlink.message import Message, attributes, encode, encode_attribute, nested, split
from meshwatchd.model.errors import DecodeError


def test_messages_of_one_datagram_come_in_order():
    """The kernel packs what belongs together; each message is padded to four bytes."""
    datagram = encode(24, 0x400, 7, b"abcde") + bytes(3) + encode(3, 2, 7, b"")

    assert [Message(24, 0x400, 7, b"abcde"), Message(3, 2, 7, b"")] == list(split(datagram))


@pytest.mark.parametrize("length", [0, 15, 17, 0xFFFF_FFFF])
def test_a_message_of_the_wrong_length_is_refused(length):
    """One below the header's own would loop for ever."""
    with pytest.raises(DecodeError, match="netlink message"):
        list(split(struct.pack("=IHHII", length, 33, 0, 0, 0)))


def test_attributes_are_found_whatever_their_flags():
    """NLA_F_NESTED marks a type, it is none."""
    data = b"head" + encode_attribute(1, b"x") + encode_attribute(0x8012, b"nest")

    assert {1: b"x", 0x12: b"nest"} == attributes(data, 4)


def test_an_array_keeps_its_order():
    """The elements' types say nothing."""
    assert [b"a", b"bcdef"] == list(nested(encode_attribute(0, b"a") + encode_attribute(0, b"bcdef")))


@pytest.mark.parametrize("length", [0, 3, 9])
def test_an_attribute_of_the_wrong_length_is_refused(length):
    """Shorter than its header, or longer than what is left."""
    data = struct.pack("=HH", length, 1) + bytes(4)
    for read in (lambda: attributes(data, 0), lambda: list(nested(data))):
        with pytest.raises(DecodeError, match="netlink attribute"):
            read()
