"""Timestamps and error estimates as STAMP carries them.

A timestamp is the 64-bit NTP format: 32 bits of seconds since 1900-01-01 and 32 bits of fraction. The seconds wrap
every 136 years, next on 2036-02-07, and the era is not in the packet. Between two readings of one clock the wrap does
not matter; subtract modulo 2**64.

Source: RFC 5905 section 6 (format and eras); RFC 4656 section 4.1.2 and RFC 8186 section 2.3 (error
estimate).
"""

from __future__ import annotations

from typing import Final

import msgspec

NANOSECONDS: Final = 1_000_000_000
NTP_TO_UNIX_S: Final = 2_208_988_800
"""Seconds from 1900-01-01 to 1970-01-01: 70 years with 17 leap days."""
ERA_S: Final = 1 << 32

_SYNCHRONIZED: Final = 0x8000
_PTP: Final = 0x4000
_MAX_SCALE: Final = 63
_MAX_MULTIPLIER: Final = 255


def ntp_from_ns(unix_ns: int) -> int:
    """Turn nanoseconds since 1970 (UTC) into a 64-bit NTP timestamp of whatever era it falls into."""
    seconds, rest_ns = divmod(unix_ns, NANOSECONDS)
    return ((seconds + NTP_TO_UNIX_S) % ERA_S) << 32 | (rest_ns << 32) // NANOSECONDS


class ErrorEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """How far a timestamp may be off: multiplier * 2**(scale - 32) seconds.

    Layout of the 16 bits, from the top: S (1), Z (1), scale (6), multiplier (8).

    Attributes:
        is_synchronized: S, the clock follows UTC by an external source.
        is_ptp: Z, timestamps are in truncated PTP format instead of NTP; meshwatchd never sends it.
        scale: 0..63.
        multiplier: 1..255 when sent; 0 is forbidden by RFC 4656 and survives decoding only to be seen.
    """

    is_synchronized: bool = False
    is_ptp: bool = False
    scale: int = 0
    multiplier: int = 1

    @classmethod
    def of(cls, error_ns: int, *, is_synchronized: bool) -> ErrorEstimate:
        """The smallest estimate that is not below `error_ns`."""
        units = max(1, -(-(error_ns << 32) // NANOSECONDS))
        scale = min(_MAX_SCALE, max(0, (units - 1).bit_length() - 8))
        multiplier = -(-units >> scale)
        if multiplier > _MAX_MULTIPLIER and scale < _MAX_SCALE:
            scale, multiplier = scale + 1, -(-units >> (scale + 1))
        multiplier = min(_MAX_MULTIPLIER, multiplier)
        return cls(is_synchronized=is_synchronized, scale=scale, multiplier=multiplier)

    @classmethod
    def decode(cls, word: int) -> ErrorEstimate:
        """Read the 16-bit field; every value is legal."""
        return cls(
            is_synchronized=bool(word & _SYNCHRONIZED),
            is_ptp=bool(word & _PTP),
            scale=word >> 8 & _MAX_SCALE,
            multiplier=word & _MAX_MULTIPLIER,
        )

    def encode(self) -> int:
        """The 16-bit field."""
        flags = _SYNCHRONIZED * self.is_synchronized | _PTP * self.is_ptp
        return flags | self.scale << 8 | self.multiplier

    @property
    def error_ns(self) -> int:
        """The estimate, rounded up."""
        return -(-(self.multiplier * NANOSECONDS << self.scale) >> 32)


UNSYNCHRONIZED: Final = ErrorEstimate(scale=32, multiplier=1)
"""Said when nothing is known of the clock: not synchronized, one second.

Detection and round-trip times use the sender's monotonic clock, found by sequence number, so nothing
depends on it.
"""
