"""How often each kind of session is probed: the profile's pace, within three budgets.

Ports. A fresh session needs a port for each probe and may use one again when the network has forgotten it
(`model.source_ports`): it is probed no faster than the rounds of its walk go by.

Outer flows. VXLAN folds all inner flows between two nodes into the OUTER_PORTS of ip_local_port_range, the same for
both directions, since the kernel hashes addresses and ports in a fixed order (skb_get_hash, vxlan's udp_flow_src_port).
With R fresh flows a second over such a leg and a flow memory M, a share 1 - exp(-R * M / OUTER_PORTS) of fresh probes
rides on remembered outer flows and survives the death of all new ones. R = ln(2) * OUTER_PORTS / M makes that half in
the long run, which the sequential test can bear; RELAY_SHARE of R goes to the sessions of the path in use. What
only dies with everything is seen by the known flows too, which cost no outer flow.

Crowds. While a pair is awake, or its sessions are new, the nodes of two large locations together ask hardly more than
those of two small ones: relays and scouts ask each other at full pace, all others share what SMALL_PAIR sessions send.

Rest. While nothing speaks against a pair of locations it costs the WAN the same however many nodes it has. Its scouts
(`probing.scouts`) watch the path in use for all others, who take turns in the background, which the more nodes have to
share the longer they are. Once anything speaks against the pair (`failover.attention`) every node asks at full pace:
what is known at rest only has to be enough to notice.

Packets. All sessions together send no more than `probe.packets_per_second`. Where they would, those that matter least
are stretched first.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.settings import SECOND, ProbeProfile, ProbeSettings
from meshwatchd.model.source_ports import split_ports
from meshwatchd.model.timers import TIMERS

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

KNOWN_PART = 8
"""Fresh flows of a path in use are asked once in an interval by all its scouts together, known ones once in so many:
fresh ones tell of its death as well, and the first miss of either calls a burst."""

NODE_NS = 1 * SECOND
STANDBY_NODE_NS = 5 * SECOND
"""For each node of two locations, between two background probes of one node over one path: so whatever their number is
one a second leaves over a path in use, and one in five of known flows or over a standby."""

RELAY_PART = 10
"""The two relays of a standby tell each other by its known flows that it works, and segments go as slowly."""

SEGMENT_NS = 4 * SECOND
"""Fresh flows of segments at rest: what goes to another location crosses most of them besides."""

SLOW_NS = 1 * SECOND
"""Segments: what they say matters once a path is suspected, and then a burst asks them."""

CONTROL_FACTOR = 2
"""Known flows of segments only have to be known good before a fault; during one the confirm burst asks them."""

PORT_SLACK = 8
"""Fresh sessions are slower than their rounds by one part in so many, so that a lead gained by retries shrinks."""

SPARE_NS = 5 * SECOND
"""Sessions over a standby link between the two leaders: it is taken last, and becomes an ordinary standby when the mesh
has other leaders."""

POD_NETWORK_NS, POD_NETWORK_TCP_NS, POD_NETWORK_UDP_NS = 7 * SECOND // 2, 10 * SECOND, 30 * SECOND
"""From address to address among pods: what cuts off pods and spares nodes is somebody's configuration, which lasts. The
first miss has all of them watched closely, as those of any segment."""

CLOSED_PORT_NS = 11 * SECOND // 10
"""No faster is a closed port asked: the kernel tells one host so once a second, and six times at once
(Documentation/networking/ip-sysctl.rst, icmp_ratelimit). A tenth is left for others who ask from the same host."""

POD_NETWORK_NODES = 6
"""Up to so many nodes of two locations each have a turn in these times; in larger meshes it takes longer."""

SLOW_LINE_PART = 2
"""On a slow line everything but the path in use is asked so much less often again than the profile's pace says."""

SMALL_LOCATION = 6
"""So many nodes ask their neighbours closely at full pace."""

SMALL_PAIR = 2 * SMALL_LOCATION**2
"""Sessions of one class over one path between two small locations, both ways: so many all ask at full pace."""

UNWELL_NS = 3 * SECOND
"""The slowest pace of what is not known good: links come up late, and what was repaired is to be known before it is
needed. Sessions in health may rest for a minute."""

MOST_STRETCH = 10
"""A class of sessions becomes that much slower before the next one has to give."""


class Kind(NamedTuple):
    """What sessions must have in common to be asked in turn.

    Attributes:
        share: fresh sessions whose probes cross one overlay leg, both ways; 0 without an overlay in between.
        rest_share: the same of scouts alone.
        is_relay: they lead to the far relay of their path, unless they are interleaved.
        is_advisory: they move no traffic.
        is_spare: their path is the last that is taken.
        crowd: nodes of the two locations together; 0 where sessions are not between locations.
        crowd_part: how much slower they are asked, while their pair is awake or they are new, than in a small pair.
        scouts: sessions between scouts of the two, of one class over one path; 0 where these are none of them.
        followed: scouts of the other location whose requests tell when these are due, each with how many places after;
            None where chance does.
        is_between_relays: asked by a relay of their path, about the other one.
        interval_ns: of each session, where somebody asked for one; 0 leaves it to the budgets.
        used_ns: likewise while their path carries traffic.
        is_closed_port: the kernel of whoever is asked says that the port is closed, and does so seldom.
    """

    layer: Layer
    path: int
    flow: FlowClass
    share: int = 0
    rest_share: int = 0
    is_relay: bool = False
    is_advisory: bool = False
    is_spare: bool = False
    interval_ns: int = 0
    used_ns: int = 0
    crowd: int = 0
    crowd_part: int = 1
    scouts: int = 0
    followed: tuple[tuple[NodeName, int], ...] | None = None
    is_between_relays: bool = False
    is_closed_port: bool = False

    @property
    def is_carrier(self) -> bool:
        """Whether they ask what carries a path: the leaders' tunnel, or each other's hosts where there is none."""
        return self.layer is Layer.WIREGUARD or (self.layer is Layer.UNDERLAY and self.crowd > 0)

    @property
    def place(self) -> Kind:
        """What makes a round the same while the mesh around it changes: all but how crowded its leg is."""
        return self._replace(share=0, rest_share=0)


class Rate(NamedTuple):
    """One kind of sessions and how often each of them is probed.

    Attributes:
        stretch: how much slower than without the packet budget; 1 while it is kept.
    """

    kind: Kind
    sessions: int
    interval_ns: int
    stretch: float


class RestStretch(NamedTuple):
    """How much slower everything goes at rest for the sake of `probe.wan_kbit` and `probe.lan_kbit`; 1 without them.

    Attributes:
        scouts: between scouts over the path in use.
        turns: all other nodes over it.
        standbys: other paths, the tunnel of the leaders, and packets of full size.
        explains: what moves no traffic.
        segments: neighbours.
    """

    scouts: float = 1.0
    turns: float = 1.0
    standbys: float = 1.0
    explains: float = 1.0
    segments: float = 1.0


class Rates:
    """Turns kinds of sessions into intervals.

    Attributes:
        rest: what limits of bytes leave of the paces of rest.
        slowdown: by how much fewer packets are sent than there would be; those that matter least give first.
    """

    def __init__(self, probe: ProbeSettings) -> None:
        self.timers = TIMERS[probe.profile]
        self.slowdown = 1.0
        self.rest = RestStretch()
        self._budget = probe.packets_per_second
        round_ns = split_ports(probe)[0].round_ns
        self._fresh_ns = max(self.timers.interval_ns, round_ns + round_ns // PORT_SLACK)
        flows_per_second = -math.log(1 - REMEMBERED) * OUTER_PORTS * SECOND / probe.flow_memory
        self._flow_gap_ns = int(SECOND / (RELAY_SHARE * flows_per_second))
        self._slower, self._seldom = slowness(probe.profile)

    def plan(self, demand: Sequence[tuple[Kind, int]], used: frozenset[int], awake: Container[int] = ()) -> list[Rate]:
        """The rate of each kind of sessions, in the order of `demand`."""
        wished = [self._wished_ns(kind, count, used, awake) for kind, count in demand]
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

    def close_ns(self, sessions: int, crowd_part: int = 1) -> int:
        """The interval of sessions that are to be known soon, were all of them watched that closely."""
        shared_ns = max(self.timers.watch_ns, min(self.timers.watch_ns * crowd_part, UNWELL_NS))
        return int(max(shared_ns, sessions * SECOND // self._budget) * self.slowdown)

    def _wished_ns(self, kind: Kind, count: int, used: frozenset[int], awake: Container[int]) -> int:
        """The interval without the packet budget."""
        if kind.interval_ns:
            return kind.interval_ns
        if kind.layer is Layer.POD_NETWORK:
            return math.ceil(self._pods_ns(kind) * self.rest.explains)
        is_used = _is_used(kind, used)
        if is_used and kind.used_ns:
            return max(self._fresh_ns, kind.used_ns)
        if kind.path in awake:
            return self._awake_ns(kind, is_used=is_used)
        if is_used and kind.scouts:
            return math.ceil(self._scout_ns(kind) * self.rest.scouts)
        rest_ns = self._background_ns(kind, count, is_used=is_used) if kind.crowd else self._segment_ns(kind)
        return max(math.ceil(rest_ns * self._stretch(kind, is_used=is_used)), self._awake_ns(kind, is_used=is_used))

    def _stretch(self, kind: Kind, *, is_used: bool) -> float:
        """Of sessions at rest that are not between scouts."""
        if not kind.crowd:
            return 1.0 if kind.layer is Layer.SELF else self.rest.segments
        if is_used:
            return self.rest.turns
        return self.rest.explains if kind.layer is Layer.EFFECTIVE or kind.is_advisory else self.rest.standbys

    def _awake_ns(self, kind: Kind, *, is_used: bool) -> int:
        """Of sessions whose pair is looked at by everybody."""
        watch_ns, fresh_ns = self.timers.watch_ns * kind.crowd_part, self._fresh_ns * kind.crowd_part
        if kind.is_spare and not is_used:
            return SPARE_NS * kind.crowd_part
        if kind.flow is FlowClass.PINNED:
            if is_used:
                return watch_ns
            return watch_ns if kind.layer is Layer.RELAY else watch_ns * CONTROL_FACTOR
        if kind.is_carrier and not kind.is_advisory:
            return fresh_ns
        if is_used:
            return max(fresh_ns, kind.share * self._flow_gap_ns)
        part = EFFECTIVE_PART if kind.layer is Layer.EFFECTIVE or kind.is_advisory else STANDBY_PART
        return max(SLOW_NS * kind.crowd_part, fresh_ns, part * kind.share * self._flow_gap_ns)

    def _scout_ns(self, kind: Kind) -> int:
        """Of sessions between scouts over the path in use."""
        interval_ns = self.timers.interval_ns
        if kind.flow is FlowClass.PINNED:
            return interval_ns * KNOWN_PART * kind.scouts
        return max(self._fresh_ns, kind.rest_share * self._flow_gap_ns, interval_ns * kind.scouts)

    def _segment_ns(self, kind: Kind) -> int:
        """Of sessions inside of the location."""
        if kind.flow is FlowClass.PINNED:
            return self.timers.watch_ns * CONTROL_FACTOR * RELAY_PART
        return SEGMENT_NS

    def _background_ns(self, kind: Kind, count: int, *, is_used: bool) -> int:
        """Of sessions that are not between scouts: all nodes of a pair take turns."""
        if kind.is_carrier:
            # Of clusters every node asks: the more there are the less often each, so that all together cost the same.
            turns = max(1, kind.crowd // 2) if kind.layer is Layer.UNDERLAY else 1
            return max(self._segment_ns(kind), self._seldom * SEGMENT_NS) * turns
        if kind.is_between_relays and kind.flow is FlowClass.PINNED and not (is_used or kind.is_spare):
            # The profile's own pace is in `watch_ns`.
            return self.timers.watch_ns * RELAY_PART * self._seldom // self._slower
        if not is_used or kind.flow is FlowClass.PINNED:
            return count * kind.crowd * self._seldom * STANDBY_NODE_NS
        return count * kind.crowd * self._slower * NODE_NS

    def _pods_ns(self, kind: Kind) -> int:
        """As many seconds longer as there are nodes that share them."""
        turns = max(1, kind.crowd // POD_NETWORK_NODES)
        if kind.is_closed_port:
            return turns * self._seldom * POD_NETWORK_UDP_NS
        return turns * self._seldom * (POD_NETWORK_NS if kind.flow is FlowClass.PINNED else POD_NETWORK_TCP_NS)


def slowness(profile: ProbeProfile) -> tuple[int, int]:
    """How much slower than the default a profile asks in the background: over the path in use, and all else."""
    slower = max(1, TIMERS[profile].interval_ns // TIMERS[ProbeProfile.DEFAULT].interval_ns)
    return slower, slower * (SLOW_LINE_PART if slower > 1 else 1)


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
    if kind.is_carrier:
        return 0
    if kind.layer is Layer.RELAY:
        return (0 if kind.is_relay else 1) if kind.path in used else 2
    return 3


def _is_used(kind: Kind, used: frozenset[int]) -> bool:
    return kind.layer is Layer.RELAY and kind.path in used and not kind.is_advisory
