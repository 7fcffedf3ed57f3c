"""Which identity each name has, and how far two nodes are on the way to a key of their own.

    a name without an identity    its hellos are believed: its version has none
    first identity of a name      remembered
    the same                      believed
    another, or none any more     refused, unless the remembered one vouches for it or an operator forgets the name

Whoever holds the mesh key can introduce names, and cannot speak for a node that was introduced.

Probes pass from the keys of the mesh to a key of the pair without a loss, since each end accepts before the other
signs, and refuses only what the other has said it does not send:

    what the other has said    what this end does                          and what it says
    nothing       STRANGE      accepts the key of the pair                 after HOLD_NS: "I hold yours"
    I hold yours  HOLDS        signs own probes with it                    "and I sign with ours"
    I sign too    SIGNS        after GRACE_NS refuses what is signed with the key of the mesh

A node that has lost what it remembered says that it holds nothing, and its peer takes the steps back.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from meshwatchd.model.identity import PublicIdentity
from meshwatchd.model.settings import MINUTE, SECOND

MAX_PINS = 4096
"""As `replay_protection.MAX_KNOWN`."""

HOLD_NS = 10 * SECOND
"""From when the engine is told of a pair's key to the word that it accepts it: by then the engine has taken it over,
and it is on the disk (`discovery.SAVE_GAP_NS`), so that a restart forgets nothing that was said."""

GRACE_NS = MINUTE
"""Longer than probes are on their way, and until the step of the peer that says so is on its disk."""

REFUSED_NS = 95 * SECOND
"""Three hellos: who goes on saying so is named as long."""


class Step(StrEnum):
    """A peer's last word on the key of the pair."""

    STRANGE = "strange"
    HOLDS = "holds"
    SIGNS = "signs"


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a name.

    Attributes:
        identity: the one it has.
        step: the peer's last word.
        since_ns: when it said that first, monotonic.
        pinned_ns: when the identity was remembered.
        heard_ns: when this identity was heard last.
    """

    identity: PublicIdentity
    step: Step = Step.STRANGE
    since_ns: int
    pinned_ns: int
    heard_ns: int

    def is_held(self, now: int) -> bool:
        """Whether a hello to the peer may say that its identity is held here."""
        return now - self.pinned_ns >= HOLD_NS

    def is_alone(self, now: int) -> bool:
        """Whether the key of the pair is the only one that counts."""
        return self.step is Step.SIGNS and now - self.since_ns >= GRACE_NS


class Identities:
    """The identities of all names that were introduced.

    Args:
        forget_ns: a name whose identity was silent for so long may have another one (`discovery.forget`).
    """

    def __init__(self, forget_ns: int) -> None:
        self._forget_ns = forget_ns
        self._pins: dict[str, Pin] = {}
        self._agenda: list[tuple[int, str]] = []
        self._refused: dict[str, int] = {}

    def accepts(self, name: str, identity: PublicIdentity | None, former: bytes, now: int) -> bool:
        """Whether a hello with this identity may speak for the name; what may not is noted.

        Args:
            name: of the sender.
            identity: that has signed the hello; None for one of a version without.
            former: the public signing key that vouches for the identity, verified; empty without one.
            now: monotonic nanoseconds.
        """
        pin = self.find(name, now)
        if pin is None or identity == pin.identity or (identity is not None and former == pin.identity.signing):
            return True
        self._refused[name] = now
        while len(self._refused) > MAX_PINS:
            del self._refused[next(iter(self._refused))]
        return False

    def hear(self, name: str, identity: PublicIdentity, step: Step | None, now: int) -> bool:
        """Remember the identity of a hello that was accepted and proven; whether it is new.

        Args:
            name: of the sender.
            identity: that has signed the hello.
            step: the peer's word on the key of the pair; None where it says nothing.
            now: monotonic nanoseconds.
        """
        pin = self._pins.get(name)
        is_new = pin is None or pin.identity != identity
        if pin is None and len(self._pins) >= MAX_PINS and not self._make_room(now):
            return False
        if pin is None or is_new:
            pin = Pin(identity=identity, since_ns=now, pinned_ns=now, heard_ns=now)
            for due_ns in (now, now + HOLD_NS):
                heapq.heappush(self._agenda, (due_ns, name))
        if step is not None and step is not pin.step:
            pin = msgspec.structs.replace(pin, step=step, since_ns=now)
            heapq.heappush(self._agenda, (now, name))
            if step is Step.SIGNS:
                heapq.heappush(self._agenda, (now + GRACE_NS, name))
        self._pins[name] = msgspec.structs.replace(pin, heard_ns=now)
        return is_new

    def hear_of(self, name: str, at_ns: int) -> None:
        """The node of this name lives, by the word of another: its identity is not forgotten."""
        pin = self._pins.get(name)
        if pin is not None and pin.heard_ns < at_ns:
            self._pins[name] = msgspec.structs.replace(pin, heard_ns=at_ns)

    def _make_room(self, now: int) -> bool:
        """Those that were silent for long enough; whoever introduces names without end pushes out nobody."""
        self._pins = {name: pin for name, pin in self._pins.items() if now - pin.heard_ns < self._forget_ns}
        return len(self._pins) < MAX_PINS

    def find(self, name: str, now: int) -> Pin | None:
        """What is remembered of a name."""
        pin = self._pins.get(name)
        return None if pin is None or now - pin.heard_ns >= self._forget_ns else pin

    def pins(self) -> Iterator[tuple[str, Pin]]:
        """Everything that is remembered, to be kept."""
        return iter(self._pins.items())

    def restore(self, name: str, pin: Pin, now: int) -> None:
        """Take over what an earlier process remembered, with instants of this one's clock: on disk, so it is held."""
        self._pins[name] = msgspec.structs.replace(pin, pinned_ns=now - HOLD_NS)
        for due_ns in (now, pin.since_ns + GRACE_NS):
            heapq.heappush(self._agenda, (due_ns, name))

    def forget(self, name: str, now: int) -> bool:
        """An operator's word: the next identity of this name is a first one. Whether there was any."""
        self._refused.pop(name, None)
        heapq.heappush(self._agenda, (now, name))
        return self._pins.pop(name, None) is not None

    def take_due(self, now: int) -> tuple[str, ...]:
        """Names whose key has changed its state since the last call, each once, in the order in which they did."""
        due: dict[str, None] = {}
        while self._agenda and self._agenda[0][0] <= now:
            due[heapq.heappop(self._agenda)[1]] = None
        return tuple(due)

    def deadline(self) -> int | None:
        """When `take_due` has the next name."""
        return self._agenda[0][0] if self._agenda else None

    def refused(self, now: int) -> tuple[str, ...]:
        """Names in which somebody with another identity, or with none, has spoken lately; sorted."""
        self._refused = {name: at for name, at in self._refused.items() if now - at < REFUSED_NS}
        return tuple(sorted(self._refused))
