"""Source ports of probes: every port of a band once before any comes again, whoever asks.

Freshness is a matter of the whole 5-tuple, so all sessions of a node may leave by one port at one time: their
destinations differ. The port is therefore a function of an index that follows the clock, and sessions that send
in the same round share a socket. The walk is derived from the node's name, and CLOCK_MONOTONIC outlives a process:
a daemon that was restarted continues where it was killed.
"""

from __future__ import annotations

import math
import zlib
from typing import Protocol

from meshwatchd.model.source_ports import PortBand


class PortWalk:
    """A full-period walk over a band of ports, addressed by index.

    Leaving the choice to the kernel repeats ports early: half of the probes that survive a new-flows fault do so
    because the kernel drew a port it had drawn before. A walk with a stride coprime to the number of ports repeats
    nothing within a period.

    Args:
        band: the ports.
        name: what stride and start are derived from; the same name means the same walk.
    """

    __slots__ = ("_count", "_lanes", "_latest", "_offset", "_port", "_stride", "band")

    def __init__(self, band: PortBand, name: str) -> None:
        self.band = band
        self._count = band.count
        seed = zlib.crc32(name.encode())
        self._stride = _coprime_stride(self._count, seed >> 16)
        self._offset = seed % self._count
        # The index that was asked for last, and its port: all sessions of a round ask for one.
        self._latest, self._port = 0, self._at(0)
        self._lanes: dict[bool, _Lane] = {}

    def lane(self, now: int, *, is_apart: bool) -> _Lane:
        """One for all flows that begin in one round: a mesh has thousands of them."""
        lane, begun = self._lanes.get(is_apart), _Lane(self, now, is_apart=is_apart)
        if lane is None or lane.first != begun.first:
            lane = self._lanes[is_apart] = begun
        return lane

    def port(self, index: int) -> int:
        """The port of an index; two indices share one only if they are a multiple of the band's width apart."""
        if index != self._latest:
            self._latest, self._port = index, self._at(index)
        return self._port

    def _at(self, index: int) -> int:
        return self.band.port((self._offset + index * self._stride) % self._count)


class SourcePorts(Protocol):
    """Where a session's probes leave from."""

    def take(self, now: int, *, is_burst: bool, is_forced: bool = False) -> int | None:
        """The port of the next probe, or None while there is none that may be used."""


class FreshPorts:
    """Ports never used to one destination within the flow memory.

    Args:
        regular, burst: the walks of regular probes and of confirm bursts, shared by all sessions of the node.
        now: when the process began to probe.
        is_apart: half a walk away from everybody else's place, for whoever needs a socket of its own.
    """

    __slots__ = ("_at_burst", "_at_regular", "_burst", "_regular")

    def __init__(self, regular: PortWalk, burst: PortWalk, now: int, *, is_apart: bool = False) -> None:
        self._regular, self._burst = regular.lane(now, is_apart=is_apart), burst.lane(now, is_apart=is_apart)
        self._at_regular, self._at_burst = self._regular.first, self._burst.first

    def take(self, now: int, *, is_burst: bool, is_forced: bool = False) -> int | None:
        """The port of the next probe.

        Args:
            now: when it leaves; never less than at the call before.
            is_burst: it is a confirm probe.
            is_forced: it must leave whatever was used: it carries a message.

        Returns:
            The port, or None when the flow is as far ahead of the clock as it may be.
        """
        lane = self._burst if is_burst else self._regular
        clock = now // lane.round_ns
        # The round the clock is in, or the one after the last that was used.
        index = (self._at_burst if is_burst else self._at_regular) + 1
        if index < clock:
            index = clock
        elif index > max(clock, lane.first) + lane.lead and not is_forced:
            return None
        if is_burst:
            self._at_burst = index
        else:
            self._at_regular = index
        return lane.walk.port(index + lane.shift)


class _Lane:
    """Where the flows that began together have their places in a walk.

    A new process cannot know how far ahead of the clock the one before it was: it begins `lead` rounds ahead, and
    may be ahead of that place by as much again.
    """

    __slots__ = ("first", "lead", "round_ns", "shift", "walk")

    def __init__(self, walk: PortWalk, now: int, *, is_apart: bool) -> None:
        self.shift = walk.band.count // 2 if is_apart else 0
        self.walk, self.lead, self.round_ns = walk, walk.band.lead, walk.band.round_ns
        self.first = now // self.round_ns + self.lead


class KnownPorts:
    """The few ports of known flows, in turn: what a network remembers, from several of its hash buckets.

    The turn goes by the clock, so that all sessions of a node that are due together leave by one socket.

    Args:
        ports: shared by all sessions of the node.
        turn_ns: how long a port's turn lasts.
    """

    __slots__ = ("_ports", "_turn", "_turn_ns")

    def __init__(self, ports: range, turn_ns: int) -> None:
        self._ports = ports
        self._turn_ns = turn_ns
        self._turn = -1

    def take(self, now: int, *, is_burst: bool, is_forced: bool = False) -> int | None:  # noqa: ARG002 - no rounds here
        """The port whose turn it is, or the one behind the last: no port comes twice while others wait."""
        self._turn = max(self._turn + 1, now // self._turn_ns)
        return self._ports[self._turn % len(self._ports)]


def _coprime_stride(count: int, seed: int) -> int:
    """A stride near the golden section of the band, so that neighbouring probes hash far apart."""
    stride = max(1, int(count * 0.618) + seed % max(1, count // 8))
    while math.gcd(stride, count) != 1:
        stride += 1
    return stride
