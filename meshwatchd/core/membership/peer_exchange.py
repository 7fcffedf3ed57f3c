"""Nodes made known to each other by a third, where neither kernel tells the one of the other.

    b2 --hello--> b1 <--hello-- b3        beside Cilium, a member's kernel names its leader and remote nodes only
    b1 --hello, "there is 10.2.0.12"--> b3 --hello--> b2

An address that was told is a place where somebody may be, and no more: it is greeted like any other, and whoever
answers has to prove who it is. A hello tells some of the addresses that the sender knows, another part each time; most
of them are of the receiver's own location, since these nodes watch one another. All are arranged when one has changed,
by location, so that a hello costs the same however many there are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final

from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import SECOND

NEAR, FAR = 12, 4
"""Addresses in one hello: some 250 bytes, and never more than fit."""

SHORT_NEAR, SHORT_FAR = 3, 1
"""The same in a short one between neighbours, 4 bytes each; between locations a far one alone. They keep known what
whole hellos have told: who is new greets and is greeted by those."""

MAX_TOLD: Final = NEAR + FAR
MAX_KEPT: Final = 1024
"""As large as a mesh; who signs more has the mesh key and no use for them."""

KEPT_NS: Final = 600 * SECOND
"""A node is told of again within minutes by everybody who hears it; what nobody repeats is gone."""


class Introductions:
    """Addresses of nodes, as others tell them, and what this node tells of those it hears."""

    def __init__(self) -> None:
        self._heard_ns: dict[str, int] = {}
        self._turn = 0
        self._addresses: list[str] = []
        self._homes: dict[LocationName, range] = {}
        self._receivers: dict[NodeName, tuple[LocationName, int]] = {}

    def hear(self, addresses: Sequence[str], now: int) -> bool:
        """Take in what a proven hello tells; returns whether any address is new. Nonsense is passed over."""
        self._forget(now)
        is_new = False
        for address in addresses[:MAX_TOLD]:
            if address not in self._heard_ns:
                if len(self._heard_ns) >= MAX_KEPT or not _is_node_address(address):
                    continue
                is_new = True
            self._heard_ns.pop(address, None)
            self._heard_ns[address] = now
        return is_new

    def addresses(self) -> tuple[str, ...]:
        """Where others say that nodes are."""
        return tuple(self._heard_ns)

    def arrange(self, hellos: Mapping[NodeName, Hello]) -> None:
        """Tell of these nodes from here on."""
        order = sorted((hello.home, name) for name, hello in hellos.items() if hello.view.node_ip)
        self._addresses = [hellos[name].view.node_ip for _, name in order]
        self._receivers = {name: (hello.home, len(order)) for name, hello in hellos.items()}
        self._homes = {}
        for index, (home, name) in enumerate(order):
            self._receivers[name] = home, index
            self._homes[home] = range(self._homes.get(home, range(index, index)).start, index + 1)

    def tell(self, receiver: NodeName, *, is_short: bool = False, is_own: bool = False) -> tuple[str, ...]:
        """What to tell a node of the others: another part at each call.

        Args:
            receiver: who is told; one that was not arranged hears nothing.
            is_short: the hello is short.
            is_own: the receiver is of this node's location.
        """
        self._turn += 1
        if receiver not in self._receivers:
            return ()
        home, place = self._receivers[receiver]
        count_near, count_far = (NEAR, FAR) if not is_short else (SHORT_NEAR, SHORT_FAR) if is_own else (0, 1)
        segment = self._homes.get(home, range(0))
        without = range(place, place + 1) if place in segment else range(segment.stop, segment.stop)
        near = self._part(segment.start, len(segment) - len(without), without, count_near)
        return (*near, *self._part(0, len(self._addresses) - len(segment), segment, count_far))

    def _part(self, start: int, size: int, without: range, count: int) -> list[str]:
        """The next few of so many addresses from a place on, round and round, without those in between."""
        first = self._turn * count % size if size > count else 0
        places = (start + (first + step) % size for step in range(min(count, size)))
        return [self._addresses[place if place < without.start else place + len(without)] for place in places]

    def _forget(self, now: int) -> None:
        while self._heard_ns and now - self._heard_ns[first := next(iter(self._heard_ns))] > KEPT_NS:
            del self._heard_ns[first]


def _is_node_address(text: str) -> bool:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)
