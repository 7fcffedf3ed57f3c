"""Nodes made known to each other by a third, where neither kernel tells the one of the other.

    b2 --hello--> b1 <--hello-- b3        beside Cilium, a member's kernel names its leader and remote nodes only
    b1 --hello, "there is 10.2.0.12"--> b3 --hello--> b2

An address that was told is a place where somebody may be, and no more: it is greeted like any other, and whoever
answers has to prove who it is. A hello tells some of the addresses that the sender knows, another part each time; most
of them are of the receiver's own location, since these nodes watch one another.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final

from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import SECOND

NEAR, FAR = 12, 4
"""Addresses in one hello: some 250 bytes, and never more than fit."""

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

    def hear(self, addresses: Sequence[str], now: int) -> bool:
        """Take in what a proven hello tells; returns whether any address is new. Nonsense is passed over."""
        self._forget(now)
        is_new = False
        for address in addresses[:MAX_TOLD]:
            if address not in self._heard_ns:
                if len(self._heard_ns) >= MAX_KEPT or not _is_node_address(address):
                    continue
                is_new = True
            self._heard_ns[address] = now
        return is_new

    def addresses(self) -> tuple[str, ...]:
        """Where others say that nodes are."""
        return tuple(self._heard_ns)

    def tell(self, receiver: NodeName, hellos: Mapping[NodeName, Hello]) -> tuple[str, ...]:
        """What to tell a node of the others: another part at each call.

        Args:
            receiver: who is told.
            hellos: the last word of every node that is heard, the receiver and this node among them.
        """
        self._turn += 1
        home = hellos[receiver].home if receiver in hellos else ""
        others = [hellos[name] for name in sorted(hellos) if name != receiver and hellos[name].view.node_ip]
        near = [hello.view.node_ip for hello in others if hello.home == home]
        far = [hello.view.node_ip for hello in others if hello.home != home]
        return (*_part(near, NEAR, self._turn), *_part(far, FAR, self._turn))

    def _forget(self, now: int) -> None:
        self._heard_ns = {address: heard for address, heard in self._heard_ns.items() if now - heard <= KEPT_NS}


def _part(addresses: list[str], count: int, turn: int) -> list[str]:
    """The next few, round and round."""
    if len(addresses) <= count:
        return addresses
    first = turn * count % len(addresses)
    return (addresses + addresses)[first : first + count]


def _is_node_address(text: str) -> bool:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)
