"""Timestamps: the kernel's are read, ours never repeat."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS, STAMP_BYTES, NtpClock, arrival_ntp, arrival_wall_ns
from meshwatchd.wire.ntp import ntp_from_ns

STAMP = struct.Struct("@Q i i l l")


def test_kernel_stamp_is_the_first_message():
    """Seconds and nanoseconds become one number, whatever comes behind them."""
    control = STAMP.pack(32, socket.SOL_SOCKET, SO_TIMESTAMPNS, 12, 345)

    assert STAMP_BYTES == len(control)
    assert 12_000_000_345 == arrival_wall_ns(control, 1)
    assert 12_000_000_345 == arrival_wall_ns(control + bytes(40), 1)


@pytest.mark.parametrize(
    "control",
    [
        b"",
        STAMP.pack(32, socket.SOL_SOCKET, SO_TIMESTAMPNS, 12, 345)[:-1],
        STAMP.pack(32, socket.IPPROTO_IP, SO_TIMESTAMPNS, 12, 345),
        STAMP.pack(32, socket.SOL_SOCKET, SO_TIMESTAMPNS + 1, 12, 345),
    ],
    ids=["none", "cut", "level", "type"],
)
def test_what_is_no_stamp_gives_the_default(control):
    """Another message, or one the buffer had no room for, is not read as a time."""
    assert 1 == arrival_wall_ns(control, 1)


@pytest.mark.parametrize(
    "second", [0, 1_700_000_000, 2_085_978_495, 2_085_978_496], ids=["1970", "today", "era", "next"]
)
def test_the_arrival_is_told_in_ntp_format_as_well(second):
    """What goes into an answer is the same instant, in whatever era it falls."""
    control = struct.pack("@Q i i l l", STAMP_BYTES, socket.SOL_SOCKET, SO_TIMESTAMPNS, second, 123_456_789)

    assert ntp_from_ns(arrival_wall_ns(control, 1)) == arrival_ntp(control, 1)
    assert ntp_from_ns(7_000_000_123) == arrival_ntp(b"", 7_000_000_123)


def test_stamps_taken_together_are_as_unique():
    """A batch gets successive ones, and the next call goes on behind them."""
    clock = NtpClock()
    first = clock.stamp(1 << 30)

    assert first + (1 << 30) == clock.stamp()


def test_stamps_grow_and_follow_the_wall_clock():
    """Two stamps are never equal, and each is the time of day."""
    clock = NtpClock()
    stamps = [clock.stamp() for _ in range(1000)]
    now = ntp_from_ns(time.time_ns())

    assert sorted(set(stamps)) == stamps
    assert abs(stamps[-1] - now) < 1 << 32, "a second"


def test_stamps_do_not_repeat_when_the_clock_is_set_back_a_little():
    """Up to a second the count hides a step; a larger one is followed."""
    clock = NtpClock()
    first = clock.stamp()
    clock._last = first + (1 << 31)
    assert (1 << 31) + 1 == clock.stamp() - first

    clock._last = first + (1 << 33)
    assert clock.stamp() < first + (1 << 32)
