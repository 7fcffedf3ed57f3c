"""What a bisection measures and concludes: where exactly packets to one peer die.

One run sends several *series* of probes, each around another part of the local stack, and counts at every tap how many
of each were seen. `bisect.matrix` turns the counts and the state of the kernel's tables into a place.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from meshwatchd.model.faults import Direction
from meshwatchd.model.ids import NodeName
from meshwatchd.model.setting_types import Duration
from meshwatchd.model.units import DAY, MINUTE, SECOND


class BisectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs that tell where exactly packets die: `meshwatchctl bisect NODE`, and by itself when an overlay is blamed.

    A run sends some forty packets to one node and watches two devices for a second or two. It changes nothing.

    Attributes:
        on_verdict: run when a verdict names an overlay layer of this node's location.
        pause: between two runs that nobody asked for.
        timeout: the longest that a run may take, loading included.
    """

    on_verdict: bool = True
    pause: Annotated[Duration, Meta(ge=SECOND, le=DAY)] = MINUTE
    timeout: Annotated[Duration, Meta(ge=SECOND, le=30 * SECOND)] = 3 * SECOND


class Place(StrEnum):
    """Where packets die, in the order in which a packet meets the places; `local` is the node that bisects."""

    NOWHERE = "nowhere"
    LOCAL_ROUTE = "local-route"
    LOCAL_NEIGHBOUR = "local-neighbour"
    LOCAL_FILTER = "local-filter"
    LOCAL_FDB = "local-fdb"
    OVERLAY_DEVICE = "overlay-device"
    UNDERLAY_ROUTE = "underlay-route"
    LOCAL_NETFILTER = "local-netfilter"
    UNDERLAY_ARP = "underlay-arp"
    LOCAL_QDISC = "local-qdisc"
    NIC = "nic"
    WIRE = "wire"
    PEER_INGRESS = "peer-ingress"
    PEER_OVERLAY = "peer-overlay"
    PEER_EGRESS = "peer-egress"
    LOCAL_INGRESS = "local-ingress"
    UNKNOWN = "unknown"


class Flows(StrEnum):
    """Which flows die; `some` are new ones, where nothing tells of those that the network remembers."""

    NONE = "none"
    NEW = "new"
    ALL = "all"
    SOME = "some"


class SeriesName(StrEnum):
    """How the probes of a series enter the stack.

    UNDERLAY    UDP to the peer's node address: no overlay at all
    KERNEL      UDP to the peer's overlay address: routes, neighbour, overlay device, as real traffic
    INJECTED    frames put into the overlay device: no route, no neighbour
    CRAFTED     complete outer packets, VXLAN or IPIP, in a raw IP socket: no overlay device
    FRAMED      the same, put on the lower device as frames: no routing, no netfilter, no ARP
    """

    UNDERLAY = "underlay"
    KERNEL = "kernel"
    INJECTED = "injected"
    CRAFTED = "crafted"
    FRAMED = "framed"


class SeriesCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How far the probes of one series came; counts of probes, not of packets.

    Attributes:
        at_overlay, at_lower: seen leaving by the overlay device and by the device below it; None where nothing tapped.
        back_at_lower, back_at_overlay: whose answers were seen coming in.
        echoed: whose answers were read by us.
        errors: what the kernel said to sends, as "ENETUNREACH", the distinct ones.
    """

    name: SeriesName
    sent: int
    at_overlay: int | None = None
    at_lower: int | None = None
    back_at_lower: int | None = None
    back_at_overlay: int | None = None
    echoed: int = 0
    errors: tuple[str, ...] = ()


class PeerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What the peer's own taps saw of one series: requests coming in, answers going out; None where nothing tapped."""

    name: SeriesName
    at_lower: int | None = None
    at_overlay: int | None = None
    answers_at_overlay: int | None = None
    answers_at_lower: int | None = None


class KnownFlows(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's probes of known flows to the same peer, as they passed the taps meanwhile."""

    sent: int
    answered: int


class TapReport(msgspec.Struct, frozen=True, kw_only=True):
    """One tap.

    Attributes:
        packets: that passed its filter.
        dropped: lost between filter and reader (PACKET_STATISTICS): a count that is too small is no proof.
        unfinished: packets whose checksum or segmentation is left to the device: their checksums prove nothing.
    """

    device: str
    packets: int
    dropped: int
    unfinished: int = 0


class DeviceCounters(msgspec.Struct, frozen=True, kw_only=True):
    """What a device counted during the run (IFLA_STATS64), and what its queues dropped."""

    device: str
    tx_packets: int
    tx_dropped: int
    tx_errors: int
    tx_carrier_errors: int
    qdisc_dropped: int


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel would do with a packet to the peer, in words for people; empty where it does not apply."""

    route: str = ""
    neighbour: str = ""
    forwarding: str = ""
    underlay_route: str = ""
    underlay_neighbour: str = ""


class BisectResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        at_ns: CLOCK_MONOTONIC at its end.
        via: the node whose overlay carries packets to the peer: the peer, or the own leader.
        place: where packets die; `candidates` has every place that the evidence allows, `place` first.
        direction: which way they die, seen from this node.
        because: one sentence for each piece of evidence.
        is_two_sided: the peer's taps took part.
    """

    node: NodeName
    peer: NodeName
    via: NodeName
    at_ns: int
    duration_ns: int
    place: Place
    candidates: tuple[Place, ...]
    direction: Direction
    flows: Flows
    because: tuple[str, ...]
    series: tuple[SeriesCounts, ...]
    known_flows: KnownFlows
    tables: Tables
    taps: tuple[TapReport, ...] = ()
    counters: tuple[DeviceCounters, ...] = ()
    peer_counts: tuple[PeerCounts, ...] = ()
    is_two_sided: bool = False
