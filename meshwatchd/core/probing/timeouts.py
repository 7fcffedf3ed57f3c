"""How long answers are waited for: until the wait of the leg is over, or until a later probe has outrun them."""

from __future__ import annotations

from collections.abc import Container

from meshwatchd.core.session.session import Session
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import SECOND

LATENESS_SHARE = 4
"""Lateness of less than a quarter of the shortest wait is lost in it."""

MAX_WIDENING_NS = 1 * SECOND
"""The prober forgets probes that are older; a process that is later than that is stalled, not late."""


class Waits:
    """Probes of one leg whose answers are waited for, in the order in which the waits end.

    The wait covers a stall of the leg and of both machines. A probe that left later for the same node and is answered
    shows that there is none: what it has outrun is waited for as long as an answer usually takes and not for longer
    (after RFC 8985, which calls such segments lost).

    Attributes:
        queue: when a wait ends, whose it is, and of which probe. A list: large meshes have a thousand legs with a few
            entries each, and an empty deque takes 760 bytes.
        outrun: by peer, when the latest probe left that was answered.
        armed_at: the entry of the heap that counts; None while nothing is waited for.
    """

    __slots__ = ("armed_at", "outrun", "queue")

    def __init__(self) -> None:
        self.queue: list[tuple[int, Session, int]] = []
        self.outrun: dict[NodeName, int] = {}
        self.armed_at: int | None = None

    def retain(self, peers: Container[NodeName]) -> None:
        """Forget whom nobody asks any more."""
        for peer in [peer for peer in self.outrun if peer not in peers]:
            del self.outrun[peer]

    def end(self, late_ns: int) -> int | None:
        """When the first wait ends that was not ended by an answer, where this process is late by so much itself."""
        queue = self.queue
        while queue:
            at, session, seq = queue[0]
            sent_at = session.outstanding.get(seq)
            if sent_at is not None:
                if sent_at < self.outrun.get(session.plan.peer, 0):
                    return min(at, sent_at + session.delay.outrun_ns + late_ns)
                return at
            del queue[0]
        return None


def widening_ns(late_ns: int, shortest_ns: int) -> int:
    """What is added to every wait for the lateness of this process; nothing where the shortest wait covers it."""
    return min(late_ns, MAX_WIDENING_NS) if late_ns * LATENESS_SHARE > shortest_ns else 0
