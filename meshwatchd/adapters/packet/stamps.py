"""When packets came and went.

The kernel notes the arrival of each packet by the wall clock (SO_TIMESTAMPNS); there is no monotonic
variant. The wall clock is therefore used for one difference only, how long the packet waited in its socket,
and the round trip itself is counted on CLOCK_MONOTONIC. That takes our own lateness out of the round-trip
time: the 25 us of a wake-up, and the 3 s for which the process was stopped. A wall clock set forward while
a packet waits makes that one packet look fast; no packet can look slow or be lost by it.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

from meshwatchd.wire.ntp import ERA_S, NTP_TO_UNIX_S, ntp_from_ns

SO_TIMESTAMPNS: Final = 35
"""Also the type of its ancillary message (asm-generic/socket.h); Python 3.11 has no name for it."""

_STAMP: Final = struct.Struct("@8x i i l l")
"""struct cmsghdr (length, level, type; linux/socket.h) and struct timespec."""
_SOL_SOCKET: Final = int(socket.SOL_SOCKET)
STAMP_BYTES: Final = _STAMP.size
SECOND_NS: Final = 1_000_000_000


def arrival_wall_ns(control: bytes, default_ns: int) -> int:
    """The kernel's receive time of a packet (CLOCK_REALTIME, ns), or the default when there is none.

    Args:
        control: ancillary data as the kernel wrote it; the stamp is always its first message (udp_recvmsg() in
            net/ipv4/udp.c).
        default_ns: any instant, in the same unit.
    """
    if len(control) < STAMP_BYTES:
        return default_ns
    level, kind, seconds, nanoseconds = _STAMP.unpack_from(control)
    if kind != SO_TIMESTAMPNS or level != _SOL_SOCKET:
        return default_ns
    arrived_ns: int = seconds * SECOND_NS + nanoseconds
    return arrived_ns


def arrival_ntp(control: bytes, default_ns: int) -> int:
    """The same as `arrival_wall_ns`, as a 64-bit NTP timestamp."""
    if len(control) >= STAMP_BYTES:
        level, kind, seconds, nanoseconds = _STAMP.unpack_from(control)
        if kind == SO_TIMESTAMPNS and level == _SOL_SOCKET:
            arrived: int = (seconds + NTP_TO_UNIX_S) % ERA_S << 32 | (nanoseconds << 32) // SECOND_NS
            return arrived
    return ntp_from_ns(default_ns)


class NtpClock:
    """Timestamps for packets: the wall clock in NTP format, and no value twice.

    An answer repeats the timestamp of its request, which makes it the nonce that a recorded answer does not
    have; so it moves on even where the wall clock stands or is set back.
    """

    def __init__(self) -> None:
        self._last = 0

    def stamp(self, count: int = 1) -> int:
        """The first of `count` successive 64-bit NTP timestamps, none of which this clock has given before."""
        now = ntp_from_ns(time.time_ns())
        # Set back by more than the counter can hide: start from there, with its low bits as they fall.
        first = now if now > self._last or self._last - now > _MAX_AHEAD else self._last + 1
        self._last = first + count - 1
        return first


_MAX_AHEAD: Final = 1 << 32
"""One second of NTP time: further ahead of the wall clock than that a timestamp would be a lie."""
