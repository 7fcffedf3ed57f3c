"""Rules of others: those that take what a failover moves, as `core.routes.placement` asks, and those by destination.

A rule by mark, port, user, protocol, TOS or outgoing device takes only traffic that its owner has singled out, which
that between pods is not. A rule that is inverted takes all the rest. Source: linux/fib_rules.h.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from meshwatchd.adapters.netlink import compact, fibrule
from meshwatchd.adapters.netlink.message import attributes
from meshwatchd.adapters.netlink.rules import describe_rule, priority_and_protocol
from meshwatchd.adapters.netlink.tables import Entries
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.rule_window import ForeignRule, Prefix
from meshwatchd.model.snapshot import DestinationRule

_LOOKUP, _GOTO = 1, 2
_ENDS: Final = frozenset((6, 7, 8))
_INVERT: Final = 0x2
_FRA_SUPPRESS, _FRA_MASK = 14, 16
_LEADS: Final = frozenset((fibrule.FRA_DST, fibrule.FRA_PRIORITY, fibrule.FRA_TABLE, fibrule.FRA_PROTOCOL))
"""What a rule consists of that selects by destination and by nothing else."""
_SINGLED_OUT: Final = frozenset((12, 17, 19, 20, 22, 23, 24, 25, 26, 27))
"""Tunnel id, outgoing device, VRF, user, protocol, ports, DSCP, flow labels."""

_ADDRESS_BYTES: Final = 4
_LOCAL_TABLE: Final = 255
_MAIN_RULE: Final = 32_766
MAX_DESTINATIONS: Final = 256
"""Liqo has two for each other cluster."""
_RTN_THROW: Final = 9


@Door("netlink rule")
def describe_foreign(bodies: Iterable[bytes], protocol: int) -> tuple[tuple[ForeignRule, ...], frozenset[int]]:
    """Rules of others before the main table's, in the kernel's order, and the priorities that are taken.

    Raises:
        DecodeError: a body is cut short.
    """
    others = [body for body in bodies if body[0] == socket.AF_INET and priority_and_protocol(body)[1] != protocol]
    priorities = frozenset(priority_and_protocol(body)[0] for body in others)
    return tuple(rule for body in others for rule in _describe(body) if rule.priority < _MAIN_RULE), priorities


@Door("netlink rule")
def describe_destinations(bodies: Iterable[bytes], protocol: int) -> tuple[DestinationRule, ...]:
    """Rules of others that look one IPv4 destination up in a table, in the kernel's order; a bounded number.

    Raises:
        DecodeError: a body is cut short.
    """
    others = (body for body in bodies if body[0] == socket.AF_INET and priority_and_protocol(body)[1] != protocol)
    return tuple(islice((rule for body in others for rule in _destination(body)), MAX_DESTINATIONS))


class Destinations:
    """Rules of others by destination, taken apart once for each change of any rule.

    Args:
        protocol: of our own rules.
    """

    def __init__(self, protocol: int) -> None:
        self._protocol = protocol
        self._bodies: tuple[bytes, ...] = ()
        self._told: tuple[DestinationRule, ...] = ()

    def of(self, bodies: tuple[bytes, ...]) -> tuple[DestinationRule, ...]:
        """Those among all rules; where one makes no sense it is refused, and none is told."""
        if bodies is not self._bodies:
            self._bodies, self._told = bodies, ()
            with contextlib.suppress(DecodeError):
                self._told = describe_destinations(bodies, self._protocol)
        return self._told


def routes_of(entries: Entries, table: int) -> dict[Prefix, bool]:
    """IPv4 routes of a table: whether a search ends at each."""
    found: dict[Prefix, bool] = {}
    for key, values in entries.items():
        if compact.table_of(key) == table and compact.family_of(key) == socket.AF_INET:
            route = compact.unpack_route(key, values[0])
            found[Prefix(int.from_bytes(route.dst, "big"), route.dst_len)] = route.kind != _RTN_THROW
    return found


def _destination(body: bytes) -> Iterator[DestinationRule]:
    _, dst_len, src_len, tos, small_table, action, flags = fibrule.RULE.unpack_from(body)
    found = attributes(body, fibrule.RULE.size)
    destination = found.get(fibrule.FRA_DST, b"")
    said = {kind for kind, value in found.items() if fibrule.NEUTRAL.get(kind) != value}
    is_plain = action == _LOOKUP and not (src_len or tos or flags & _INVERT) and said <= _LEADS
    if is_plain and len(destination) == _ADDRESS_BYTES:
        yield DestinationRule(
            priority=fibrule.number_or(found.get(fibrule.FRA_PRIORITY)),
            to=f"{socket.inet_ntop(socket.AF_INET, destination)}/{dst_len}",
            table=fibrule.number_or(found.get(fibrule.FRA_TABLE)) or small_table,
        )


def _describe(body: bytes) -> Iterator[ForeignRule]:
    _, dst_len, _, tos, small_table, action, flags = fibrule.RULE.unpack_from(body)
    found = attributes(body, fibrule.RULE.size)
    is_inverted = bool(flags & _INVERT)
    mark = fibrule.number_or(found.get(fibrule.FRA_FWMARK)) & fibrule.number_or(found.get(_FRA_MASK), 0xFFFF_FFFF)
    table = fibrule.number_or(found.get(fibrule.FRA_TABLE)) or small_table
    if not is_inverted and (tos or mark or found.keys() & _SINGLED_OUT):
        return
    if action not in {_LOOKUP, _GOTO, *_ENDS} or (action == _LOOKUP and table == _LOCAL_TABLE):
        return
    destination = None if is_inverted else found.get(fibrule.FRA_DST)
    to = None if destination is None else Prefix(int.from_bytes(destination, "big"), dst_len)
    suppressed = fibrule.number_or(found.get(_FRA_SUPPRESS), 0xFFFF_FFFF)
    yield ForeignRule(
        priority=fibrule.number_or(found.get(fibrule.FRA_PRIORITY)),
        text=describe_rule(body).text,
        table=table if action == _LOOKUP else None,
        to=to,
        suppressed=suppressed if suppressed != 0xFFFF_FFFF else -1,
    )
