import pytest

from meshwatchd.wire.mould import Mould
from meshwatchd.wire.seal import sign
from meshwatchd.wire.stamp import HMAC_OFFSET
from tests.support.wire_pair import TO_A1, TO_B1, request


@pytest.mark.parametrize("key", [TO_A1.send, TO_B1.send], ids=["to-a1", "to-b1"])
def test_a_cast_packet_is_the_packet_that_would_be_signed(key):
    """Whatever the base says, and whoever signs: the bytes are those that `sign` writes into a whole packet."""
    packet = request(sequence=7)
    mould, base = Mould(packet), bytes(range(HMAC_OFFSET))
    signed = bytearray(packet)
    signed[:HMAC_OFFSET] = base
    sign(signed, key)

    assert signed == mould.cast(base, key)


def test_a_mould_does_not_keep_the_tags_it_was_made_with():
    """The packet it was made from has tags of its own; none of them may come back."""
    packet = bytearray(request(sequence=7))
    blank = bytearray(packet)
    blank[96:112] = bytes(16)
    blank[144:152] = bytes(8)
    blank[-16:] = bytes(16)

    assert packet == Mould(blank).cast(bytes(packet[:HMAC_OFFSET]), TO_B1.send)
