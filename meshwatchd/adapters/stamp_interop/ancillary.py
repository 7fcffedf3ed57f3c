"""Ancillary data as recvmsg(2) hands it out: one packet at a time, message by message.

The mesh's own packets come in batches and are read from raw control buffers (`adapters.packet.delivery`); senders of
other makers are few and slow.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import Final

from meshwatchd.adapters.packet.stamps import SECOND_NS, SO_TIMESTAMPNS

IP_PKTINFO: Final = 8
IP_RECVTTL: Final = 12
"""Python 3.11 has names for neither (linux/in.h)."""

PKTINFO: Final = struct.Struct("@i4s4s")
"""struct in_pktinfo: interface index, local address (source of an answer), address in the packet's header."""

TIMESPEC: Final = struct.Struct("@ll")
TIMESTAMP_SPACE: Final = socket.CMSG_SPACE(TIMESPEC.size)

Ancillary = Iterable[tuple[int, int, bytes]]
"""Level, type and data of each message."""


def arrived_wall_ns(ancillary: Ancillary, default_ns: int) -> int:
    """The kernel's receive time of a packet (CLOCK_REALTIME, ns), or the default when there is none."""
    for level, kind, data in ancillary:
        if kind == SO_TIMESTAMPNS and level == socket.SOL_SOCKET and len(data) >= TIMESPEC.size:
            seconds, nanoseconds = TIMESPEC.unpack_from(data)
            return int(seconds * SECOND_NS + nanoseconds)
    return default_ns
