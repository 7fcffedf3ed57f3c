"""What can be asked about where packets die: parameters, reply, and their part of the interface's description."""

from __future__ import annotations

import msgspec

from meshwatchd.model.bisection import BisectResult


class BisectParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Bisect."""

    node: str


class BisectReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Bisect."""

    result: BisectResult


BISECTION = """\

# Probes of one series and how far they came; null where nothing tapped.
# Series: underlay, kernel, injected, crafted, framed.
type Series (
  name: string,
  sent: int,
  at_overlay: ?int,
  at_lower: ?int,
  back_at_lower: ?int,
  back_at_overlay: ?int,
  echoed: int,
  errors: []string
)

# What the peer's taps saw of a series: requests coming in, answers going out.
type PeerSeries (
  name: string,
  at_lower: ?int,
  at_overlay: ?int,
  answers_at_overlay: ?int,
  answers_at_lower: ?int
)

type KnownFlows (sent: int, answered: int)

# What the kernel would do with a packet to the peer, in words.
type Tables (
  route: string,
  neighbour: string,
  forwarding: string,
  underlay_route: string,
  underlay_neighbour: string
)

type Tap (device: string, packets: int, dropped: int, unfinished: int)

type DeviceCounters (
  device: string,
  tx_packets: int,
  tx_dropped: int,
  tx_errors: int,
  tx_carrier_errors: int,
  qdisc_dropped: int
)

# Where packets to a node die, and why we say so. Candidates: every place the evidence allows, `place` first.
type Bisection (
  node: string,
  peer: string,
  via: string,
  at_ns: int,
  duration_ns: int,
  place: string,
  candidates: []string,
  direction: string,
  flows: string,
  because: []string,
  series: []Series,
  known_flows: KnownFlows,
  tables: Tables,
  taps: []Tap,
  counters: []DeviceCounters,
  peer_counts: []PeerSeries,
  is_two_sided: bool
)

# Find out where packets to a node die: taps and some forty crafted packets, for a second or two. Root only.
method Bisect(node: string) -> (result: Bisection)
"""
