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

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from meshwatchd.core.membership.hello_schedule import KNOWN_NS
from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import SECOND

CAPABILITY: Final = "presence"
"""In a hello: its sender believes its neighbours about who lives. Others have to be greeted every 30 s."""

PAIRS: Final = 100
"""Hellos between two locations in 30 s, each way: 10 and 10 nodes greet each other as often as any two do."""

MAX_PRESENT: Final = 16
"""Nodes named in one hello, some 15 bytes each."""

PRESENT_NS: Final = 75 * SECOND
"""For so long a node is named: two hellos to each neighbour, of which one may be lost."""

LOST: Final = 3
"""Three hellos in a row are lost by no accident, and who is greeted in turn is heard of by two of them."""
SLACK_NS: Final = 5 * SECOND

SILENT_NS: Final = LOST * KNOWN_NS + SLACK_NS
"""When a node that greets every 30 s is taken for dead."""


class Cadence(NamedTuple):
    """How one node greets another location.

    Attributes:
        interval_ns: between two hellos to one node, or between two to any.
        is_in_turn: the latter.
    """

    interval_ns: int
    is_in_turn: bool

    @property
    def patience_ns(self) -> int:
        """How long a node that is alive may not be heard, nor heard of."""
        if self.is_in_turn:
            return 2 * LOST * self.interval_ns + SLACK_NS + PRESENT_NS
        return LOST * self.interval_ns + SLACK_NS


CLOSE: Final = Cadence(KNOWN_NS, is_in_turn=False)


class Crowds:
    """How many nodes each location has.

    Args:
        hellos: of all nodes that are known.

    Attributes:
        sizes: by location.
    """

    def __init__(self, hellos: Iterable[Hello] = ()) -> None:
        self.sizes = Counter(hello.home for hello in hellos)

    def cadence(self, sender: LocationName, receiver: LocationName) -> Cadence:
        """How a node of one location greets another location."""
        if sender == receiver or not sender or not receiver:
            return CLOSE
        senders, receivers = self.sizes[sender], self.sizes[receiver]
        close_ns = max(KNOWN_NS, KNOWN_NS * senders * receivers // PAIRS)
        # Neighbours of a receiver must be able to name everybody that is heard there.
        elsewhere = self.sizes.total() - receivers
        told_ns = KNOWN_NS * elsewhere // (max(1, receivers - 1) * MAX_PRESENT)
        turn_ns = max(KNOWN_NS // 2, KNOWN_NS * senders // PAIRS, told_ns)
        if close_ns <= 2 * turn_ns:
            return Cadence(close_ns, is_in_turn=False)
        return Cadence(turn_ns, is_in_turn=True)


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
        self._heard_ns = {each: at_ns for each, at_ns in self._heard_ns.items() if now - at_ns <= PRESENT_NS}
        latest = list(reversed(self._heard_ns))[:MAX_PRESENT]
        return {address: (now - self._heard_ns[address]) // SECOND for address in latest}


def find_present(
    told: Mapping[str, int], neighbour: Hello, own: Hello | None, known: Mapping[NodeName, Hello]
) -> dict[NodeName, int]:
    """Which nodes a neighbour's word counts for: by name, how many nanoseconds ago each was heard by it.

    Args:
        told: seconds by address, as the hello has them.
        neighbour: its sender.
        own: this node's hello.
        known: the nodes that may be meant, by name.
    """
    if own is None or not own.home or neighbour.home != own.home:
        return {}
    names = {hello.view.node_ip: name for name, hello in known.items() if hello.home != own.home}
    ages = {names[address]: age * SECOND for address, age in list(told.items())[:MAX_PRESENT] if address in names}
    return {name: age_ns for name, age_ns in ages.items() if 0 <= age_ns <= PRESENT_NS + SECOND}
