"""What a STAMP packet says of the host it comes from: how good its clock is, which addresses it has."""

from __future__ import annotations

import array
import ctypes
import fcntl
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from meshwatchd.wire.ntp import UNSYNCHRONIZED, ErrorEstimate
from meshwatchd.wire.report_tlv import SyncSource

_STA_UNSYNC: Final = 0x0040
_MICROSECOND_NS: Final = 1_000

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Timex(ctypes.Structure):
    """struct timex of 64-bit Linux (linux/timex.h), up to the status; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("max_error_us", ctypes.c_long),
        ("estimated_error_us", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


class ClockState(msgspec.Struct, frozen=True, kw_only=True):
    """How far this node's wall clock can be trusted.

    Attributes:
        estimate: as packets carry it.
        source: what the clock follows; the kernel knows only whether somebody disciplines it, so NTP stands for all.
    """

    estimate: ErrorEstimate = UNSYNCHRONIZED
    source: SyncSource = SyncSource.FREE_RUNNING


UNKNOWN_CLOCK: Final = ClockState()


def clock_state() -> ClockState:
    """Ask the kernel (adjtimex(2), without changing anything); unsynchronized where it may not be asked."""
    timex = _Timex()
    if _LIBC.adjtimex(ctypes.byref(timex)) < 0 or timex.status & _STA_UNSYNC:
        return UNKNOWN_CLOCK
    # The bound, not the estimate: it also covers what the clock may have drifted since it was last set.
    estimate = ErrorEstimate.of(timex.max_error_us * _MICROSECOND_NS, is_synchronized=True)
    return ClockState(estimate=estimate, source=SyncSource.NTP)


_SIOCGIFCONF: Final = 0x8912
_IFREQ_BYTES: Final = 40
_IFREQ_ADDRESS: Final = slice(20, 24)
"""struct ifreq: name (16), struct sockaddr_in with the address at its byte 4 (netdevice(7))."""
_MAX_INTERFACES: Final = 1024
_IFCONF: Final = struct.Struct("@iP")
_INET6_TABLE: Final = Path("/proc/self/net/if_inet6")
_INET6_DIGITS: Final = 32


def own_addresses(listener: socket.socket) -> frozenset[bytes]:
    """Packed addresses of this node, IPv4 as the socket's network namespace has them; empty if nobody tells."""
    found: set[bytes] = set()
    with suppress(OSError):
        found.update(_ipv4_addresses(listener))
    with suppress(OSError, ValueError):
        lines = _INET6_TABLE.read_text(encoding="ascii").splitlines()
        found.update(bytes.fromhex(line[:_INET6_DIGITS]) for line in lines)
    return frozenset(found)


def _ipv4_addresses(listener: socket.socket) -> list[bytes]:
    buffer = array.array("B", bytes(_MAX_INTERFACES * _IFREQ_BYTES))
    request = _IFCONF.pack(len(buffer), buffer.buffer_info()[0])
    length, _pointer = _IFCONF.unpack(fcntl.ioctl(listener.fileno(), _SIOCGIFCONF, request))
    raw = buffer.tobytes()
    return [raw[start : start + _IFREQ_BYTES][_IFREQ_ADDRESS] for start in range(0, length, _IFREQ_BYTES)]
