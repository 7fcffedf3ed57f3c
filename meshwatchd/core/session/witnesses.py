"""Who speaks against a leg, and who for it: whether evidence is the leg's or one node's.

The sessions of a leg lead to several nodes. Evidence that comes from one of them accuses that node, not the leg. A node
is a *witness* from the instant at which doubt began:

- an *accuser* once one of its probes was missed;
- *innocent* of the charge of an arm once its own probes refute that arm by 20 to 1. Answers from before count for
  nothing, and one more miss makes it doubtful again. With a quarter of the buckets broken every node answers three
  probes in four: only a run of 16 answers refutes that charge, five refute that half of the probes are lost.

A leg is condemned on the word of several accusers while nobody is innocent. A node that was not asked yet has no veto:
in a group of hundreds a burst reaches a few of them. Everything here costs the same for three nodes and for a thousand.
"""

from __future__ import annotations

import math

from meshwatchd.core.session.cusum import HALF, QUARTER, Arm

REFUTED_NATS = -math.log(20)
"""Evidence of a single node that ends its part in a charge: it is wrong for one node in twenty, and not for long."""

MIN_ACCUSERS = 4
"""Nodes that must have lost a probe before their leg is condemned; all of them where there are fewer."""


class _Witness:
    __slots__ = ("half", "misses", "quarter", "turn")

    def __init__(self) -> None:
        self.turn = -1
        self.misses = 0
        self.half = self.quarter = 0.0


class Witnesses:
    """The nodes behind one leg, since doubt about it began."""

    __slots__ = ("_accusers", "_known", "_refuters_of_half", "_refuters_of_quarter", "_turn")

    def __init__(self) -> None:
        self._known: dict[str, _Witness] = {}
        self._turn = 0
        self._accusers = self._refuters_of_half = self._refuters_of_quarter = 0

    def begin(self) -> None:
        """Doubt begins: what was said before counts no more."""
        self._turn += 1
        self._accusers = self._refuters_of_half = self._refuters_of_quarter = 0

    def hit(self, peer: str) -> None:
        """A probe of that node was answered."""
        self._add(peer, HALF.hit_nats, QUARTER.hit_nats, 0)

    def miss(self, peer: str) -> None:
        """A probe of that node was not answered in time."""
        self._add(peer, HALF.miss_nats, QUARTER.miss_nats, 1)

    def heal(self, peer: str) -> None:
        """An answer came late: take the miss back, count a hit."""
        self._add(peer, HALF.hit_nats - HALF.miss_nats, QUARTER.hit_nats - QUARTER.miss_nats, -1)

    def forget(self, peer: str) -> None:
        """That node is gone: what it said counts no more."""
        witness = self._known.pop(peer, None)
        if witness is not None and witness.turn == self._turn:
            self._count(witness, -1)

    def are_unanimous(self, arm: Arm, nodes: int) -> bool:
        """Whether the charge of an arm stands against the leg as a whole.

        Args:
            arm: the one that tripped.
            nodes: how many nodes are behind the leg and not known to be dead themselves.
        """
        refuters = self._refuters_of_half if arm == HALF else self._refuters_of_quarter
        return 0 < min(nodes, MIN_ACCUSERS) <= self._accusers and refuters == 0

    def _add(self, peer: str, half: float, quarter: float, misses: int) -> None:
        witness = self._known.get(peer)
        if witness is None:
            witness = self._known[peer] = _Witness()
        if witness.turn != self._turn:
            witness.turn, witness.misses, witness.half, witness.quarter = self._turn, 0, 0.0, 0.0
        self._count(witness, -1)
        witness.misses = max(0, witness.misses + misses)
        witness.half = min(0.0, witness.half + half)
        witness.quarter = min(0.0, witness.quarter + quarter)
        self._count(witness, 1)

    def _count(self, witness: _Witness, by: int) -> None:
        if witness.misses:
            self._accusers += by
        if witness.half <= REFUTED_NATS:
            self._refuters_of_half += by
        if witness.quarter <= REFUTED_NATS:
            self._refuters_of_quarter += by
