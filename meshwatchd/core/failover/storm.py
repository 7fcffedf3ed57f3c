"""The storm rule: when most locations go bad at once, the cause is near, and haste is wrong.

A node that loses one location has seen a fault over there. A node that loses most of them within moments has seen its
own leader fail, its own network, or itself. Its own leader is what a standby on this side is for: a move that leaves
the relay which all condemned paths share is made at once. Any other has to wait until the standby has been good for
longer than such events usually last, since answers that come through the same relay come by luck.
"""

from __future__ import annotations

from meshwatchd.model.settings import MS, SECOND

WINDOW_NS = 5 * SECOND
"""Locations lost within this time of each other are lost at once."""

CALM_NS = 500 * MS
"""How long a standby that shares the suspected relay must have been good since the storm began."""


class Storm:
    """What all pairs of locations of one node say together.

    Args:
        least: so many locations at once make a storm, if they are more than half of all.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._down: dict[int, int] = {}
        self._pairs = 0

    def begin(self, pairs: int) -> None:
        """There are so many pairs of locations from here on."""
        self._pairs = pairs
        self._down.clear()

    def note(self, pair: int, down_since: int) -> None:
        """The path in use of a pair was condemned then; 0 says that it is not condemned."""
        if down_since:
            self._down[pair] = down_since
        else:
            self._down.pop(pair, None)

    def began(self, now: int) -> int:
        """When the storm that rages began; 0 where there is none."""
        if len(self._down) < self._least or len(self._down) * 2 <= self._pairs:
            return 0
        recent = sorted(at for at in self._down.values() if now - at < WINDOW_NS)
        if len(recent) < self._least or len(recent) * 2 <= self._pairs:
            return 0
        return recent[0]
