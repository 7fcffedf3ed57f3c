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
MAX_DEAD_ENDS: Final = 256
"""A blackhole for each of so many nodes' pods."""

DEAD_ENDS: Final = {6: "blackhole", 7: "unreachable", 8: "prohibit", 9: "throw"}
"""linux/rtnetlink.h, RTN_*: routes that lead nowhere."""

RT_TABLE_MAIN: Final = 254
RTPROT_STATIC: Final = 4
"""linux/rtnetlink.h."""

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
        gateways: of all routes into the mesh's devices and of those that Kilo may have made into others, the most
            frequent first.
        dead_ends: IPv4 routes of the main table at which packets end.
    """

    near: list[Held]
    of_mesh: list[Held]
    defaults: list[Held]
    gateways: list[GatewayCount]
    dead_ends: list[Held]


def choose(entries: Entries, devices: frozenset[int], is_near: Callable[[bytes, bytes], bool]) -> Chosen:
    """Go through all routes once; `is_near` tells whether one is ours or in our place."""
    near: list[Held] = []
    hosts: list[Held] = []
    others: list[Held] = []
    defaults: list[Held] = []
    dead_ends: list[Held] = []
    counts: Counter[tuple[int, bytes, int, int]] = Counter()
    for key, values in entries.items():
        for value in values:
            if is_near(key, value):
                near.append((key, value))
            elif value[0] == RTN_UNICAST:
                index, gateway = compact.first_hop(value)
                if index in devices or (compact.is_multipath(value) and compact.leads_into(value, devices)):
                    (hosts if _is_host(key) else others).append((key, value))
                    counts[index, gateway, compact.table_of(key), compact.protocol_of(value)] += 1
                elif is_kilos(key, value):
                    counts[index, gateway, RT_TABLE_MAIN, RTPROT_STATIC] += 1
                if index and is_default(key):
                    defaults.append((key, value))
            elif is_dead_end(key, value):
                dead_ends.append((key, value))
    return Chosen(
        near=near,
        of_mesh=_fairly(hosts, others),
        # By family, table and metric; of these numbers the bytes of a key have the smallest part first.
        defaults=heapq.nsmallest(MAX_DEFAULTS, defaults, key=lambda held: compact.unpack_route(*held)[:5]),
        gateways=list(_rank(counts)),
        dead_ends=heapq.nsmallest(MAX_DEAD_ENDS, dead_ends),
    )


def is_dead_end(key: bytes, value: bytes) -> bool:
    """Whether packets that follow an IPv4 route of the main table end at it."""
    is_main = compact.family_of(key) == socket.AF_INET and compact.table_of(key) == RT_TABLE_MAIN
    return value[0] in DEAD_ENDS and is_main


def is_kilos(key: bytes, value: bytes) -> bool:
    """Whether a route may be Kilo's: where it does not encapsulate, its routes lead into the network card.

    Clouds give machines a default route of the same form.
    """
    is_static = compact.protocol_of(value) == RTPROT_STATIC and compact.table_of(key) == RT_TABLE_MAIN
    return is_static and compact.length_of(key) > 0 and compact.is_onlink(value)


def _rank(counts: Counter[tuple[int, bytes, int, int]]) -> Iterator[GatewayCount]:
    """The most frequent gateways; flannel has thousands of one route each."""
    often = {key: routes for key, routes in counts.items() if routes > 1}
    if len(often) < MAX_GATEWAYS:
        rare = sorted(key for key, routes in counts.items() if routes == 1)
        often |= dict.fromkeys(rare[: MAX_GATEWAYS - len(often)], 1)
    for key, routes in heapq.nsmallest(MAX_GATEWAYS, often.items(), key=lambda item: (-item[1], item[0])):
        yield GatewayCount(*key, routes)


def of_mesh(entries: Entries, devices: frozenset[int], is_near: Callable[[bytes, bytes], bool]) -> Iterator[Held]:
    """All routes into the mesh's devices that are neither ours nor in our place, however many."""
    for key, values in entries.items():
        for value in values:
            if not is_near(key, value) and value[0] == RTN_UNICAST and compact.leads_into(value, devices):
                yield key, value


def is_default(key: bytes) -> bool:
    """Whether a route is a default route of the main table."""
    return compact.length_of(key) == 0 and compact.table_of(key) == RT_TABLE_MAIN


def _fairly(hosts: list[Held], others: list[Held]) -> list[Held]:
    """At most one more than MAX_ROUTES, half of them to single addresses where there are as many.

    Routes to single addresses name nodes, the others their pods; by key alone, one kind would crowd the other out.
    """
    first, second = heapq.nsmallest(MAX_ROUTES + 1, hosts), heapq.nsmallest(MAX_ROUTES + 1, others)
    first = first[: max(MAX_ROUTES // 2, MAX_ROUTES + 1 - len(second))]
    return sorted(first + second[: MAX_ROUTES + 1 - len(first)])


def _is_host(key: bytes) -> bool:
    return compact.length_of(key) == (32 if compact.family_of(key) == socket.AF_INET else 128)
