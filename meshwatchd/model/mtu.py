"""Sizes: what is asked of the adapter that measures them, what it answers, and what operators see of it.

All sizes are those of whole IP packets, header included, as an MTU counts them.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from meshwatchd.model.ids import Layer, NodeName

SMALL_BYTES = 300
"""Of a probe that proves the path, whatever its size: as long as all other probes are."""

MAX_BYTES = 9216
"""Of the longest probe: the jumbo frames of switches; EC2 has 9 001, most others 9 000."""


class SizeState(StrEnum):
    """How far the measurement of a path has come (RFC 8899 section 5.2), and what became of it."""

    BASE = "base"
    SEARCHING = "searching"
    COMPLETE = "complete"
    ERROR = "error"


class SizePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One path through one layer to one peer, whose size is measured.

    Attributes:
        session: counts up from 0, apart from the ids of ordinary sessions.
        source, destination: IPv4 addresses.
        port: destination port.
        source_port: of all its probes.
        device: by which they leave whatever the routes say; empty leaves it to the routes.
        may_fragment: DF is clear: whether fragments survive is the question. All others have it set.
    """

    session: int
    peer: NodeName
    layer: Layer
    path: int
    source: str
    destination: str
    port: int
    source_port: int
    device: str = ""
    may_fragment: bool = False


class ConfigureSizes(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Replace the table of paths whose size is measured."""

    plans: tuple[SizePlan, ...]


class SendSizeProbe(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Send one probe of exactly this size."""

    session: int
    seq: int
    size_bytes: int


class SizeAnswered(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """An authenticated answer, as long as the probe.

    Attributes:
        count: the reflector's number of this answer in the session: how many requests have arrived there before.
        learned_mtu_bytes: what the kernel has learned about the route from an ICMP message and uses until it
            expires; 0 for nothing.
    """

    session: int
    seq: int
    rtt_ns: int
    count: int
    learned_mtu_bytes: int = 0


class SizeUnsent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The kernel did not take a probe; EMSGSIZE says that it is longer than the device's MTU."""

    session: int
    seq: int
    errno: int


class SizeMeasured(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The size of a path is known, or has changed.

    Attributes:
        outbound_bytes: the longest packet that arrives at the peer.
        inbound_bytes: the longest answer that comes back, as far as it was asked for; never more than outbound.
        expected_bytes: what the devices on the way promise.
    """

    peer: NodeName
    layer: Layer
    path: int
    outbound_bytes: int
    inbound_bytes: int
    expected_bytes: int


class SizeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `meshwatchctl mtu`.

    Attributes:
        direction: "outbound" to the peer, "inbound" from it, "both" of a probe and its answer together.
        expected_bytes: what the devices on the way promise; 0 where nothing tells.
        measured_bytes: what passes; 0 before the measurement.
        state: "ok", "searching", "black-hole", "misconfigured", "fragments-dropped", "poisoned", "smaller",
            "unreachable", "unknown".
        advice: what to do about it; empty when nothing is to be done.
    """

    layer: Layer
    peer: NodeName
    path: int
    direction: str
    expected_bytes: int
    measured_bytes: int
    state: str
    advice: str = ""
