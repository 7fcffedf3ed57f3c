"""Which UDP port serves what. All of them are counted from `probe.port`; nothing else adds to it or takes from it.

    offset    destination of                              source of
    -2        requests for taps (`wire.tap_request`)      their answers
    -1        hellos (`wire.hello`)                       hellos
    0         segment probes: one layer, one neighbour
    1         probes that follow real traffic
    2..63     probes of paths 0..61
    64..71                                                probes of known flows
    72..489   probes of paths 62..479
    490..492  probes of detours (`model.detour`)
    493       questions past every rule of ours            any (`wire.way_question`)
    494       questions through a neighbour                any
    510..511                                              size probes, whole and in fragments

Standby links listen on ports of their own, from `standby.port` on, one for each link of this node's location.
"""

from __future__ import annotations

from typing import Final

TAP_OFFSET: Final = -2
HELLO_OFFSET: Final = -1
ROUTED_OFFSET: Final = 1
_PATHS_OFFSET: Final = 2

KNOWN_FLOWS_OFFSET: Final = 64
KNOWN_FLOWS: Final = 8
"""Source ports of known flows: enough that a quarter of a network's hash buckets cannot miss all of them."""

_DIRECT_OFFSET: Final = 493
_RELAYED_OFFSET: Final = 494

_SIZES_OFFSET: Final = 510

RESERVED_PORTS: Final = 512
"""Ports from probe.port on that fresh flows never use as their source: reflectors and known flows have them."""

PORTS_BELOW: Final = -TAP_OFFSET
"""How many ports of ours lie below probe.port."""

TAPPED_PORTS: Final = 64
"""Ports from probe.port on whose probes a tap counts: segments, real traffic, and paths below the known flows."""

STRANGE_PORT: Final = 33_434
"""Nobody's: the kernel of whoever is asked says that it is closed. The first that traceroute asks. It is not ours, so
that a filter which knows the daemon's ports and drops all others drops this one."""

LEAST_PROBE_PORT: Final = 1024 + PORTS_BELOW
MOST_PROBE_PORT: Final = 65_536 - RESERVED_PORTS


def tap_port(probe_port: int) -> int:
    """Where a node listens for requests to count what passes its devices."""
    return probe_port + TAP_OFFSET


def hello_port(probe_port: int) -> int:
    """Where daemons greet each other, and the port they greet from."""
    return probe_port + HELLO_OFFSET


def routed_port(probe_port: int) -> int:
    """Where probes arrive that are routed as real traffic is."""
    return probe_port + ROUTED_OFFSET


def path_port(probe_port: int, path: int) -> int:
    """Where the reflectors of a path listen; the port selects the path at every hop."""
    offset = _PATHS_OFFSET + path
    return probe_port + (offset if offset < KNOWN_FLOWS_OFFSET else offset + KNOWN_FLOWS)


def known_flow_ports(probe_port: int) -> range:
    """The source ports that probes of known flows cycle over."""
    first = probe_port + KNOWN_FLOWS_OFFSET
    return range(first, first + KNOWN_FLOWS)


def direct_port(probe_port: int) -> int:
    """Where nodes ask each other whether they are reached, past every rule of ours."""
    return probe_port + _DIRECT_OFFSET


def relayed_port(probe_port: int) -> int:
    """Where they ask it through a neighbour: the port selects the way, of requests and of answers."""
    return probe_port + _RELAYED_OFFSET


def size_source_port(probe_port: int, *, may_fragment: bool) -> int:
    """The source port of size probes. One flow each, which the network remembers: new flows are for others to try."""
    return probe_port + _SIZES_OFFSET + may_fragment


def reserved_ports(probe_port: int) -> range:
    """From probe.port on: no fresh flow leaves by one of them."""
    return range(probe_port, probe_port + RESERVED_PORTS)


def mesh_ports(probe_port: int) -> range:
    """Every port of ours but those of standby links."""
    return range(probe_port - PORTS_BELOW, probe_port + RESERVED_PORTS)
