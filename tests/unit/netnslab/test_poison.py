"""The forged message is one that a kernel believes."""

import struct

from netnslab.poison import DISCARD_PORT, NEXT_HOP_BYTES, checksum, forge


def test_it_says_fragmentation_needed_and_quotes_the_flow():
    """Type 3, code 4, the next hop's MTU; then the headers of a packet of this very socket."""
    message = forge("10.2.0.13", "10.2.0.11", 40000)

    assert (3, 4, NEXT_HOP_BYTES) == (message[0], message[1], struct.unpack_from(">H", message, 6)[0])
    assert bytes((10, 2, 0, 13, 10, 2, 0, 11)) == message[20:28]
    assert (40000, DISCARD_PORT) == struct.unpack_from(">HH", message, 28)
    assert 0 == checksum(message)
