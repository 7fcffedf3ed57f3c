"""A kernel's tables that are dumped as netlink bytes, a few messages at a time, and told of change by change.

Between two parts of a dump whatever waits in `meanwhile` is done, which is how the real kernel dumps: IPv4 routes go on
behind the last key, neighbours and FDB entries by counting. A device that goes down takes its IPv4 routes along
without a notification.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from meshwatchd.adapters.netlink import fibrule, message
from meshwatchd.adapters.netlink.compact import Packed
from meshwatchd.adapters.netlink.message import Message, encode_attribute
from meshwatchd.model.plan import Route, Rule

OURS, STATIC = 117, 4
MAIN = 254
NLM_F_CREATE = 0x400
ETHERNET = 1
PART = 2
"""Messages in one part of a dump."""


def packed(pack: Callable[[bytes], Packed | None], body: bytes) -> Packed:
    """Key and values of a body that has some."""
    found = pack(body)
    assert found is not None
    return found


def connection_body(*, protocol: int = 6, flags: int = 3, state: int = 3) -> bytes:
    """A connection from 10.244.6.2 to 10.244.3.2 as conntrack lists it; by default TCP, established, seen to begin."""
    addresses = encode_attribute(1, packed_ip("10.244.6.2")) + encode_attribute(2, packed_ip("10.244.3.2"))
    ports = encode_attribute(1, bytes((protocol,))) + encode_attribute(2, struct.pack("!H", 40_000))
    identity = encode_attribute(1 | 0x8000, addresses) + encode_attribute(2 | 0x8000, ports)
    tcp = encode_attribute(1, bytes((state,))) + b"".join(encode_attribute(each, bytes((flags, 0))) for each in (4, 5))
    info = encode_attribute(4 | 0x8000, encode_attribute(1 | 0x8000, tcp))
    return struct.pack("=BBH", socket.AF_INET, 0, 0) + encode_attribute(1 | 0x8000, identity) + info


def packed_ip(text: str) -> bytes:
    """An address as bytes."""
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def link_body(
    index: int,
    name: str,
    *,
    kind: str = "",
    is_up: bool = True,
    mtu: int = 1500,
    family: int = 0,
    lladdr: bytes = b"",
) -> bytes:
    """RTM_NEWLINK without its header."""
    info = encode_attribute(18, encode_attribute(1, kind.encode() + b"\0")) if kind else b""
    info += encode_attribute(1, lladdr) if lladdr else b""
    head = struct.pack("=BxHiII", family, ETHERNET, index, int(is_up), 0)
    return head + encode_attribute(3, name.encode() + b"\0") + encode_attribute(4, struct.pack("=I", mtu)) + info


def address_body(index: int, text: str, *, length: int = 24, scope: int = 0, is_secondary: bool = False) -> bytes:
    """RTM_NEWADDR without its header."""
    data = packed_ip(text)
    family = socket.AF_INET6 if len(data) > 4 else socket.AF_INET
    head = struct.pack("=BBBBI", family, length, is_secondary, scope, index)
    return head + encode_attribute(1, data) + (encode_attribute(2, data) if len(data) == 4 else b"")


@dataclass(frozen=True)
class FakeRoute:
    """A route; equal ones of one key are allowed, as in the kernel. Index 0: into no device."""

    dst: str
    index: int
    table: int = MAIN
    protocol: int = STATIC
    metric: int = 0
    via: str = ""
    src: str = ""
    kind: int = 1
    also: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[int, str, int]:
        """What the kernel allows a plain addition only once of."""
        return self.table, self.dst, self.metric

    def body(self) -> bytes:
        """RTM_NEWROUTE without its header."""
        prefix, _, length = self.dst.partition("/")
        family = socket.AF_INET6 if ":" in prefix else socket.AF_INET
        table = self.table if self.table < 256 else 252
        onlink = 4 if self.via else 0
        head = struct.pack("=8BI", family, int(length), 0, 0, table, self.protocol, 0, self.kind, onlink)
        found = encode_attribute(15, struct.pack("=I", self.table))
        if int(length):
            found += encode_attribute(1, packed_ip(prefix))
        if self.metric:
            found += encode_attribute(6, struct.pack("=I", self.metric))
        if self.src:
            found += encode_attribute(7, packed_ip(self.src))
        if self.also:
            hops = b"".join(struct.pack("=HBBi", 8, 0, 0, index) for index in (self.index, *self.also))
            return head + found + encode_attribute(9, hops)
        if self.via:
            found += encode_attribute(5, packed_ip(self.via))
        if not self.index:
            return head + found
        return head + found + encode_attribute(4, struct.pack("=I", self.index))


def route_of(route: Route, index: int, protocol: int = OURS) -> FakeRoute:
    """One of our routes, on the device of that index."""
    return FakeRoute(
        dst=route.dst, index=index, table=route.table, protocol=protocol, via=route.via or "", src=route.src or ""
    )


def neighbour_body(index: int, address: str, lladdr: bytes, *, state: int = 0x80, flags: int = 0) -> bytes:
    """RTM_NEWNEIGH without its header."""
    data = packed_ip(address)
    family = socket.AF_INET6 if len(data) > 4 else socket.AF_INET
    head = struct.pack("=B3xiHBB", family, index, state, flags, 1)
    return head + encode_attribute(1, data) + (encode_attribute(2, lladdr) if lladdr else b"")


def fdb_body(index: int, mac: bytes, dst: str | None, *, state: int = 0x80) -> bytes:
    """RTM_NEWNEIGH of family AF_BRIDGE without its header."""
    head = struct.pack("=B3xiHBB", 7, index, state, 2, 0)
    remote = b"" if dst is None else encode_attribute(1, packed_ip(dst))
    return head + encode_attribute(2, mac) + remote


def rule_body(rule: Rule, protocol: int = OURS) -> bytes:
    """RTM_NEWRULE without its header."""
    return fibrule.encode_rule(rule, protocol)


@dataclass
class FakeRtnl:
    """The kernel.

    Attributes:
        told: notifications nobody has read yet.
        meanwhile: done one by one between the parts of a dump.
        failures: raised by the next dumps instead of an answer.
    """

    links: dict[int, bytes] = field(default_factory=dict)
    addresses: list[bytes] = field(default_factory=list)
    routes: list[FakeRoute] = field(default_factory=list)
    neighbours: list[bytes] = field(default_factory=list)
    fdb: list[bytes] = field(default_factory=list)
    rules: list[bytes] = field(default_factory=list)
    told: deque[Message] = field(default_factory=deque)
    meanwhile: deque[Callable[[], None]] = field(default_factory=deque)
    failures: deque[Exception] = field(default_factory=deque)

    async def dump(self, kind, header, what, pack):
        """As a Dumper's."""
        if self.failures:
            raise self.failures.popleft()
        return [packed for body in self._bodies(kind, header[0]) if (packed := pack(body)) is not None]

    # --- changes ---

    def put_link(self, index: int, name: str, *, kind: str = "veth", is_up: bool = True) -> None:
        """Make or change a device."""
        was_up = index in self.links and bool(self.links[index][8] & 1)
        self.links[index] = link_body(index, name, kind=kind, is_up=is_up)
        if was_up and not is_up:
            self._drop_routes(index)
        self._tell(message.RTM_NEWLINK, self.links[index])

    def delete_link(self, index: int) -> None:
        """Delete a device and, without a word, what is on it."""
        self._drop_routes(index, has_gone=True)
        self.addresses = [body for body in self.addresses if index != struct.unpack_from("=I", body, 4)[0]]
        self.neighbours = [body for body in self.neighbours if index != struct.unpack_from("=i", body, 4)[0]]
        self.fdb = [body for body in self.fdb if index != struct.unpack_from("=i", body, 4)[0]]
        self._tell(message.RTM_DELLINK, self.links.pop(index))

    def put_route(self, route: FakeRoute, mode: str = "add") -> None:
        """As `ip route MODE`: add, replace, append or prepend."""
        same = [position for position, each in enumerate(self.routes) if each.key == route.key]
        if mode == "replace" and same:
            if route in self.routes:
                return
            self.routes[same[0]] = route
            self._tell(message.RTM_NEWROUTE, route.body(), message.NLM_F_REPLACE)
        elif route not in self.routes and (mode in {"append", "prepend"} or not same):
            position = (
                (same or [len(self.routes)])[0] if mode == "prepend" else (same or [len(self.routes) - 1])[-1] + 1
            )
            self.routes.insert(position, route)
            flag = message.NLM_F_APPEND if mode == "append" and same else 0
            self._tell(message.RTM_NEWROUTE, route.body(), NLM_F_CREATE | flag)

    def delete_route(self, route: FakeRoute) -> None:
        """Delete a route."""
        self.routes.remove(route)
        self._tell(message.RTM_DELROUTE, route.body())

    def put(self, kind: int, where: list[bytes], body: bytes) -> None:
        """Add something else, and tell."""
        where.append(body)
        self._tell(kind, body)

    def delete(self, kind: int, where: list[bytes], body: bytes) -> None:
        """Delete something else, and tell."""
        where.remove(body)
        self._tell(kind, body)

    # --- what is told and shown ---

    def _tell(self, kind: int, body: bytes, flags: int = 0) -> None:
        self.told.append(Message(kind, flags, 0, body))

    def _drop_routes(self, index: int, *, has_gone: bool = False) -> None:
        self.routes = [
            each for each in self.routes if each.index != index or each.also or (each.kind == 2 and not has_gone)
        ]

    def _bodies(self, kind: int, family: int) -> Iterator[bytes]:
        match kind:
            case message.RTM_GETLINK:
                yield from list(self.links.values())
            case message.RTM_GETADDR:
                yield from [body for body in self.addresses if body[0] == family]
            case message.RTM_GETROUTE:
                yield from self._walk_routes(family)
            case message.RTM_GETNEIGH:
                yield from self._count_through(self.fdb if family == 7 else self.neighbours, family)
            case message.RTM_GETRULE:
                yield from [body for body in self.rules if body[0] == family]

    def _walk_routes(self, family: int) -> Iterator[bytes]:
        behind: tuple[int, str, int] | None = None
        while True:
            keys = sorted({each.key for each in self.routes if behind is None or each.key > behind})[:PART]
            if not keys:
                return
            for key in keys:
                yield from [each.body() for each in self.routes if each.key == key and each.body()[0] == family]
            behind = keys[-1]
            self._let_things_happen()

    def _count_through(self, where: list[bytes], family: int) -> Iterator[bytes]:
        position = 0
        while position < len(where):
            part = where[position : position + PART]
            yield from [body for body in part if body[0] == family]
            position += PART
            self._let_things_happen()

    def _let_things_happen(self) -> None:
        if self.meanwhile:
            self.meanwhile.popleft()()
