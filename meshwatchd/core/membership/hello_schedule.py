"""Whom to greet next: soon while an address is new or something has changed, seldom otherwise, never too many at once.

new address          at once, then after 0.5 s, 1 s, 2 s ... up to the slow interval
something changed    every known or urgent address at once, and again after 0.5 s and 1 s, since a hello may be lost
nothing changes      each known address every 30 s, each other one every minute or more seldom, with jitter
in turn              of large locations one address after the other (`membership.presence`); after a change each as
                     above, twice as late each time until its turn comes as soon
"""

from __future__ import annotations

import bisect
import heapq
import random
from collections.abc import Collection, Iterable, Mapping

import msgspec

from meshwatchd.core.membership.cadence import KNOWN_NS
from meshwatchd.model.settings import MS, SECOND

FIRST_NS = 500 * MS
OTHER_NS = 60 * SECOND

JITTER = 0.2
"""Nodes that started together must not greet together for ever."""

RATE = 200
"""Hellos a second while there is much to tell: 1 000 nodes hear of a change in 5 s, at 1 Mbit/s."""
BURST = 50


ANSWER_GAP_NS = 200 * MS
"""Between two answers to one epoch of a node: whoever asks more often has heard us already, and whoever replays what an
earlier epoch has asked uses up no answer of this one."""
MAX_REMEMBERED = 4096
"""Epochs of nodes that are remembered so as not to answer too often."""


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """One hello to be sent.

    Attributes:
        asks: an answer is wanted, unless who is there was heard lately.
    """

    address: str
    asks: bool


class Ring(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses that are greeted one after the other, besides what each is greeted after a change.

    Attributes:
        name: of the ring, unique.
        addresses: sorted; at least one.
        step_ns: between two hellos.
    """

    name: str
    addresses: tuple[str, ...]
    step_ns: int


class _Target(msgspec.Struct, kw_only=True):
    is_known: bool
    slow_ns: int
    is_in_turn: bool = False
    interval_ns: int = FIRST_NS
    due_ns: int | None = None


class _Turn(msgspec.Struct, kw_only=True):
    ring: Ring
    last: str
    due_ns: int


class Pace:
    """When each address is greeted."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._targets: dict[str, _Target] = {}
        self._queue: list[tuple[int, str]] = []
        self._turns: dict[str, _Turn] = {}
        self._urgent: Collection[str] = ()
        self._tokens = float(BURST)
        self._filled_ns = 0

    def aim(
        self,
        *,
        known: Mapping[str, int],
        others: Mapping[str, int],
        rings: Iterable[Ring] = (),
        urgent: Collection[str] = (),
        now: int,
    ) -> None:
        """Greet these addresses and no more.

        Args:
            known: of nodes that were heard, with the longest interval between two hellos to each.
            others: where somebody may be, likewise.
            rings: of known addresses; who is in one is left to it in the end.
            urgent: those of the others that are told of a change as well.
            now: monotonic nanoseconds.
        """
        self._urgent = urgent
        self._aim_rings(rings, now)
        in_turn = {address for turn in self._turns.values() for address in turn.ring.addresses}
        wanted = dict(others) | dict(known)
        for address in [address for address in self._targets if address not in wanted]:
            del self._targets[address]
        for address, slow_ns in wanted.items():
            latest_ns = now + round((1 + JITTER) * slow_ns)
            target = self._targets.get(address)
            is_new = target is None
            if target is None:
                target = self._targets[address] = _Target(is_known=False, slow_ns=slow_ns)
            target.is_known, target.slow_ns, target.is_in_turn = address in known, slow_ns, address in in_turn
            target.interval_ns = min(target.interval_ns, slow_ns)
            if is_new:
                self._plan(address, now)
            elif not target.is_in_turn and (target.due_ns is None or target.due_ns > latest_ns):
                self._plan(address, now + round(slow_ns * self._rng.random()))

    def _aim_rings(self, rings: Iterable[Ring], now: int) -> None:
        former, self._turns = self._turns, {}
        for ring in rings:
            turn = former.get(ring.name)
            if turn is None:
                first_ns = now + round(ring.step_ns * self._rng.random())
                turn = _Turn(ring=ring, last=self._rng.choice(ring.addresses), due_ns=first_ns)
            turn.ring, turn.due_ns = ring, min(turn.due_ns, now + round((1 + JITTER) * ring.step_ns))
            self._turns[ring.name] = turn

    def hurry(self, now: int) -> None:
        """Something has changed about this node: tell everybody that is known."""
        for address, target in self._targets.items():
            if target.is_known or address in self._urgent:
                self._hurry(address, target, now)

    def repeat(self, address: str, now: int) -> None:
        """What was said to one node must not wait for its turn if it was lost."""
        target = self._targets.get(address)
        if target is not None and target.is_in_turn:
            self._hurry(address, target, now + FIRST_NS)

    def due(self, now: int) -> list[Due]:
        """Whom to greet at this moment, at most as many as the rate allows."""
        self._refill(now)
        chosen = []
        while self._queue and self._queue[0][0] <= now and self._tokens >= 1:
            due_ns, address = heapq.heappop(self._queue)
            target = self._targets.get(address)
            if target is None or target.due_ns != due_ns:
                continue
            self._tokens -= 1
            chosen.append(Due(address=address, asks=not target.is_known or target.interval_ns < KNOWN_NS))
            if target.is_in_turn and target.interval_ns >= target.slow_ns:
                target.due_ns = None
                continue
            wait_ns = self._jittered(target.interval_ns)
            target.interval_ns = min(2 * target.interval_ns, target.slow_ns)
            self._plan(address, now + wait_ns)
        for turn in self._turns.values():
            if turn.due_ns <= now and self._tokens >= 1:
                self._tokens -= 1
                addresses = turn.ring.addresses
                turn.last = addresses[bisect.bisect_right(addresses, turn.last) % len(addresses)]
                turn.due_ns = now + self._jittered(turn.ring.step_ns)
                chosen.append(Due(address=turn.last, asks=False))
        return chosen

    def deadline(self) -> int | None:
        """When `due` has somebody to greet; None while there is nobody."""
        first = [self._queue[0][0]] if self._queue else []
        first_ns = min((*first, *(turn.due_ns for turn in self._turns.values())), default=None)
        if first_ns is None or self._tokens >= 1:
            return first_ns
        return max(first_ns, self._filled_ns + round((1 - self._tokens) * SECOND / RATE))

    def _jittered(self, interval_ns: int) -> int:
        return round(interval_ns * self._rng.uniform(1 - JITTER, 1 + JITTER))

    def _hurry(self, address: str, target: _Target, due_ns: int) -> None:
        target.interval_ns = FIRST_NS
        self._plan(address, due_ns)

    def _plan(self, address: str, due_ns: int) -> None:
        self._targets[address].due_ns = due_ns
        heapq.heappush(self._queue, (due_ns, address))

    def _refill(self, now: int) -> None:
        self._tokens = min(BURST, self._tokens + (now - self._filled_ns) * RATE / SECOND)
        self._filled_ns = now


class Answers:
    """Whom to answer, of those who ask."""

    def __init__(self) -> None:
        self._last_ns: dict[tuple[str, str, int], int] = {}

    def is_due(self, asker: tuple[str, str, int], now: int) -> bool:
        """Whether to answer; counts as an answer if so."""
        if now - self._last_ns.get(asker, now - ANSWER_GAP_NS) < ANSWER_GAP_NS:
            return False
        if len(self._last_ns) >= MAX_REMEMBERED:
            self._last_ns.clear()
        self._last_ns[asker] = now
        return True
