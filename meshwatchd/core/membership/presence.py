"""How often nodes of two locations greet each other, and how word of who lives spreads inside a location.

few nodes    each node greets each of the other location every 30 s
many nodes   each greets one node of the other location after the other, at a rate that keeps all hellos between the
             two locations below PAIRS in 30 s; a node that was greeted so names the sender to its neighbours, in the
             hellos that it sends them anyway

    a7 --hello--> b3 --hello, "192.168.100.17 2 s ago"--> b1, b2, b4 ...

What a node advertises is never passed on: a change goes to everybody from the node itself. A neighbour's word is
believed for one thing alone, that a known node lives at its known address.

Sender and receiver count the same nodes, so the receiver knows after which time silence means death.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from meshwatchd.core.membership.cadence import CLOSE, MAX_PRESENT, PRESENT_NS, Cadence, cadence_between
from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import SECOND

CAPABILITY: Final = "presence"
"""In a hello: its sender believes its neighbours about who lives. Others have to be greeted every 30 s."""


class Crowds:
    """How many nodes each location has.

    Attributes:
        sizes: by location.
    """

    def __init__(self, hellos: Iterable[Hello] = ()) -> None:
        self.sizes = Counter(hello.home for hello in hellos)

    def cadence(self, sender: LocationName, receiver: LocationName) -> Cadence:
        """How a node of one location greets another location."""
        if sender == receiver or not sender or not receiver:
            return CLOSE
        return cadence_between(self.sizes[sender], self.sizes[receiver], self.sizes.total())


class Presence:
    """Nodes of other locations that greeted this one in turn lately, by address."""

    def __init__(self) -> None:
        self._heard_ns: dict[str, int] = {}

    def hear(self, address: str, now: int) -> None:
        """A node with this address has said something new."""
        self._heard_ns.pop(address, None)
        self._heard_ns[address] = now

    def tell(self, now: int) -> dict[str, int]:
        """Whom to name to a neighbour, the latest first: how many seconds ago each was heard."""
        while self._heard_ns and now - self._heard_ns[first := next(iter(self._heard_ns))] > PRESENT_NS:
            del self._heard_ns[first]
        latest = itertools.islice(reversed(self._heard_ns.items()), MAX_PRESENT)
        return {address: (now - at_ns) // SECOND for address, at_ns in latest}


def find_present(
    told: Mapping[str, int], neighbour: Hello, own: Hello | None, find: Callable[[str], Hello | None]
) -> dict[NodeName, int]:
    """Which nodes a neighbour's word counts for: by name, how many nanoseconds ago each was heard by it.

    Args:
        told: seconds by address, as the hello has them.
        neighbour: its sender.
        own: this node's hello.
        find: the known node with an address.
    """
    if own is None or not own.home or neighbour.home != own.home:
        return {}
    ages = {}
    for address, age_s in itertools.islice(told.items(), MAX_PRESENT):
        hello = find(address)
        if hello is not None and hello.home != own.home and 0 <= age_s * SECOND <= PRESENT_NS + SECOND:
            ages[hello.view.node] = age_s * SECOND
    return ages
