"""Asks the kernel where a packet would go, and which policy rule decides that.

    `route_socket` asks for    RTA_DST, RTA_SRC, RTA_IIF     RTM_F_LOOKUP_TABLE
    with ports                 RTA_IP_PROTO, RTA_SPORT, RTA_DPORT
    of a protocol              RTA_IP_PROTO
    for its entry              RTM_F_FIB_MATCH
    the answer                 RTA_OIF, RTA_GATEWAY, RTA_TABLE, or an errno; of an entry RTA_DST and its length

An answer names its table and no rule, and an error neither; so the mirrored rules are gone through as the kernel does.

Source: fib_rules_lookup() in net/core/fib_rules.c, linux/rtnetlink.h.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Final, Protocol

from meshwatchd.adapters.netlink import compact, fibrule
from meshwatchd.adapters.netlink.message import attributes, encode_attribute
from meshwatchd.adapters.netlink.route_socket import Answer, RouteSocket, request_for
from meshwatchd.adapters.netlink.rule_text import read_rule
from meshwatchd.adapters.netlink.tables import Table
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.route_lookup import RouteAnswer, RouteQuestion

RTM_F_LOOKUP_TABLE: Final = 0x1000
RTM_F_FIB_MATCH: Final = 0x2000
_RTA_DST, _RTA_SRC, _RTA_IIF, _RTA_OIF, _RTA_GATEWAY, _RTA_TABLE = 1, 2, 3, 4, 5, 15
_RTA_IP_PROTO, _RTA_SPORT, _RTA_DPORT = 27, 28, 29
_PORT: Final = struct.Struct("!H")
_U32: Final = struct.Struct("=I")

_OTHER_SELECTORS: Final = frozenset((10, 12, 17, 19, 20, 22, 23, 24, 25, 26, 27))
"""Marks, tunnel ids, devices of sockets, VRFs, users, protocols, ports, DSCP and flow labels (linux/fib_rules.h): a
packet between pods may have any, and is asked for without; or with the protocol alone."""

_OF_PODS: Final = frozenset((socket.IPPROTO_TCP, socket.IPPROTO_UDP))

_FIB_RULE_INVERT: Final = 0x2
_ACTIONS: Final = frozenset((1, 6, 7, 8))
"""Lookup, blackhole, unreachable, prohibit."""
_USUAL_TABLES: Final = frozenset((253, 254, 255))
"""Default, main, local: rules that everybody has."""


class Tables(Protocol):
    """What of the mirror is used."""

    routes: Table

    @property
    def rules(self) -> tuple[bytes, ...]:
        """All rules, as message bodies."""

    def devices(self) -> Mapping[int, str]:
        """Device names by interface index."""


class RouteLookup:
    """One socket, one question at a time."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._socket = RouteSocket()
        self._protocols: tuple[tuple[bytes, ...], tuple[int, ...]] = (), ()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    @property
    def version(self) -> object:
        """Another value after each change of a rule or a route."""
        return self._tables.routes.version, self._tables.rules

    @property
    def protocols(self) -> tuple[int, ...]:
        """IP protocols of pods that any IPv4 rule singles out without naming ports; none where a rule is cut short."""
        rules = self._tables.rules
        if rules is not self._protocols[0]:
            self._protocols = rules, ()
            with contextlib.suppress(DecodeError), Door("netlink rule"):
                found = (attributes(body, fibrule.RULE.size) for body in rules if body[0] == socket.AF_INET)
                singled = (each[fibrule.FRA_IP_PROTO][0] for each in found if _is_of_protocol(each))
                self._protocols = rules, tuple(sorted(_OF_PODS.intersection(singled)))
        return self._protocols[1]

    def ask(self, question: RouteQuestion) -> RouteAnswer:
        """Where the packet would go; an empty answer where the kernel does not say."""
        index = next((number for number, name in self._tables.devices().items() if name == question.iif), 0)
        if question.iif and not index:
            return RouteAnswer()
        try:
            answer = self._socket.ask(_request(question, index))
            with Door("netlink route lookup"):
                return self._answer(question, answer)
        except (OSError, DecodeError):
            return RouteAnswer()

    def table(self, question: RouteQuestion) -> int | None:
        """The table whose route the packet takes, 0 where it goes nowhere; None where the kernel does not say."""
        try:
            answer = self._socket.ask(_request(question, 0))
        except OSError:
            return None
        return None if answer is None else fibrule.number_or(answer.attributes.get(_RTA_TABLE))

    def _answer(self, question: RouteQuestion, answer: Answer | None) -> RouteAnswer:
        if answer is None:
            return RouteAnswer()
        if answer.errno:
            return RouteAnswer(errno=answer.errno, rule=self._decides(question, 0))
        device = self._tables.devices().get(fibrule.number_or(answer.attributes.get(_RTA_OIF)), "")
        table = fibrule.number_or(answer.attributes.get(_RTA_TABLE))
        gateway = answer.attributes.get(_RTA_GATEWAY)
        via = socket.inet_ntoa(gateway) if gateway is not None else ""
        rule = self._decides(question, table) if table else ""
        return RouteAnswer(device=device, via=via, rule=rule, prefix=_prefix(answer) if question.is_for_entry else "")

    def _decides(self, question: RouteQuestion, table: int) -> str:
        """The rule that leads to a table, or for table 0 the first that leads anywhere; empty for those all have."""
        if table in _USUAL_TABLES:
            return ""
        for rule in (read_rule(body) for body in self._tables.rules if selects(body, question)):
            if rule.table in _USUAL_TABLES or (table and rule.table != table):
                continue
            if not rule.table or table or self._has_route(rule.table, question.destination):
                return rule.text
        return ""

    def _has_route(self, table: int, destination: str) -> bool:
        """Whether a table has any route that covers an address: without one the kernel goes on to the next rule."""
        wanted = int(IPv4Address(destination))
        for key, values in self._tables.routes.entries.items():
            if compact.table_of(key) == table and compact.family_of(key) == socket.AF_INET:
                route = compact.unpack_route(key, values[0])
                if (wanted ^ int.from_bytes(route.dst, "big")) >> (32 - route.dst_len) == 0:
                    return True
        return False


def _prefix(answer: Answer) -> str:
    return f"{socket.inet_ntoa(answer.attributes.get(_RTA_DST, bytes(4)))}/{answer.dst_len}"


def _request(question: RouteQuestion, index: int) -> bytes:
    flags = RTM_F_LOOKUP_TABLE | (RTM_F_FIB_MATCH if question.is_for_entry else 0)
    body = request_for(socket.inet_aton(question.destination), src_len=32, flags=flags)
    body += encode_attribute(_RTA_SRC, socket.inet_aton(question.source))
    if question.dport:
        body += encode_attribute(_RTA_IP_PROTO, bytes((socket.IPPROTO_UDP,)))
        body += encode_attribute(_RTA_SPORT, _PORT.pack(question.sport))
        body += encode_attribute(_RTA_DPORT, _PORT.pack(question.dport))
    elif question.protocol:
        body += encode_attribute(_RTA_IP_PROTO, bytes((question.protocol,)))
    return body + (encode_attribute(_RTA_IIF, _U32.pack(index)) if index else b"")


def selects(body: bytes, question: RouteQuestion) -> bool:
    """Whether a rule takes a packet without mark and ports; what it cannot say of it, it does not take."""
    family, dst_len, src_len, tos, _, action, flags = fibrule.RULE.unpack_from(body)
    found = attributes(body, fibrule.RULE.size)
    marked = found.keys() & _OTHER_SELECTORS
    if question.protocol and found.get(fibrule.FRA_IP_PROTO) == bytes((question.protocol,)):
        marked -= {fibrule.FRA_IP_PROTO}
    if family != socket.AF_INET or tos or flags & _FIB_RULE_INVERT or action not in _ACTIONS or marked:
        return False
    iif = found.get(fibrule.FRA_IIFNAME, b"").rstrip(b"\0").decode(errors="replace")
    return (
        iif in ("", question.iif or "lo")
        and _holds(found.get(fibrule.FRA_DST), dst_len, question.destination)
        and _holds(found.get(fibrule.FRA_SRC), src_len, question.source)
    )


def _is_of_protocol(found: Mapping[int, bytes]) -> bool:
    ports = found.keys() & {fibrule.FRA_SPORT_RANGE, fibrule.FRA_DPORT_RANGE}
    return bool(found.get(fibrule.FRA_IP_PROTO)) and not ports


def _holds(prefix: bytes | None, length: int, address: str) -> bool:
    return prefix is None or IPv4Address(address) in IPv4Network((prefix, length), strict=False)
