"""Everything one run has found out, as one value: the input of the matrix."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from meshwatchd.model.bisection import KnownFlows, PeerCounts, SeriesCounts, SeriesName


class Entry(StrEnum):
    """What one of the kernel's tables says about packets to the peer."""

    RIGHT = "right"
    MISSING = "missing"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One table: what it says, and whether that is right.

    Attributes:
        text: for people, as "10.244.4.0 is at 02:.. (PERMANENT)"; what it should be where it is wrong.
    """

    entry: Entry = Entry.UNKNOWN
    text: str = ""


class DeviceState(StrEnum):
    """Whether a device can carry packets."""

    READY = "ready"
    DOWN = "down"
    NO_CARRIER = "no-carrier"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        peer, via: names; `via` receives what the overlay sends and is the peer or the own leader.
        overlay, lower: names of the devices; `lower` empty where what leaves cannot be recognised (WireGuard).
        queue_dropped: packets the lower device's queues have dropped meanwhile.
        overlay_dropped, overlay_errors: counted by the overlay device meanwhile, other traffic included.
    """

    peer: str
    via: str
    overlay: str = ""
    lower: str = ""
    overlay_state: DeviceState = DeviceState.UNKNOWN
    lower_state: DeviceState = DeviceState.UNKNOWN
    route: Finding = Finding()
    neighbour: Finding = Finding()
    forwarding: Finding = Finding()
    underlay_route: Finding = Finding()
    underlay_neighbour: Finding = Finding()
    series: tuple[SeriesCounts, ...] = ()
    peer_counts: tuple[PeerCounts, ...] = ()
    known_flows: KnownFlows = KnownFlows(sent=0, answered=0)
    queue_dropped: int = 0
    overlay_dropped: int = 0
    overlay_errors: int = 0

    def counts(self, name: SeriesName) -> SeriesCounts:
        """The counts of a series; of one that was not sent, zeros."""
        return next((each for each in self.series if each.name is name), SeriesCounts(name=name, sent=0))

    def counts_there(self, name: SeriesName) -> PeerCounts | None:
        """What the peer's taps saw of a series, None where it did not tap."""
        return next((each for each in self.peer_counts if each.name is name), None)
