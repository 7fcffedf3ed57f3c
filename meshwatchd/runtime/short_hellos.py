"""Hellos between nodes that know each other's word: what has not changed is not said again.

    this node --whole hello 7--> peer          remembered, with its number
              --short 8, "as since 5"-->       the word holds, since 7 was said later than 5
              --whole hello 9--> (lost)        the word has changed, and is said once to each peer
              --short 10, "as since 9"-->      unknown: the peer asks, and is answered with a whole one

Short ones go to whom can read them: a peer of this version, heard lately, whose key with this node both sign with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from meshwatchd.core.membership.roster import Roster
from meshwatchd.model.discovery import Hello
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.runtime.pair_keys import PairKeys
from meshwatchd.wire.auth import MeshKeys, MeshSecret, Purpose, node_id
from meshwatchd.wire.hello import Greeting, Stamp, fingerprint
from meshwatchd.wire.short_hello import ShortHello, decode, encode

CAPABILITY: Final = "short-hello"
"""In a hello: its sender reads short ones."""


class Known(NamedTuple):
    """A short hello with what is known of its sender, and the number of the whole hello that said so."""

    greeting: Greeting
    said: Stamp


class ShortHellos:
    """When a hello may be short, and the bytes of those that are."""

    def __init__(
        self,
        node: NodeName,
        secrets: Sequence[MeshSecret],
        roster: Roster,
        *,
        counters: Counter[str],
        bind: Callable[[Sequence[PairBinding]], None] = lambda _bindings: None,
    ) -> None:
        self._node, self._roster, self._counters, self._bind = node, roster, counters, bind
        self._keys = MeshKeys(node, secrets, Purpose.HELLOS)
        self._own: Hello | None = None
        self._since = Stamp(0, 0)
        self._told: set[NodeName] = set()

    def use_secrets(self, secrets: Sequence[MeshSecret]) -> None:
        """Sign and believe by these from here on.

        Raises:
            ValueError: they cannot be used together, and nothing has changed.
        """
        self._keys.replace(secrets)

    def bind(self, bindings: Sequence[PairBinding]) -> None:
        """Take the keys of pairs that have changed, and pass them on."""
        others = [each for each in bindings if each.peer != self._node]
        for each in others:
            if each.shared:
                self._keys.admit(each.peer)
            else:
                self._keys.remove_peer(each.peer)
        self._keys.bind(others)
        self._bind(bindings)

    def is_enough(self, own: Hello, stamp: Stamp, peer: NodeName | None, now: int) -> bool:
        """Whether a peer knows the word of this node, and reads a short hello; asked of every hello that is sent."""
        if own is not self._own or stamp.epoch != self._since.epoch:
            self._own, self._since, self._told = own, stamp, set()
        heard = self._roster.peers.get(peer) if peer is not None else None
        return (
            peer is not None
            and heard is not None
            and CAPABILITY in heard.hello.capabilities
            and self._roster.is_present(peer, now)
            and peer in self._told
            and self._keys.name(node_id(peer)) is not None
            and self._keys.sending(peer).is_bound
        )

    def tell(self, peer: NodeName) -> None:
        """A peer is told the word of this moment in whole; where that is lost, it asks after the next short one."""
        self._told.add(peer)

    def write(self, greeting: Greeting, peer: NodeName) -> bytes:
        """The datagram of a greeting for which a short hello is enough."""
        short = ShortHello(
            sender=greeting.sender,
            stamp=greeting.stamp,
            since=self._since.counter,
            seen=greeting.seen,
            report=greeting.report,
            knows=greeting.knows,
            present=greeting.present,
        )
        return encode(short, self._keys.sending(peer))

    def read(self, datagram: bytes, is_repeated: Callable[[str, Stamp, Stamp | None], bool]) -> ShortHello | None:
        """What a datagram says; None for what is none of ours, which is counted (`wire.short_hello`)."""
        short = decode(datagram, self._keys, is_repeated)
        if isinstance(short, ShortHello):
            return short
        self._counters[short] += 1
        return None

    def complete(self, short: ShortHello, pairs: PairKeys, now: int) -> Known | None:
        """What a short hello stands for; None where the word that it means was not heard, or counts no more.

        Its tag proves that both nodes hold each other's identity, and that the sender signs with the key of the pair.
        """
        name, own = NodeName(short.sender), pairs.identity
        heard, identity = self._roster.unchanged(name, short.stamp.epoch, short.since), pairs.known(name, now)
        if heard is None or identity is None or own is None:
            return None
        greeting = Greeting(
            sender=name,
            stamp=short.stamp,
            hello=heard.hello,
            seen=short.seen,
            knows=short.knows,
            present=short.present,
            holds=fingerprint(own.public),
            signs_pair=True,
            report=short.report,
            identity=identity,
        )
        return Known(greeting, Stamp(*heard.said))
