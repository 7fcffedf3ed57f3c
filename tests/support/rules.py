"""Rules of other programs as bytes of RTM_NEWRULE, and tables of their routes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network

from meshwatchd.adapters.netlink import compact
from meshwatchd.adapters.netlink.message import encode_attribute
from meshwatchd.adapters.netlink.tables import Table, apply_to_routes

LOOKUP = 1
UNICAST, THROW = 1, 9


def rule_body(
    priority: int,
    table: int,
    *,
    action: int = LOOKUP,
    to: str = "",
    iif: str = "",
    mark: int = 0,
    mask: int | None = None,
    suppress: int | None = None,
    protocol: int = 0,
    flags: int = 0,
    extra: bytes = b"",
) -> bytes:
    """Everything behind the netlink header, as a dump has it (linux/fib_rules.h)."""
    network = IPv4Network(to) if to else None
    small = table if table < 256 else 0
    body = struct.pack("=BBBBB2xBI", socket.AF_INET, network.prefixlen if network else 0, 0, 0, small, action, flags)
    values = {6: priority, 15: table, 14: 0xFFFF_FFFF if suppress is None else suppress}
    if mark or mask is not None:
        values |= {10: mark, 16: 0xFFFF_FFFF if mask is None else mask}
    body += b"".join(encode_attribute(kind, struct.pack("=I", value)) for kind, value in values.items())
    body += encode_attribute(1, network.network_address.packed) if network else b""
    body += encode_attribute(3, iif.encode() + b"\0") if iif else b""
    return body + encode_attribute(21, bytes((protocol,))) + extra


def routes_table(tables: Mapping[int, Iterable[str]]) -> Table:
    """A mirror's routes; a prefix behind "throw " is one at which the search goes on in the next rule."""
    found = Table(apply_to_routes)
    found.begin()
    for number, prefixes in tables.items():
        for text in prefixes:
            network = IPv4Network(text.removeprefix("throw "))
            kind = THROW if text.startswith("throw ") else UNICAST
            body = compact.ROUTE.pack(socket.AF_INET, network.prefixlen, 0, 0, 0, 3, 0, kind, 0)
            body += encode_attribute(1, network.network_address.packed) if network.prefixlen else b""
            packed = compact.pack_route(body + encode_attribute(15, struct.pack("=I", number)))
            assert packed is not None
            found.add(packed)
    found.finish()
    return found
