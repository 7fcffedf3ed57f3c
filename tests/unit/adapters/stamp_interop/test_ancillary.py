"""When a packet arrived, as its ancillary data says."""

from __future__ import annotations

import socket

from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS
from meshwatchd.adapters.stamp_interop.ancillary import TIMESPEC, arrived_wall_ns

STAMP = (socket.SOL_SOCKET, SO_TIMESTAMPNS, TIMESPEC.pack(3, 7))


def test_the_stamp_is_found_among_other_messages():
    """Wherever the kernel has put it."""
    assert 3_000_000_007 == arrived_wall_ns([(socket.IPPROTO_IP, socket.IP_TTL, b"\x40\0\0\0"), STAMP], 1)


def test_without_a_whole_stamp_the_default_holds():
    """None, another level's message of the same type, one that was cut."""
    level, kind, data = STAMP
    for ancillary in ([], [(socket.IPPROTO_IP, kind, data)], [(level, kind, data[:-1])]):
        assert 1 == arrived_wall_ns(ancillary, 1)
