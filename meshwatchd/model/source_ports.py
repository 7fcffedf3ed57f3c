"""Which source ports probes use, and how fast they may use them up.

A probe is fresh if its addresses and ports were not used for longer than the network remembers a flow. The usable
ports are therefore split into two bands, one for regular probes and one for confirm bursts, and each band is walked
through by index. The index follows the clock in rounds: a band of `count` ports whose rounds last `round_ns` comes
back to a port after `count` rounds. Bursts and retries may run ahead of the clock by twice `lead`, which is taken off.
"""

from __future__ import annotations

import msgspec

from meshwatchd.model.port_map import reserved_ports
from meshwatchd.model.settings import MS, ProbeSettings
from meshwatchd.model.timers import TIMERS
from meshwatchd.model.units import parse_port_range

BURST_PART = 4
"""One port in so many, the last of the range, belongs to confirm bursts: they must not use up the regular ones."""

ROUND_NS = 50 * MS
BURST_ROUND_NS = 200 * MS
"""Rounds last at least that long, so that sessions share few sockets; a memory that asks for longer ones gets them."""

REGULAR_LEAD = 32
"""Retries on busy ports, and what an earlier process of this node may have been ahead by."""

BURST_LEAD = 256
"""Probes of one session in bursts that follow each other without a pause: ten seconds of doubt."""


class PortBand(msgspec.Struct, frozen=True, kw_only=True):
    """The source ports of one walk.

    Attributes:
        below, above: the ports on either side of the reserved ones.
        round_ns: how long one index lasts.
        lead: half of how far an index may be ahead of the clock.
    """

    below: range
    above: range
    round_ns: int
    lead: int

    @property
    def count(self) -> int:
        """How many ports there are."""
        return len(self.below) + len(self.above)

    @property
    def is_wide_enough(self) -> bool:
        """Whether ports are left when the lead is taken off."""
        return self.count > 2 * self.lead + 1

    def port(self, position: int) -> int:
        """The port at a position in 0..count-1; reserved ones are left out."""
        below = len(self.below)
        return self.below[position] if position < below else self.above[position - below]


def split_ports(probe: ProbeSettings) -> tuple[PortBand, PortBand]:
    """The bands of regular probes and of confirm bursts.

    Raises:
        ValueError: `probe.source_ports` or `probe.flow_memory` cannot be read.
    """
    first, last = parse_port_range(probe.source_ports)
    reserved = reserved_ports(probe.port)
    below = range(first, max(first, min(last + 1, reserved.start)))
    above = range(max(first, reserved.stop), last + 1)
    count = len(below) + len(above)
    cut = count - count // BURST_PART
    memory_ns = probe.flow_memory
    positions = range(count)
    shortest_ns = min(ROUND_NS, TIMERS[probe.profile].interval_ns)
    return (
        _band((below, above), positions[:cut], REGULAR_LEAD, max(shortest_ns, _round_ns(cut, REGULAR_LEAD, memory_ns))),
        _band(
            (below, above),
            positions[cut:],
            BURST_LEAD,
            max(BURST_ROUND_NS, _round_ns(count - cut, BURST_LEAD, memory_ns)),
        ),
    )


def _round_ns(count: int, lead: int, memory_ns: int) -> int:
    """The shortest round that brings a port back no earlier than the memory lasts."""
    return -(-memory_ns // max(1, count - 2 * lead - 1))


def _band(usable: tuple[range, range], taken: range, lead: int, round_ns: int) -> PortBand:
    """The usable ports at the positions `taken`."""
    below, above = usable
    first, last = (max(0, position - len(below)) for position in (taken.start, taken.stop))
    return PortBand(below=below[taken.start : taken.stop], above=above[first:last], round_ns=round_ns, lead=lead)
