"""When Kilo's agents wrote to their nodes' kernels: a netlink listener inside every node.

    with KiloWrites(lab) as writes:
        ...
        writes.since(began_ns)          # each route, rule and change of kilo0, with its instant

An agent's routes are those of protocol `static` in main and in table 1107; its rules look up table 1107. Peers of a
userspace kilo0 are no matter of the kernel's, so they are not seen.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Self

from netnslab import kilo
from netnslab.lab import Lab
from netnslab.process import being_first

GROUPS = 0x1 | 0x10 | 0x40 | 0x80
"""RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV4_RULE (linux/rtnetlink.h)."""
SO_RCVBUFFORCE = 33
"""asm-generic/socket.h; the socket module has no name for it."""
RECEIVE_BUFFER_BYTES = 4 << 20
NAMES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        16: ("link", "set"),
        17: ("link", "del"),
        20: ("address", "add"),
        21: ("address", "del"),
        24: ("route", "add"),
        25: ("route", "del"),
        32: ("rule", "add"),
        33: ("rule", "del"),
    }
)
"""RTM_*, by number (linux/rtnetlink.h)."""
RTPROT_STATIC = 4
IFF_UP = 1
RTA_DST, RTA_GATEWAY, RTA_TABLE = 1, 5, 15
"""FRA_DST and FRA_TABLE of rules have the same numbers (linux/fib_rules.h)."""
IFLA_IFNAME = IFA_LABEL = 3
IFA_LOCAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One change of one node's kernel.

    Attributes:
        at_ns: CLOCK_MONOTONIC, when the listener had it: later than the kernel's, by microseconds on a calm machine.
        what: in the words of ip(8).
    """

    node: str
    at_ns: int
    what: str


class KiloWrites:
    """Listens in all nodes of a lab, in a thread that runs before the daemons."""

    def __init__(self, lab: Lab) -> None:
        self._sockets = {name: lab.node(name).space.call(_listen) for name in lab.topology.nodes}
        self._writes: list[Write] = []
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="netnslab-kilo-writes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._is_ended.set()
        self._thread.join()
        for each in self._sockets.values():
            each.close()

    def since(self, since_ns: int) -> list[Write]:
        """All writes from an instant on, in the order in which they came."""
        return [write for write in tuple(self._writes) if write.at_ns >= since_ns]

    def last_ns(self) -> int:
        """The instant of the last write; 0 where there was none."""
        return self._writes[-1].at_ns if self._writes else 0

    def _receive(self) -> None:
        with being_first(), selectors.DefaultSelector() as selector:
            for name, each in self._sockets.items():
                selector.register(each, selectors.EVENT_READ, name)
            while not self._is_ended.is_set():
                for key, _ in selector.select(0.2):
                    data = self._sockets[key.data].recv(1 << 16)
                    at_ns = time.monotonic_ns()
                    self._writes += [Write(node=key.data, at_ns=at_ns, what=what) for what in decode(data)]


def decode(data: bytes) -> Iterator[str]:
    """What a datagram of rtnetlink says of Kilo's objects; nothing of anybody else's.

    Args:
        data: nlmsghdr and payload, one after the other, in the machine's byte order, each padded to four bytes.
    """
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        noun, verb = NAMES.get(kind, ("", ""))
        what = _decode(noun, data[16:length]) if noun else ""
        if what:
            yield f"{noun} {verb} {what}"
        data = data[(max(length, 16) + 3) & ~3 :]


def _decode(noun: str, body: bytes) -> str:
    match noun:
        case "link":
            (flags,) = struct.unpack_from("=I", body, 8)
            name = _text(_attributes(body[16:]).get(IFLA_IFNAME, b""))
            return f"{name} {'up' if flags & IFF_UP else 'down'}" if name == kilo.DEVICE else ""
        case "address":
            attributes = _attributes(body[8:])
            is_ours = _text(attributes.get(IFA_LABEL, b"")) == kilo.DEVICE
            return f"{_address(attributes[IFA_LOCAL])}/{body[1]} dev {kilo.DEVICE}" if is_ours else ""
        case "route":
            attributes = _attributes(body[12:])
            if body[5] != RTPROT_STATIC:
                return ""
            via = f" via {_address(attributes[RTA_GATEWAY])}" if RTA_GATEWAY in attributes else ""
            return f"{_address(attributes.get(RTA_DST, bytes(4)))}/{body[1]}{via} table {_table(attributes, body)}"
        case _:
            attributes = _attributes(body[12:])
            table = _table(attributes, body)
            return f"to {_address(attributes.get(RTA_DST, bytes(4)))} table {table}" if table == kilo.TABLE else ""


def _attributes(data: bytes) -> dict[int, bytes]:
    """By type: rtattr is length and type, two bytes each, then the value, padded to four bytes."""
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:length]
        data = data[(max(length, 4) + 3) & ~3 :]
    return found


def _table(attributes: Mapping[int, bytes], header: bytes) -> int:
    """The attribute, which holds numbers beyond the header's byte."""
    value = attributes.get(RTA_TABLE, b"")
    return int.from_bytes(value, "little" if struct.pack("=H", 1)[0] else "big") if value else header[4]


def _address(value: bytes) -> str:
    return socket.inet_ntoa(value)


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("ascii", errors="replace")


def _listen() -> socket.socket:
    channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    channel.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    channel.bind((0, GROUPS))
    return channel
