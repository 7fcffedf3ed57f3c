"""Names for the numbers and strings that must not be mixed up."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NewType

SERVICE_USER = "meshwatch"
"""The system's user that the service runs as, where the package has made one."""

NodeName = NewType("NodeName", str)
LocationName = NewType("LocationName", str)

PairIndex = NewType("PairIndex", int)
"""Number of an unordered pair of locations: no two pairs of one location have the same (`topology.pair_number`)."""

PathNumber = NewType("PathNumber", int)
"""`pair * RANKS_PER_PAIR + rank`: one number for one path at both its ends, and for no other path that ends there."""

NO_PATH = 0xFFFF
"""Path number of sessions that belong to no path."""

SessionId = NewType("SessionId", int)
"""Index into the engine's session table; valid for one topology."""

TableId = NewType("TableId", int)
IfIndex = NewType("IfIndex", int)

Instant = NewType("Instant", int)
"""Nanoseconds of CLOCK_MONOTONIC (or of the simulated clock)."""


class Layer(IntEnum):
    """The layer a probe exercises; the value travels in the private TLV of every probe.

    POD never does: what a canary is sent is whatever it understands, and no peer reflects it.
    """

    SELF = 0
    UNDERLAY = 1
    WIREGUARD = 2
    IPIP = 3
    OVERLAY = 4
    RELAY = 5
    EFFECTIVE = 6
    POD = 7
    POD_NETWORK = 8


class FlowClass(StrEnum):
    """Whether the network may have seen the probe's 5-tuple before."""

    FRESH = "fresh"
    PINNED = "pinned"
