"""What packets say of this host."""

from __future__ import annotations

import socket

from meshwatchd.adapters.stamp_interop.host import UNKNOWN_CLOCK, clock_state, own_addresses
from meshwatchd.wire.report_tlv import SyncSource


def test_a_clock_that_is_followed_has_an_error_and_one_that_is_not_has_none():
    """Whichever this machine's is."""
    state = clock_state()

    if state.estimate.is_synchronized:
        assert SyncSource.NTP is state.source
        assert state.estimate.error_ns > 0
    else:
        assert UNKNOWN_CLOCK == state


def test_own_addresses_are_those_one_can_bind_to():
    """Of both versions; others are not among them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        addresses = own_addresses(asked)

    assert socket.inet_aton("127.0.0.1") in addresses
    assert socket.inet_aton("192.0.2.1") not in addresses
    for packed in addresses:
        if len(packed) == 4:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((socket.inet_ntoa(packed), 0))
