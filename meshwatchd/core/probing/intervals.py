"""How often each kind of session is probed: the profile's pace, within three budgets.

Ports. A fresh session needs a port for each probe and may use one again when the network has forgotten it
(`model.source_ports`): it is probed no faster than the rounds of its walk go by.

Outer flows. VXLAN folds all inner flows between two nodes into the OUTER_PORTS of ip_local_port_range, the same for
both directions, since the kernel hashes addresses and ports in a fixed order (skb_get_hash, vxlan's udp_flow_src_port).
With R fresh flows a second over such a leg and a flow memory M, a share 1 - exp(-R * M / OUTER_PORTS) of fresh probes
rides on remembered outer flows and survives the death of all new ones. R = ln(2) * OUTER_PORTS / M makes that half in
the long run, which the sequential test can bear; RELAY_SHARE of R goes to the sessions of the path in use. What
only dies with everything is seen by the known flows, which cost no outer flow and go at the profile's pace.

Packets. All sessions together send no more than `probe.packets_per_second`. Where they would, those that matter least
are stretched first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import SECOND, TIMERS, ProbeSettings
from meshwatchd.model.source_ports import split_ports

OUTER_PORTS = 28_232
"""Outer source ports of VXLAN: 32768 to 60999, the default of ip_local_port_range (udp_flow_src_port)."""

REMEMBERED = 0.5
"""The share of fresh probes that may ride on remembered outer flows; the detector's arm HALF counts on it."""

RELAY_SHARE = 0.8
"""Of the outer flows of a leg, for sessions of the path in use."""

STANDBY_PART = 8
"""A standby's fresh sessions go that much slower: it is asked by a burst before it is used."""

EFFECTIVE_PART = 16
"""Slower still: what follows real traffic is asked after a move, and tells nothing else."""

SLOW_NS = 1 * SECOND
"""Segments in rest: what they say matters once a path is suspected, and then a burst asks them."""

CONTROL_FACTOR = 2
"""Known flows of segments only have to be known good before a fault; during one the confirm burst asks them."""

PORT_SLACK = 8
"""Fresh sessions are slower than their rounds by one part in so many, so that a lead gained by retries shrinks."""

SPARE_NS = 5 * SECOND
"""Sessions over a standby link between the two leaders: it is taken last, and becomes an ordinary standby when the mesh
has other leaders."""

POD_NETWORK_NS, POD_NETWORK_TCP_NS = 2 * SECOND, 10 * SECOND
"""From address to address among pods: what cuts off pods and spares nodes is somebody's configuration, which lasts. The
first miss has all of them watched closely, as those of any segment."""

MOST_STRETCH = 10
"""A class of sessions becomes that much slower before the next one has to give."""


class Kind(NamedTuple):
    """What sessions must have in common to be asked in turn.

    Attributes:
        share: fresh sessions whose probes cross one overlay leg, both ways; 0 without an overlay in between.
        is_relay: they lead to the far relay of their path.
        is_advisory: they move no traffic.
        is_spare: their path is the last that is taken.
        interval_ns: of each session, where somebody asked for one; 0 leaves it to the budgets.
    """

    layer: Layer
    path: int
    flow: FlowClass
    share: int = 0
    is_relay: bool = False
    is_advisory: bool = False
    is_spare: bool = False
    interval_ns: int = 0


class Rate(NamedTuple):
    """One kind of sessions and how often each of them is probed.

    Attributes:
        stretch: how much slower than without the packet budget; 1 while it is kept.
    """

    kind: Kind
    sessions: int
    interval_ns: int
    stretch: float


class Rates:
    """Turns kinds of sessions into intervals.

    Attributes:
        slowdown: by how much fewer packets are sent than there would be; those that matter least give first.
    """

    def __init__(self, probe: ProbeSettings) -> None:
        self.timers = TIMERS[probe.profile]
        self.slowdown = 1.0
        self._budget = probe.packets_per_second
        round_ns = split_ports(probe)[0].round_ns
        self._fresh_ns = max(self.timers.interval_ns, round_ns + round_ns // PORT_SLACK)
        flows_per_second = -math.log(1 - REMEMBERED) * OUTER_PORTS * SECOND / probe.flow_memory
        self._flow_gap_ns = int(SECOND / (RELAY_SHARE * flows_per_second))

    def plan(self, demand: Sequence[tuple[Kind, int]], used: frozenset[int]) -> list[Rate]:
        """The rate of each kind.

        Args:
            demand: kinds, and how many sessions are of each.
            used: paths that carry traffic, or are meant to again.

        Returns:
            In the order of `demand`.
        """
        wished = [self._wished_ns(kind, used) for kind, _ in demand]
        ranks = [_rank(kind, used) for kind, _ in demand]
        loads = [count * SECOND / interval_ns for (_, count), interval_ns in zip(demand, wished, strict=True)]
        budget: float = self._budget
        if self.slowdown > 1:
            budget = min(budget, sum(loads)) / self.slowdown
        stretches = fit(zip(ranks, loads, strict=True), budget)
        return [
            Rate(kind, count, math.ceil(interval_ns * stretches[rank]), stretches[rank])
            for (kind, count), interval_ns, rank in zip(demand, wished, ranks, strict=True)
        ]

    def close_ns(self, sessions: int) -> int:
        """The interval of sessions that are to be known soon, were all of them watched that closely."""
        return int(max(self.timers.watch_ns, sessions * SECOND // self._budget) * self.slowdown)

    def _wished_ns(self, kind: Kind, used: frozenset[int]) -> int:
        """The interval without the packet budget."""
        if kind.interval_ns:
            return kind.interval_ns
        if kind.layer is Layer.POD_NETWORK:
            return POD_NETWORK_NS if kind.flow is FlowClass.PINNED else POD_NETWORK_TCP_NS
        timers, is_used = self.timers, _is_used(kind, used)
        if kind.is_spare and not is_used:
            return SPARE_NS
        if kind.flow is FlowClass.PINNED:
            if is_used:
                return timers.interval_ns
            return timers.watch_ns if kind.layer is Layer.RELAY else timers.watch_ns * CONTROL_FACTOR
        if kind.layer is Layer.WIREGUARD and not kind.is_advisory:
            return self._fresh_ns
        if is_used:
            return max(self._fresh_ns, kind.share * self._flow_gap_ns)
        part = EFFECTIVE_PART if kind.layer is Layer.EFFECTIVE or kind.is_advisory else STANDBY_PART
        return max(SLOW_NS, self._fresh_ns, part * kind.share * self._flow_gap_ns)


def fit(loads: Iterable[tuple[int, float]], budget: float) -> dict[int, float]:
    """How much slower each rank of sessions must be for all to keep within a budget.

    Args:
        loads: (rank, packets a second); the highest rank gives first, up to MOST_STRETCH, rank 0 last.
        budget: packets a second in all.

    Returns:
        A factor of at least 1 for each rank; where all ranks at MOST_STRETCH are too fast still, all give evenly.
    """
    wanted: dict[int, float] = {}
    for rank, load in loads:
        wanted[rank] = wanted.get(rank, 0.0) + load
    if not wanted:
        # An engine may be overloaded before it has sessions, and then a part of nothing is its budget.
        return {}
    granted = dict(wanted)
    for rank in sorted(wanted, reverse=True):
        excess = sum(granted.values()) - budget
        if excess > 0:
            granted[rank] = max(wanted[rank] - excess, wanted[rank] / MOST_STRETCH)
    scale = max(1.0, sum(granted.values()) / budget)
    return {rank: scale * load / granted[rank] for rank, load in wanted.items()}


def _rank(kind: Kind, used: frozenset[int]) -> int:
    """What gives last comes first: relays of the path in use and the leaders' tunnel, the path in use, standbys."""
    if kind.is_advisory:
        return 3
    if kind.layer is Layer.WIREGUARD:
        return 0
    if kind.layer is Layer.RELAY:
        return (0 if kind.is_relay else 1) if kind.path in used else 2
    return 3


def _is_used(kind: Kind, used: frozenset[int]) -> bool:
    return kind.layer is Layer.RELAY and kind.path in used and not kind.is_advisory
