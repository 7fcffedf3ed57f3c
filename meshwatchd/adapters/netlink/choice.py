"""Which of many routes are told: a bounded number, chosen so that what they mean survives the bound."""

from __future__ import annotations

import heapq
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink import compact
from meshwatchd.adapters.netlink.decode import RTN_UNICAST
from meshwatchd.adapters.netlink.tables import Entries

MAX_ROUTES: Final = 256
"""A location has tens of nodes, and 256 routes are read in half a millisecond."""

MAX_GATEWAYS: Final = 64
MAX_DEFAULTS: Final = 8

RT_TABLE_MAIN: Final = 254

Held = tuple[bytes, bytes]
"""A route's key, and one of its values."""


class GatewayCount(NamedTuple):
    """How many routes into a device of the mesh lead to one gateway; the gateway is 4 or 16 bytes, or none."""

    ifindex: int
    gateway: bytes
    table: int
    protocol: int
    routes: int


class Chosen(NamedTuple):
    """Routes that are told.

    Attributes:
        near: those that are ours or in our place, all of them.
        of_mesh: into the mesh's devices: at most one more than MAX_ROUTES, so that it shows if some were left out.
        defaults: default routes of the main table.
        gateways: of all routes into the mesh's devices, the most frequent first.
    """

    near: list[Held]
    of_mesh: list[Held]
    defaults: list[Held]
    gateways: list[GatewayCount]


def choose(entries: Entries, devices: frozenset[int], is_near: Callable[[bytes, bytes], bool]) -> Chosen:
    """Go through all routes once.

    Args:
        entries: every route of the kernel.
        devices: indices of the mesh's devices.
        is_near: tells whether a route is ours or in our place.
    """
    near: list[Held] = []
    of_mesh: list[Held] = []
    defaults: list[Held] = []
    counts: Counter[tuple[int, bytes, int, int]] = Counter()
    for key, values in entries.items():
        for value in values:
            if is_near(key, value):
                near.append((key, value))
            elif value[0] == RTN_UNICAST and compact.leads_into(value, devices):
                of_mesh.append((key, value))
                index, gateway = compact.first_hop(value)
                counts[index, gateway, compact.table_of(key), compact.protocol_of(value)] += 1
            if is_default(key) and value[0] == RTN_UNICAST and compact.first_hop(value)[0]:
                defaults.append((key, value))
    ranked = heapq.nsmallest(MAX_GATEWAYS, counts.items(), key=lambda item: (-item[1], item[0]))
    return Chosen(
        near=near,
        of_mesh=_fairly(of_mesh),
        defaults=heapq.nsmallest(MAX_DEFAULTS, defaults),
        gateways=[GatewayCount(*key, routes) for key, routes in ranked],
    )


def of_mesh(entries: Entries, devices: frozenset[int], is_near: Callable[[bytes, bytes], bool]) -> Iterator[Held]:
    """All routes into the mesh's devices that are neither ours nor in our place, however many."""
    for key, values in entries.items():
        for value in values:
            if not is_near(key, value) and value[0] == RTN_UNICAST and compact.leads_into(value, devices):
                yield key, value


def is_default(key: bytes) -> bool:
    """Whether a route is a default route of the main table."""
    return compact.length_of(key) == 0 and compact.table_of(key) == RT_TABLE_MAIN


def _fairly(routes: list[Held]) -> list[Held]:
    """At most one more than MAX_ROUTES, half of them to single addresses where there are as many.

    Routes to single addresses name nodes, the others their pods; by key alone, one kind would crowd the other out.
    """
    hosts = heapq.nsmallest(MAX_ROUTES + 1, (held for held in routes if _is_host(held[0])))
    others = heapq.nsmallest(MAX_ROUTES + 1, (held for held in routes if not _is_host(held[0])))
    room_for_hosts = max(MAX_ROUTES // 2, MAX_ROUTES + 1 - len(others))
    hosts = hosts[:room_for_hosts]
    return sorted(hosts + others[: MAX_ROUTES + 1 - len(hosts)])


def _is_host(key: bytes) -> bool:
    return compact.length_of(key) == (32 if compact.family_of(key) == socket.AF_INET else 128)
