"""Whose hellos may be believed: an epoch that was proven, and a counter that only grows.

    hello of a known epoch, counter larger   believed
    hello of another epoch                   asked back: "answer this one of mine"
    answer to a hello of ours                believed, and its epoch with it
    counter no larger than one heard before  a repetition: no word of it counts, and nobody answers it
    an answer from elsewhere, while the      a second node of that name: refused, and named
    node is alive at its address

Recorded hellos cannot answer ours: a hello of ours is named by our own epoch and counter, which never come twice, and
counts as open for seconds only. What was proven is kept over a restart, so that an old epoch is refused after it too. A
node whose clock was set back and whose files are lost is believed again as soon as it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from enum import StrEnum
from typing import NamedTuple

from meshwatchd.model.settings import SECOND

MAX_OPEN = 4096
"""Hellos of ours that may still be answered; more than are sent in OPEN_NS."""

OPEN_NS = 10 * SECOND
"""Longer than any way there and back."""

MAX_KNOWN = 4096
"""Names remembered; a mesh has a thousand, and whoever signs new names without end has the mesh key. Nodes that come
and go, each with a name of its own, get there in weeks: `retain` makes room for those that come."""


ALIVE_NS = 95 * SECOND
"""Who has said something new within three hellos is alive, and whoever has its name elsewhere is another node. One that
was started again with another address is believed when its old one has been silent for so long."""

Stamp = tuple[int, int]
"""Boot epoch of a sender and count of its hellos in that epoch."""


class Judgement(StrEnum):
    """What a verified hello is worth; only NEWS may change anything."""

    NEWS = "news"
    REPEATED = "hello-repeated"
    OLD_EPOCH = "hello-old-epoch"
    UNPROVEN = "hello-unproven"
    TOO_MANY = "hello-too-many-names"
    RIVAL = "hello-duplicate-name"


class Rival(NamedTuple):
    """A node that goes by the name of another one.

    Attributes:
        name: of both.
        first: the address of the one that the mesh goes on with; empty where that is this node.
        second: of the other one.
    """

    name: str
    first: str
    second: str


class Acquaintances:
    """What is proven about each sender.

    Args:
        patience_ns: how long a node of this name may be silent and alive.
    """

    def __init__(self, epoch: int, patience_ns: Callable[[str], int] = lambda _name: ALIVE_NS) -> None:
        self._epoch, self._patience_ns = epoch, patience_ns
        self._counter = 0
        self._open: dict[int, int] = {}
        self._proven: dict[str, Stamp] = {}
        self._unproven: dict[tuple[str, int], int] = {}
        self._seen: dict[str, tuple[str, int]] = {}
        self._rivals: dict[str, tuple[Rival, int]] = {}

    def next_stamp(self, now: int) -> Stamp:
        """Epoch and counter of a hello that is about to be sent and may be answered."""
        self._counter += 1
        self._open[self._counter] = now
        while len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return self._epoch, self._counter

    def judge(self, sender: str, stamp: Stamp, *, place: str = "", answers: Stamp | None, now: int) -> Judgement:
        """Judge one verified hello and remember it.

        Args:
            sender: its name.
            stamp: its boot epoch, and its count of hellos in that epoch.
            place: the address that it gives for the node.
            answers: the stamp of the hello that it claims to answer.
            now: monotonic nanoseconds.
        """
        if self.is_repeated(sender, stamp, answers):
            return Judgement.REPEATED
        epoch, counter = stamp
        known = self._proven.get(sender)
        if answers is not None and answers[0] == self._epoch:
            sent_ns = self._open.pop(answers[1], None)
            if sent_ns is not None and now - sent_ns <= OPEN_NS and (known is None or known[0] != epoch):
                if known is None and len(self._proven) >= MAX_KNOWN:
                    return Judgement.TOO_MANY
                if self._is_rival(sender, place, now):
                    return Judgement.RIVAL
                self._unproven.pop((sender, epoch), None)
                return self._believe(sender, stamp, place, now)
        if known is None or known[0] != epoch:
            self._unproven[sender, epoch] = counter
            while len(self._unproven) > MAX_KNOWN:
                del self._unproven[next(iter(self._unproven))]
            return Judgement.UNPROVEN if known is None or epoch > known[0] else Judgement.OLD_EPOCH
        return Judgement.REPEATED if counter <= known[1] else self._believe(sender, stamp, place, now)

    def _believe(self, sender: str, stamp: Stamp, place: str, now: int) -> Judgement:
        self._proven[sender], self._seen[sender] = stamp, (place, now)
        return Judgement.NEWS

    def hear_of(self, sender: str, place: str, at_ns: int) -> None:
        """A neighbour has heard the node at its address."""
        at, seen_ns = self._seen.get(sender, ("", 0))
        if at == place:
            self._seen[sender] = place, max(seen_ns, at_ns)

    def is_repeated(self, sender: str, stamp: Stamp, answers: Stamp | None) -> bool:
        """Whether this hello, or a later one of its epoch, has been heard; what answers us may come late.

        Nobody has a later hello of a living node than that node: whoever replays recorded ones uses up nothing that it
        is entitled to.
        """
        epoch, counter = stamp
        if answers is not None and answers[0] == self._epoch and answers[1] in self._open:
            return False
        known = self._proven.get(sender)
        latest = known[1] if known is not None and known[0] == epoch else self._unproven.get((sender, epoch), 0)
        return counter <= latest

    def hear_own_name(self, name: str, epoch: int, *, place: str, now: int) -> None:
        """A verified hello under this node's own name.

        What this node has said itself, or an earlier process of it, has no later epoch than its own.
        """
        if epoch > self._epoch:
            self._rivals[name] = (Rival(name, "", place), now)

    def hear_other_identity(self, sender: str, *, place: str, now: int) -> None:
        """A verified hello under the name of another node, which is remembered by its identity."""
        self._is_rival(sender, place, now)

    def _is_rival(self, sender: str, place: str, now: int) -> bool:
        """Whether a node of this name is alive at another address; if so, the two are named."""
        at, seen_ns = self._seen.get(sender, ("", 0))
        if not (at and place) or at == place or now - seen_ns >= self._patience_ns(sender):
            return False
        self._rivals[sender] = (Rival(sender, at, place), now)
        return True

    def rivals(self, now: int) -> tuple[Rival, ...]:
        """Names that two living nodes go by, in the order of the names."""
        self._rivals = {name: each for name, each in self._rivals.items() if now - each[1] < ALIVE_NS}
        return tuple(rival for _, (rival, _) in sorted(self._rivals.items()))

    def renew(self, epoch: int) -> None:
        """This process goes on under another epoch: peers have heard more from it than it remembers."""
        self._epoch, self._counter = epoch, 0

    def restore(self, sender: str, epoch: int, counter: int) -> None:
        """Take over what an earlier process had proven."""
        self._proven[sender] = (epoch, counter)

    def retain(self, senders: Container[str]) -> None:
        """Drop all others: whoever comes back is a stranger, who has to answer before a word of it counts."""
        self._proven = {sender: stamp for sender, stamp in self._proven.items() if sender in senders}
        self._seen = {sender: seen for sender, seen in self._seen.items() if sender in senders}

    def proven(self) -> Iterator[tuple[str, int, int]]:
        """Name, epoch and highest counter of everybody, to be kept."""
        return ((sender, epoch, counter) for sender, (epoch, counter) in self._proven.items())
