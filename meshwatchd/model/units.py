"""Durations and port ranges as people write them."""

from __future__ import annotations

import re

MS = 1_000_000
SECOND = 1_000 * MS
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS_NS = {"us": 1_000, "ms": MS, "s": SECOND, "min": MINUTE, "h": HOUR}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h)", re.ASCII)
_PORT_RANGE = re.compile(r"\s*(\d{1,5})\s*-\s*(\d{1,5})\s*", re.ASCII)

LONGEST_NS = 100 * 365 * DAY
"""A hundred years: added to any clock it is still a number of 64 bits."""


def parse_duration(text: str) -> int:
    """Turn "50ms", "1.5s", "5min" into nanoseconds.

    Raises:
        ValueError: no number with one of the units us, ms, s, min, h, or more than a hundred years.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration; write a number and a unit (us, ms, s, min, h), as in 50ms")
    duration_ns = float(match[1]) * _UNITS_NS[match[2]]
    if duration_ns > LONGEST_NS:
        raise ValueError("that is longer than a hundred years; write a shorter duration, as in 30min")
    return round(duration_ns)


def format_duration(duration_ns: int) -> str:
    """The string that `parse_duration` turns into these nanoseconds, in the largest unit that is a whole number."""
    for unit, size_ns in reversed(_UNITS_NS.items()):
        if duration_ns and duration_ns % size_ns == 0:
            return f"{duration_ns // size_ns}{unit}"
    return f"{duration_ns / 1_000}us" if duration_ns else "0s"


def render_duration(duration_ns: int) -> str:
    """Turn nanoseconds into the largest unit that keeps the number readable, as "1.5 s"."""
    for unit, size_ns in reversed(_UNITS_NS.items()):
        if duration_ns >= size_ns:
            return f"{duration_ns / size_ns:.3g} {unit}"
    return f"{duration_ns / 1_000:.3g} us"


def parse_port_range(text: str) -> tuple[int, int]:
    """Turn "10000-29999" into its first and last port.

    Raises:
        ValueError: not two ports in 1..65535 in rising order.
    """
    match = _PORT_RANGE.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= int(match[2]) < 65536:
        raise ValueError(f"{text!r} is no port range; write first-last, as in 10000-29999")
    return int(match[1]), int(match[2])
