import pytest

from meshwatchd.wire.mould import LONGEST_ALIKE_BYTES, Mould, Pieces, cut, is_signed, shared
from meshwatchd.wire.parse import check_tags
from meshwatchd.wire.seal import MIN_PACKET_BYTES, sign
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


def test_a_mould_can_be_taken_apart_again():
    """The packet comes back without base packet and tags, and makes the same mould."""
    packet = request()
    blank = Mould(packet).blank()

    assert len(packet) == len(blank) == len(Mould(packet))
    assert Mould(packet).cast(bytes(96), TO_B1.send) == Mould(blank).cast(bytes(96), TO_B1.send)


def test_a_long_packet_is_not_kept_for_others():
    """Size probes are made once each: a thousand of nine kilobytes would stay, and push out what thousands share."""
    before = shared.cache_info().currsize, shared.cache_info().misses
    Mould(bytes(LONGEST_ALIKE_BYTES + 1))

    assert before == (shared.cache_info().currsize, shared.cache_info().misses)
    Mould(bytes(LONGEST_ALIKE_BYTES))
    assert before != (shared.cache_info().currsize, shared.cache_info().misses)


def test_pieces_that_say_the_same_are_one_object():
    """Thousands of sessions keep them."""
    head = _cut(request(sequence=1))[2]

    assert shared(head) is shared(_cut(request(sequence=2))[2])


def _cut(packet: bytes) -> Pieces:
    pieces = cut(packet)
    assert pieces is not None
    return pieces


def _flipped(packet: bytes, position: int) -> bytes:
    return packet[:position] + bytes((packet[position] ^ 1,)) + packet[position + 1 :]


def test_packets_that_say_the_same_differ_in_number_time_and_tags_only():
    """Each byte that is signed and is not in the base packet or a tag is in the third or the fifth piece."""
    packet = request(sequence=1)
    _base, _tag, head, _copy, tail, _last = _cut(packet)
    other = _cut(request(sequence=2, timestamp_ntp=5))
    assert (head, tail) == (other[2], other[4])
    alike = []
    for position in range(len(packet)):
        pieces = _cut(_flipped(packet, position))
        if (head, tail) == (pieces[2], pieces[4]):
            alike.append(position)
    assert [*range(112), *range(144, 152), *range(len(packet) - 16, len(packet))] == alike


def test_pieces_are_the_whole_packet():
    """Nothing is left out and nothing comes twice."""
    packet = request(sequence=1)

    assert packet == b"".join(_cut(packet))


def test_no_bit_of_a_packet_in_pieces_escapes_the_tags():
    """But for the header of the last tag, which whoever compares pieces has compared; as `check_tags` says."""
    packet = request(sequence=1)
    assert is_signed(_cut(packet), TO_B1.send)
    right = []
    for position in range(len(packet)):
        other = _flipped(packet, position)
        verdict = is_signed(_cut(other), TO_B1.send)
        assert verdict is (check_tags(other, TO_A1) is None)
        if verdict:
            right.append(position)

    assert [*range(len(packet) - 20, len(packet) - 16)] == right
    assert not is_signed(_cut(packet), TO_A1.send)


@pytest.mark.parametrize("length", [0, MIN_PACKET_BYTES - 1, LONGEST_ALIKE_BYTES + 1])
def test_what_is_too_short_or_a_size_probe_is_not__cut(length):
    """Anybody can send anything, and no two size probes are alike."""
    assert cut(bytes(length)) is None
