"""Scouts of two locations ask between one another's probes, so that the path in use is never unseen for long.

Four scouts that each ask every 200 ms see a path every 50 ms only if they are evenly spread. By chance they are not:
the longest gap is two to six times that, and a fault that begins in it is noticed so much later. No clocks are
compared. A scout hears those of the other side ask it, and moves its own places a little towards where they should be.
It follows those whose place comes before its own, so that nobody follows his own follower.

The interval of a session has as many places as there are sessions between scouts. They are numbered from 0 and
alternate between the sides: the first scout of one side has place 0, the first of the other side place 1, the second
of the first side place 2. From there each node has every so many places, as often as it asks in an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from meshwatchd.core.probing.round_robin import Turn
from meshwatchd.core.session.session import Session
from meshwatchd.model.ids import NodeName

GAIN = 4
"""Each request that is heard moves a round by one part in so many of the way: a late one does little, ten of them do
nearly all. Nodes that desynchronise by hearing each other damp it likewise (Degesys et al., DESYNC, IPSN 2007)."""


def followed(name: NodeName, here: Sequence[NodeName], there: Sequence[NodeName]) -> tuple[tuple[NodeName, int], ...]:
    """Whom of the other side a scout follows, and by how many places after being asked by them.

    Args:
        name: one of `here`.
        here: the scouts of its location, the first in front.
        there: those of the other one.
    """
    # A scout that is alone has places for all that it asks, so that its requests tell each of them its own.
    is_first = (len(here), here) < (len(there), there)
    rank, side = here.index(name), 0 if is_first else 1
    # It asks the scouts of a side in their order, in even steps: the one at this rank so many places after the first.
    reached = rank * 2 * len(there)
    return tuple(
        (peer, place - before - reached)
        for number, peer in enumerate(there)
        if (place := 2 * rank + side) > (before := 2 * number + 1 - side)
    )


class Interleaving:
    """What the rounds of one node follow."""

    __slots__ = ("_followed",)

    def __init__(self) -> None:
        self._followed: dict[tuple[NodeName, int], tuple[Turn, Session, int]] = {}

    def lay_out(self, turns: Iterable[Turn]) -> None:
        """Follow for these rounds from here on."""
        self._followed = {
            (session.plan.peer, turn.kind.path): (turn, session, places)
            for turn in turns
            for peer, places in turn.kind.followed or ()
            for session in turn.sessions
            if session.plan.peer == peer
        }

    def heard(self, peer: NodeName, path: int, now: int) -> None:
        """A peer's request by a fresh flow over a path has come: move the places of whoever follows it."""
        if (found := self._followed.get((peer, path))) is None:
            return
        turn, session, places = found
        if turn.interval_ns != turn.rest_ns or turn.is_booked:
            return
        # Even when they leave, for then both ends of a long line are seen about as evenly; both leave as early.
        place = now - session.rtt_ns // 2 + turn.jitter_ns // 2
        ahead = (place + places * turn.interval_ns // turn.kind.scouts - turn.grid) % turn.step_ns
        turn.grid += (ahead if ahead <= turn.step_ns // 2 else ahead - turn.step_ns) // GAIN
