"""Whom to greet next: soon while an address is new or something has changed, seldom otherwise, never too many at once.

new address          at once, then after 0.5 s, 1 s, 2 s ... up to the slow interval
something changed    every known address at once, and again after 0.5 s and 1 s, since a hello may be lost
nothing changes      each known address every 30 s, each other one every minute, with jitter
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable

import msgspec

from meshwatchd.model.settings import MS, SECOND

FIRST_NS = 500 * MS
KNOWN_NS, OTHER_NS = 30 * SECOND, 60 * SECOND
"""A node that is silent for three of the former is taken for dead (core.roster)."""

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
        asks: an answer is wanted, because nothing is known about who is there.
    """

    address: str
    asks: bool


class _Target(msgspec.Struct, kw_only=True):
    is_known: bool
    interval_ns: int = FIRST_NS
    due_ns: int = 0


class Pace:
    """When each address is greeted.

    Args:
        rng: for jitter.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._targets: dict[str, _Target] = {}
        self._queue: list[tuple[int, str]] = []
        self._tokens = float(BURST)
        self._filled_ns = 0

    def aim(self, *, known: Iterable[str], others: Iterable[str], now: int) -> None:
        """Greet these addresses and no more.

        Args:
            known: of nodes that were heard.
            others: where somebody may be.
            now: monotonic nanoseconds.
        """
        wanted = dict.fromkeys(others, False) | dict.fromkeys(known, True)
        for address in [address for address in self._targets if address not in wanted]:
            del self._targets[address]
        for address, is_known in wanted.items():
            target = self._targets.get(address)
            if target is None:
                self._targets[address] = _Target(is_known=is_known)
                self._plan(address, now)
            else:
                target.is_known = is_known

    def hurry(self, now: int) -> None:
        """Something has changed about this node: tell everybody that is known."""
        for address, target in self._targets.items():
            if target.is_known:
                target.interval_ns = FIRST_NS
                self._plan(address, now)

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
            slow_ns = KNOWN_NS if target.is_known else OTHER_NS
            chosen.append(Due(address=address, asks=not target.is_known or target.interval_ns < slow_ns))
            wait_ns = round(target.interval_ns * self._rng.uniform(1 - JITTER, 1 + JITTER))
            target.interval_ns = min(2 * target.interval_ns, slow_ns)
            self._plan(address, now + wait_ns)
        return chosen

    def deadline(self) -> int | None:
        """When `due` has somebody to greet; None while there is nobody."""
        if not self._queue:
            return None
        first_ns = self._queue[0][0]
        if self._tokens >= 1:
            return first_ns
        return max(first_ns, self._filled_ns + round((1 - self._tokens) * SECOND / RATE))

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
        """Whether to answer; counts as an answer if so.

        Args:
            asker: its address, its name and its boot epoch.
            now: monotonic nanoseconds.
        """
        if now - self._last_ns.get(asker, now - ANSWER_GAP_NS) < ANSWER_GAP_NS:
            return False
        if len(self._last_ns) >= MAX_REMEMBERED:
            self._last_ns.clear()
        self._last_ns[asker] = now
        return True
