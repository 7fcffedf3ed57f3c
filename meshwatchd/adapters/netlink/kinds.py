"""Which tables are mirrored, and how each is dumped: a request for every family."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink import compact, message, objects
from meshwatchd.adapters.netlink.compact import Packed
from meshwatchd.adapters.netlink.tables import Table

FAMILIES: Final = (int(socket.AF_INET), int(socket.AF_INET6))

RULES_V4: Final = bytes((socket.AF_INET, *bytes(11)))
RULES_V6: Final = bytes((socket.AF_INET6, *bytes(11)))
"""struct fib_rule_hdr of linux/fib_rules.h, empty but for the family."""

_IFLA_EXT_MASK = 29
_RTEXT_FILTER_SKIP_STATS = 8
"""Counters are half of a link's message, and nobody's business here."""
ALL_LINKS: Final = objects.LINK.pack(socket.AF_UNSPEC, 0, 0, 0) + message.encode_attribute(
    _IFLA_EXT_MASK, struct.pack("=I", _RTEXT_FILTER_SKIP_STATS)
)


class Kind(NamedTuple):
    """One table, what packs its objects, and its requests: type and body of each."""

    name: str
    table: Table
    pack: Callable[[bytes], Packed | None]
    requests: tuple[tuple[int, bytes], ...]


def describe_kinds(*, links: Table, addresses: Table, routes: Table, neighbours: Table, fdb: Table) -> tuple[Kind, ...]:
    """The kinds in the order in which they are read: names of devices first."""
    ask_links = ((message.RTM_GETLINK, ALL_LINKS),)
    ask_addresses = tuple((message.RTM_GETADDR, objects.ADDRESS.pack(each, 0, 0, 0, 0)) for each in FAMILIES)
    ask_routes = tuple((message.RTM_GETROUTE, compact.ROUTE.pack(each, *bytes(8))) for each in FAMILIES)
    ask_neighbours = tuple((message.RTM_GETNEIGH, compact.NEIGHBOUR.pack(each, 0, 0, 0, 0)) for each in FAMILIES)
    ask_fdb = ((message.RTM_GETNEIGH, compact.NEIGHBOUR.pack(compact.AF_BRIDGE, 0, 0, 0, 0)),)
    return (
        Kind("devices", links, objects.pack_link, ask_links),
        Kind("addresses", addresses, objects.pack_address, ask_addresses),
        Kind("routes", routes, compact.pack_route, ask_routes),
        Kind("neighbours", neighbours, compact.pack_neighbour, ask_neighbours),
        Kind("FDB entries", fdb, compact.pack_fdb, ask_fdb),
    )
