"""TLVs by which a reflector reports on itself: how it makes timestamps, and when an answer really left.

And one the other way round, Access Report, by which a sender reports on its access network.

Source: RFC 8972 sections 4.3 (Timestamp Information), 4.6 (Access Report), 4.7 (Follow-Up Telemetry).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import msgspec

from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.tlv import Tlv, TlvType

TIMESTAMP_INFORMATION_BYTES: Final = 4
ACCESS_REPORT_BYTES: Final = 4
FOLLOW_UP: Final = struct.Struct(">I Q B 3x")
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


class TimestampInformation(msgspec.Struct, frozen=True, kw_only=True):
    """How the reflector stamps what comes in and what goes out; codes it has made up itself survive as numbers.

    Layout: source in (1), method in (1), source out (1), method out (1).
    """

    source_in: int = SyncSource.UNKNOWN
    method_in: int = TimestampMethod.UNKNOWN
    source_out: int = SyncSource.UNKNOWN
    method_out: int = TimestampMethod.UNKNOWN

    def to_tlv(self) -> Tlv:
        """As sent."""
        value = bytes((self.source_in, self.method_in, self.source_out, self.method_out))
        return Tlv(type=TlvType.TIMESTAMP_INFORMATION, value=value)

    @classmethod
    def from_tlv(cls, tlv: Tlv) -> TimestampInformation:
        """Raises DecodeError unless the value has 4 bytes."""
        _require(tlv, TlvType.TIMESTAMP_INFORMATION, TIMESTAMP_INFORMATION_BYTES)
        source_in, method_in, source_out, method_out = tlv.value
        return cls(source_in=source_in, method_in=method_in, source_out=source_out, method_out=method_out)


class AccessReport(msgspec.Struct, frozen=True, kw_only=True):
    """Which access network of the sender came up or went down.

    Layout: access id (4 bits), reserved (4 bits), return code (1), reserved (2).

    Attributes:
        access_id: 1 for a 3GPP network, 2 for another.
        return_code: 1 available, 2 unavailable.
    """

    access_id: int
    return_code: int

    def to_tlv(self) -> Tlv:
        """As sent."""
        return Tlv(type=TlvType.ACCESS_REPORT, value=bytes((self.access_id << 4, self.return_code, 0, 0)))

    @classmethod
    def from_tlv(cls, tlv: Tlv) -> AccessReport:
        """Raises DecodeError unless the value has 4 bytes."""
        _require(tlv, TlvType.ACCESS_REPORT, ACCESS_REPORT_BYTES)
        return cls(access_id=tlv.value[0] >> 4, return_code=tlv.value[1])


class FollowUpTelemetry(msgspec.Struct, frozen=True, kw_only=True):
    """When an earlier answer really left.

    Layout: sequence number (4), timestamp (8), method (1), reserved (3).

    Attributes:
        sequence: the reflector's number of that answer.
        timestamp_ntp: 64-bit NTP format; 0 when the reflector has nothing to follow up.
    """

    sequence: int = 0
    timestamp_ntp: int = 0
    method: int = TimestampMethod.UNKNOWN

    def to_tlv(self) -> Tlv:
        """As sent."""
        value = FOLLOW_UP.pack(self.sequence, self.timestamp_ntp, self.method)
        return Tlv(type=TlvType.FOLLOW_UP_TELEMETRY, value=value)

    @classmethod
    def from_tlv(cls, tlv: Tlv) -> FollowUpTelemetry:
        """Raises DecodeError unless the value has 16 bytes."""
        _require(tlv, TlvType.FOLLOW_UP_TELEMETRY, FOLLOW_UP_BYTES)
        sequence, timestamp, method = FOLLOW_UP.unpack(tlv.value)
        return cls(sequence=sequence, timestamp_ntp=timestamp, method=method)


def _require(tlv: Tlv, kind: TlvType, size: int) -> None:
    if tlv.type != kind or len(tlv.value) != size:
        raise DecodeError("stamp", f"TLV of type {tlv.type} and {len(tlv.value)} bytes is no {kind.name}")
