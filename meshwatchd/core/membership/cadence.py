"""How often nodes of two locations greet each other, by numbers that all of them know alike.

The engine reckons with it what hellos cost (`probing.rest_limits`), so this file needs no other.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from meshwatchd.model.settings import SECOND

KNOWN_NS: Final = 30 * SECOND
"""Between two hellos to a known node. One that is silent for three of them is taken for dead."""

PAIRS: Final = 100
"""Hellos between two locations in 30 s, each way: 10 and 10 nodes greet each other as often as any two do."""

MAX_PRESENT: Final = 16
"""Nodes named in one hello: 15 bytes each in a whole one, 5 in a short one."""

PRESENT_NS: Final = 75 * SECOND
"""For so long a node is named: two hellos to each neighbour, of which one may be lost."""

LOST: Final = 3
"""Three hellos in a row are lost by no accident, and who is greeted in turn is heard of by two of them."""
SLACK_NS: Final = 5 * SECOND

SILENT_NS: Final = LOST * KNOWN_NS + SLACK_NS
"""When a node that greets every 30 s is taken for dead."""


DIRECT_NS: Final = 240 * SECOND
"""Between two hellos of a relay to a leader of another location outside of the mesh, to ask where it is seen there."""

CROWD: Final = 3
"""All nodes that are no relays ask so together as often as so many relays: these hellos are whole, and answered."""


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

    def hellos_s(self, senders: int, receivers: int) -> float:
        """Hellos a second that all nodes of one location send those of the other."""
        return senders * (1 if self.is_in_turn else receivers) * SECOND / self.interval_ns


CLOSE: Final = Cadence(KNOWN_NS, is_in_turn=False)


def direct_ns(nodes: int, *, is_relay: bool) -> int:
    """Between two hellos of one node to one address outside of the mesh, in a location of so many nodes."""
    return DIRECT_NS if is_relay else DIRECT_NS * max(1, nodes // CROWD)


def cadence_between(senders: int, receivers: int, everybody: int) -> Cadence:
    """How a node of one location greets another location, by the numbers of nodes in either and in all."""
    close_ns = max(KNOWN_NS, KNOWN_NS * senders * receivers // PAIRS)
    # Neighbours of a receiver must be able to name everybody that is heard there.
    told_ns = KNOWN_NS * (everybody - receivers) // (max(1, receivers - 1) * MAX_PRESENT)
    turn_ns = max(KNOWN_NS // 2, KNOWN_NS * senders // PAIRS, told_ns)
    if close_ns <= 2 * turn_ns:
        return Cadence(close_ns, is_in_turn=False)
    return Cadence(turn_ns, is_in_turn=True)
