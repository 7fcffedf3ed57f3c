"""What `probe.wan_kbit` and `probe.lan_kbit` leave of the paces of rest, and which detection that is.

Both are about bytes on the wire while nothing is wrong; a pair that is awake is asked at full pace whatever they say.

WAN   All that the nodes of two locations send each other, each way. At rest that hardly depends on their number
      (`probing.intervals`), so what it is follows from the profile and a few facts that all of them know, and each
      comes to the same pace as all others without a word. A node that is configured otherwise changes its own part.
LAN   What one node and its neighbours ask and answer each other, each way: half of it is asked by the node itself.
      What only crosses the location on its way to another one is part of the WAN's.

Hellos of the agents are part of both. They keep their pace (`membership.cadence`), and probes have what they leave of
a limit, half of it at least: where a low limit meets large locations more is sent, and `meshwatchctl status` says how
much. Reckoned are short hellos; while versions are mixed, and after a change, hellos are whole: some 1 050 bytes.

Where a limit is too low for everything, what matters least becomes slower first, up to MOST_STRETCH, then what matters
more: what explains a fault, standbys with full sizes, nodes in turn, scouts.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from meshwatchd.core.membership.cadence import CLOSE, CROWD, DIRECT_NS, cadence_between
from meshwatchd.core.probing.intervals import (
    CONTROL_FACTOR,
    KNOWN_PART,
    MOST_STRETCH,
    NODE_NS,
    POD_NETWORK_NS,
    POD_NETWORK_TCP_NS,
    POD_NETWORK_UDP_NS,
    RELAY_PART,
    SEGMENT_NS,
    STANDBY_NODE_NS,
    RestStretch,
    fit,
    slowness,
)
from meshwatchd.core.probing.session_plan import watched
from meshwatchd.model.ids import LocationName
from meshwatchd.model.settings import SECOND, ProbeSettings
from meshwatchd.model.status import RestStatus
from meshwatchd.model.timers import TIMERS
from meshwatchd.model.topology import Topology

WAN_BYTES, LARGE_WAN_BYTES, WAN_SYN_BYTES, WAN_FULL_BYTES = 286, 328, 120, 1480
"""On the wire, with WireGuard around them: a probe or its answer, one that has the paths of more than one pair of
locations in it, a SYN or a datagram to a closed port, a packet of full size."""

LAN_BYTES, LAN_SYN_BYTES, LAN_FULL_BYTES = 290, 124, 1500
"""On the wire of a location, inside of VXLAN."""

WAN_HELLO_BYTES, LAN_HELLO_BYTES, DIRECT_BYTES = 160, 200, 1050
"""On the wire: a short hello with WireGuard around it, one to a neighbour with 16 nodes that are present in it, and a
whole one outside of the mesh (`wire.short_hello`)."""

RELAYS = 3
"""Of a location, each of which asks the other's leader where it is seen outside of the mesh."""

STANDBYS, SPARES = 3, 1
"""Standby paths of a pair, and those between the two leaders: as many as there can be."""

TURNS, SELDOM_TURNS = 3, 2
"""Kinds of fresh and of known flows that take turns of their own over one path: to its relay, to scouts, to others."""

POD_PROBES = 18.2
"""Sessions among pods that a pair of locations asks in POD_NETWORK_NS: six nodes three each, and what rounding adds."""

FULL_SIZES = 1.54
"""Looks at full size a second between two locations: one over the path in use, the rest from standbys and other nodes
(`pmtu.rest_intervals`)."""

FULL_SIZES_OF_NEIGHBOUR, MOST_SIZED = 0.1, 8
"""A second for each neighbour, and how many neighbours are looked at so (`pmtu.session_plan`)."""

SCOUTS, TURN, STANDBY, EXPLAIN = range(4)
"""Ranks: the last gives first."""

LEAST_NEIGHBOURS = 2


class Shape(NamedTuple):
    """What decides how much is sent at rest, as all nodes of a location know it.

    Attributes:
        families: 2 where nodes have IPv6 addresses beside.
        is_large: there are more than two locations, so packets name more paths.
        neighbours: that one node asks in its location.
        hellos_s: that all nodes of one location send those of another in a second, where there are most.
        greeted: neighbours that one node greets.
    """

    families: int = 1
    is_large: bool = False
    neighbours: int = LEAST_NEIGHBOURS
    hellos_s: float = CLOSE.hellos_s(LEAST_NEIGHBOURS + 1, LEAST_NEIGHBOURS + 1)
    greeted: int = LEAST_NEIGHBOURS


def shape_of(topology: Topology) -> Shape:
    """The shape of a mesh, seen from one of its nodes."""
    mesh, local = topology.mesh, topology.local
    return Shape(
        families=2 if any(node.node_ip6 for node in mesh.nodes) else 1,
        is_large=len(mesh.locations) > 2,
        neighbours=len(watched(mesh, local.name, local.location)),
        hellos_s=_most_hellos_s(Counter(node.location for node in mesh.nodes)),
        greeted=len(mesh.members(local.location)) - 1,
    )


def _most_hellos_s(sizes: Counter[LocationName]) -> float:
    """Of all pairs of locations; those of the same sizes are alike."""
    everybody, alike = sizes.total(), Counter(sizes.values())
    pairs = ((here, there) for here in alike for there in alike if here != there or alike[here] > 1)
    rates = (cadence_between(here, there, everybody).hellos_s(here, there) for here, there in pairs)
    return max(rates, default=0.0)


def rest_stretch(probe: ProbeSettings, shape: Shape = Shape()) -> RestStretch:  # noqa: B008 - frozen
    """How much slower than without limits everything goes at rest."""
    if not probe.wan_kbit and not probe.lan_kbit:
        return RestStretch()
    by_rank = dict.fromkeys(range(EXPLAIN + 1), 1.0)
    if probe.wan_kbit:
        by_rank = fit(_wan_loads(probe, shape), _left(probe.wan_kbit, _wan_hellos_kbit(shape)))
    lan_kbit = _left(probe.lan_kbit, _lan_hellos_kbit(shape))
    segments = max(1.0, _lan_kbit(probe, shape) / lan_kbit) if probe.lan_kbit else 1.0
    # Sums of the same numbers differ by their last bit.
    scouts, turns, standbys, explains = (round(by_rank[rank], 6) for rank in (SCOUTS, TURN, STANDBY, EXPLAIN))
    return RestStretch(scouts, turns, standbys, explains, segments)


def least_wan_kbit(probe: ProbeSettings) -> int:
    """Below this limit scouts too would be slower than MOST_STRETCH allows, with the hellos of three nodes a side."""
    probes_kbit = sum(load for _, load in _wan_loads(probe, Shape(is_large=True)))
    return math.ceil(probes_kbit / MOST_STRETCH + _wan_hellos_kbit(Shape()))


def least_lan_kbit(probe: ProbeSettings) -> int:
    """The same of a location with three nodes."""
    return math.ceil(_lan_kbit(probe, Shape()) / MOST_STRETCH + _lan_hellos_kbit(Shape()))


def describe_rest(probe: ProbeSettings, shape: Shape = Shape()) -> RestStatus:  # noqa: B008 - frozen
    """What is sent at rest, and which detection that is."""
    timers, (slower, seldom) = TIMERS[probe.profile], slowness(probe.profile)
    stretch = rest_stretch(probe, shape)
    factors = {SCOUTS: stretch.scouts, TURN: stretch.turns, STANDBY: stretch.standbys, EXPLAIN: stretch.explains}
    return RestStatus(
        wan_kbit=round(
            sum(load / factors[rank] for rank, load in _wan_loads(probe, shape)) + _wan_hellos_kbit(shape), 1
        ),
        wan_limit_kbit=probe.wan_kbit,
        lan_kbit=round(_lan_kbit(probe, shape) / stretch.segments + _lan_hellos_kbit(shape), 1),
        lan_limit_kbit=probe.lan_kbit,
        scouts_ns=math.ceil(timers.interval_ns * stretch.scouts),
        turn_ns=math.ceil(NODE_NS * slower * stretch.turns),
        standby_ns=math.ceil(timers.watch_ns * RELAY_PART * seldom // slower * stretch.standbys),
        full_size_ns=math.ceil(SECOND * seldom * stretch.standbys),
        neighbour_ns=math.ceil(SEGMENT_NS * stretch.segments),
    )


def _wan_loads(probe: ProbeSettings, shape: Shape) -> list[tuple[int, float]]:
    """(rank, kbit/s each way) of all nodes of two locations, a little more than it is."""
    timers, (slower, seldom) = TIMERS[probe.profile], slowness(probe.profile)
    small = LARGE_WAN_BYTES if shape.is_large else WAN_BYTES
    per_node = SECOND / (STANDBY_NODE_NS * seldom)
    scouts = SECOND / timers.interval_ns * (shape.families + 1 / KNOWN_PART)
    turns = TURNS * SECOND / (NODE_NS * slower) + SELDOM_TURNS * per_node
    standbys = (STANDBYS + SPARES) * (TURNS + SELDOM_TURNS) * per_node
    standbys += 2 * STANDBYS * SECOND * slower / (timers.watch_ns * RELAY_PART * seldom)
    tunnel_ns = SEGMENT_NS * seldom
    standbys += 2 * SECOND * (shape.families / tunnel_ns + 1 / max(tunnel_ns, _known_segment_ns(probe)))
    pods = POD_PROBES * SECOND / (POD_NETWORK_NS * seldom)
    closed = POD_PROBES * _closed_ports(seldom)
    return [
        (SCOUTS, _kbit(scouts, small)),
        (TURN, _kbit(turns, small)),
        (STANDBY, _kbit(standbys, small) + _kbit(FULL_SIZES / seldom, WAN_FULL_BYTES)),
        (EXPLAIN, _kbit(TURNS * per_node + pods, small) + _kbit(closed, WAN_SYN_BYTES)),
    ]


def _left(limit_kbit: int, hellos_kbit: float) -> float:
    """What a limit leaves for probes."""
    return max(limit_kbit - hellos_kbit, limit_kbit / 2)


def _wan_hellos_kbit(shape: Shape) -> float:
    """Each way: hellos inside of the mesh, those of relays and of a few others outside of it, and answers to these."""
    outside = 2 * (RELAYS + CROWD) * SECOND / DIRECT_NS
    return _kbit(shape.hellos_s, WAN_HELLO_BYTES) + _kbit(outside, DIRECT_BYTES)


def _lan_hellos_kbit(shape: Shape) -> float:
    """Each way: as many come from neighbours as go to them."""
    return _kbit(CLOSE.hellos_s(1, shape.greeted), LAN_HELLO_BYTES)


def _lan_kbit(probe: ProbeSettings, shape: Shape) -> float:
    """Each way: the node's own requests and its answers to as many."""
    _, seldom = slowness(probe.profile)
    fresh = 2 * shape.families * SECOND / SEGMENT_NS
    one = _kbit(fresh + SECOND / _known_segment_ns(probe), LAN_BYTES)
    one += _kbit(_closed_ports(seldom), LAN_SYN_BYTES)
    sizes = min(shape.neighbours, MOST_SIZED) * _kbit(FULL_SIZES_OF_NEIGHBOUR / seldom, LAN_FULL_BYTES)
    return 2 * (shape.neighbours * one + sizes)


def _closed_ports(seldom: int) -> float:
    """Questions a second to one node's closed ports, of TCP and of UDP."""
    return SECOND / (POD_NETWORK_TCP_NS * seldom) + SECOND / (POD_NETWORK_UDP_NS * seldom)


def _known_segment_ns(probe: ProbeSettings) -> int:
    return TIMERS[probe.profile].watch_ns * CONTROL_FACTOR * RELAY_PART


def _kbit(packets: float, size: int) -> float:
    return packets * size * 8 / 1000
