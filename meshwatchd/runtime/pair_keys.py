"""This node's identity, those of its peers, and the keys of pairs that follow from both.

identity.key ---> own identity --signs--> hellos
hellos of peers --core.membership.identities--> remembered identities
own and remembered identity --X25519--> PairBinding --> engine, which signs and verifies probes with it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from meshwatchd.adapters.identity import NodeIdentity, load_identity
from meshwatchd.adapters.storage.mesh_file import KeptIdentity
from meshwatchd.core.membership.identities import Identities, Pin, Step
from meshwatchd.model.errors import ConfigError, KernelError
from meshwatchd.model.identity import PairBinding, PublicIdentity
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.hello import FINGERPRINT_BYTES, Greeting, fingerprint

OTHER_IDENTITY: Final = (
    "it is signed by another identity than this name had before, or by none; if the node was reinstalled, restore"
    " identity.key of its state directory, or run on each node that refuses it: meshwatchctl forget NODE; otherwise"
    " somebody who has the mesh key speaks in its name: change the key"
)


NOTHING_HELD: Final = bytes(FINGERPRINT_BYTES)
"""No identity's fingerprint: what a node says that does not know the receiver's yet, or has forgotten it."""


class PairKeys:
    """Who may speak for which name, and how probes to it are signed.

    Attributes:
        identity: this node's own; None where it cannot be had.
        problem: why there is none.
    """

    def __init__(
        self, node: NodeName, folder: Path, *, forget_ns: int, tell: Callable[[Sequence[PairBinding]], None]
    ) -> None:
        self._node, self._tell = node, tell
        self._pins = Identities(forget_ns)
        self.identity: NodeIdentity | None = None
        self.problem = ""
        try:
            self.identity = load_identity(folder)
        except (ConfigError, KernelError) as error:
            self.problem = f"{error}; without an identity others can speak in this node's name"
            return
        # Probes to the own reflector are for nobody else's eyes.
        own = PairBinding(peer=node, shared=self.identity.share(self.identity.public), signs=True, is_alone=True)
        tell((own,))

    def accepts(self, greeting: Greeting, now: int) -> bool:
        """Whether a verified hello may speak for its name."""
        return self._pins.accepts(greeting.sender, greeting.identity, greeting.former, now)

    def hear(self, greeting: Greeting, now: int) -> None:
        """Remember the identity of a hello that was accepted and proven, and its word on the key of the pair."""
        if greeting.identity is not None:
            self._pins.hear(greeting.sender, greeting.identity, self._step(greeting), now)

    def known(self, name: str, now: int) -> PublicIdentity | None:
        """The identity that a name is remembered by."""
        pin = self._pins.find(name, now)
        return pin.identity if pin is not None else None

    def hear_of(self, name: str, at_ns: int) -> None:
        """A node lives, by the word of another."""
        self._pins.hear_of(name, at_ns)

    def _step(self, greeting: Greeting) -> Step | None:
        if not greeting.holds:
            return None
        if self.identity is None or greeting.holds != fingerprint(self.identity.public):
            return Step.STRANGE
        return Step.SIGNS if greeting.signs_pair else Step.HOLDS

    def word_to(self, peer: NodeName, now: int) -> tuple[bytes, bool]:
        """What a hello to a peer says of the pair's key: `Greeting.holds` and `signs_pair`."""
        pin = self._pins.find(peer, now)
        if pin is None or not pin.is_held(now):
            return NOTHING_HELD, False
        return fingerprint(pin.identity), pin.step is not Step.STRANGE

    def advance(self, now: int) -> tuple[str, ...]:
        """Pass on what has changed; returns the peers that have to hear of it."""
        due = self._pins.take_due(now)
        if due and self.identity is not None:
            self._tell([self._bind(self.identity, NodeName(name), now) for name in due])
        return due

    def _bind(self, own: NodeIdentity, name: NodeName, now: int) -> PairBinding:
        pin = self._pins.find(name, now)
        if pin is None:
            return PairBinding(peer=name)
        shared = own.share(pin.identity)
        return PairBinding(peer=name, shared=shared, signs=pin.step is not Step.STRANGE, is_alone=pin.is_alone(now))

    def deadline(self) -> int | None:
        """When `advance` has something to do."""
        return self._pins.deadline()

    def problems(self, now: int) -> tuple[str, ...]:
        """What an operator should know, as sentences."""
        own = (self.problem,) if self.problem else ()
        return (
            *own,
            *(f"hellos in the name of {name} are refused: {OTHER_IDENTITY}" for name in self._pins.refused(now)),
        )

    def forget(self, name: str, now: int) -> bool:
        """Accept whatever identity this name has next; whether one was remembered."""
        return self._pins.forget(name, now)

    def kept(self, now: int, wall_ns: int) -> tuple[KeptIdentity, ...]:
        """For the file."""
        return tuple(
            KeptIdentity(
                name=NodeName(name),
                identity=pin.identity,
                step=pin.step,
                since_ns=wall_ns - (now - pin.since_ns),
                heard_ns=wall_ns - (now - pin.heard_ns),
            )
            for name, pin in self._pins.pins()
        )

    def restore(
        self, identities: Iterable[KeptIdentity], own: PublicIdentity | None, *, now: int, wall_ns: int
    ) -> None:
        """From the file.

        Args:
            identities: what was remembered.
            own: this node's identity when it was written: what peers said of the pair's key was about that one.
            now: monotonic nanoseconds.
            wall_ns: nanoseconds since 1970.
        """
        is_same = self.identity is not None and self.identity.public == own
        ahead_ns = wall_ns - now
        for each in identities:
            pin = Pin(
                identity=each.identity,
                step=each.step if is_same else Step.STRANGE,
                # A clock that is behind, as where a machine has none, must not put off the key of the pair.
                since_ns=min(now, each.since_ns - ahead_ns),
                pinned_ns=now,
                heard_ns=min(now, each.heard_ns - ahead_ns),
            )
            self._pins.restore(each.name, pin, now)
