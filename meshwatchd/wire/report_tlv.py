"""TLVs by which a reflector reports on itself: how it makes timestamps, and when an answer really left.

And one the other way round, Access Report, by which a sender reports on its access network.

Source: RFC 8972 sections 4.3 (Timestamp Information), 4.6 (Access Report), 4.7 (Follow-Up Telemetry).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

TIMESTAMP_INFORMATION_BYTES: Final = 4
"""Source in (1), method in (1), source out (1), method out (1): how the reflector stamps what comes in and goes out."""
ACCESS_REPORT_BYTES: Final = 4
"""Access id (4 bits: 1 for a 3GPP network, 2 for another), reserved (4 bits), return code (1 byte: 1 available, 2
unavailable), reserved (2): which access network of the sender came up or went down."""
FOLLOW_UP: Final = struct.Struct(">I Q B 3x")
"""Sequence number, timestamp in 64-bit NTP format, method: when an earlier answer really left; zeros for none."""
FOLLOW_UP_BYTES: Final = FOLLOW_UP.size


class SyncSource(IntEnum):
    """What a clock follows (RFC 8972 section 5.4)."""

    UNKNOWN = 0
    NTP = 1
    PTP = 2
    SSU_BITS = 3
    SATELLITE = 4
    FREE_RUNNING = 5


class TimestampMethod(IntEnum):
    """Where a timestamp is taken (RFC 8972 section 5.5)."""

    UNKNOWN = 0
    HARDWARE = 1
    SOFTWARE = 2
    CONTROL_PLANE = 3
