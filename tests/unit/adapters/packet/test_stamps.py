"""Timestamps: the kernel's are read, ours never repeat."""

from __future__ import annotations

import socket
import time

from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS, TIMESPEC, NtpClock, arrival_wall_ns
from meshwatchd.wire import ns_from_ntp


def test_kernel_stamp_is_found_among_other_messages():
    """Seconds and nanoseconds become one number; other messages are passed over."""
    ancillary = [
        (socket.IPPROTO_IP, SO_TIMESTAMPNS, b"x" * 16),
        (socket.SOL_SOCKET, SO_TIMESTAMPNS, TIMESPEC.pack(12, 345)),
    ]

    assert 12_000_000_345 == arrival_wall_ns(ancillary, 1)
    assert 1 == arrival_wall_ns(ancillary[:1], 1)


def test_cut_stamp_is_no_stamp():
    """A message the buffer had no room for is not read beyond its end."""
    assert 1 == arrival_wall_ns([(socket.SOL_SOCKET, SO_TIMESTAMPNS, b"1234")], 1)


def test_stamps_grow_and_follow_the_wall_clock():
    """Two stamps are never equal, and each is the time of day."""
    clock = NtpClock()
    stamps = [clock.stamp() for _ in range(1000)]
    now_ns = time.time_ns()

    assert sorted(set(stamps)) == stamps
    assert abs(ns_from_ntp(stamps[-1], near_ns=now_ns) - now_ns) < 1_000_000_000


def test_stamps_do_not_repeat_when_the_clock_is_set_back_a_little():
    """Up to a second the count hides a step; a larger one is followed."""
    clock = NtpClock()
    first = clock.stamp()
    clock._last = first + (1 << 31)
    assert (1 << 31) + 1 == clock.stamp() - first

    clock._last = first + (1 << 33)
    assert clock.stamp() < first + (1 << 32)
