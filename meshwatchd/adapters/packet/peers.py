"""What prober and reflector share about the other nodes: keys, proven epochs, rate limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import Settings
from meshwatchd.model.timers import TIMERS
from meshwatchd.wire.auth import MeshKeys, MeshSecret, PairKey
from meshwatchd.wire.replay import ReplayGuard
from meshwatchd.wire.seal import peek

PEER_SESSIONS: Final = 200
"""Sessions one peer may have towards this node: ten times what all layers, paths and classes of two locations make."""
HONEST_FACTOR: Final = 2
"""Confirm bursts and answers to operators come on top of the regular probes."""
ALL_ANSWERS_PER_S: Final = 50_000
"""More than one core can answer: 1 000 peers with 4 sessions at 10 Hz, and a quarter for bursts."""
_BURST_S: Final = 0.25
_SECOND_NS: Final = 1_000_000_000


class Budgets(NamedTuple):
    """How many answers a second there are, for one peer and in all."""

    peer_per_s: int
    all_per_s: int


def budgets_of(settings: Settings, nodes: int | None = None) -> Budgets:
    """What the mesh's timers can honestly ask for: twice the regular probes of all sessions a peer may have.

    The mesh's nodes share one configuration, so this node's interval is theirs. In all: the sum over the peers, but
    no more than a core can do.
    """
    count = len(settings.mesh.node) if nodes is None else nodes
    per_s = PEER_SESSIONS * HONEST_FACTOR * _SECOND_NS // TIMERS[settings.probe.profile].interval_ns
    return Budgets(per_s, min(ALL_ANSWERS_PER_S, max(1, count - 1) * per_s))


class TokenBucket:
    """At most so many a second, with room for a burst: a quarter of a second's worth unless told otherwise, one at
    least.
    """

    __slots__ = ("_burst", "_last_ns", "_rate_per_ns", "_tokens")

    def __init__(self, rate_per_s: int, *, burst: float | None = None) -> None:
        self._rate_per_ns = rate_per_s / _SECOND_NS
        self._burst = max(1.0, rate_per_s * _BURST_S) if burst is None else burst
        self._tokens = self._burst
        self._last_ns = 0

    def is_empty(self, now_ns: int) -> bool:
        """Whether `take` would refuse."""
        return self._tokens < 1 and self._tokens + (now_ns - self._last_ns) * self._rate_per_ns < 1

    def take(self, now_ns: int) -> bool:
        """Whether one more is allowed; `now_ns` never runs backwards."""
        if now_ns != self._last_ns:
            # Whatever came in one batch came at one instant.
            self._tokens = min(self._burst, self._tokens + (now_ns - self._last_ns) * self._rate_per_ns)
            self._last_ns = now_ns
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Peer:
    """One other node.

    Attributes:
        guard: which of its requests may be acted on.
        bucket: how many answers it gets.
        answered: this reflector's count of answers, by the peer's SSID; the answers carry it, which tells
            the peer lost requests from lost answers.
        other_keys: how often to tell of requests in its name that are signed with another key than ours.
        reads_brief: its requests do not say that it is of a version which drops mesh TLVs of 54 bytes.
    """

    __slots__ = ("answered", "bucket", "guard", "name", "other_keys", "reads_brief")

    def __init__(self, name: NodeName, answers_per_s: int) -> None:
        self.name = name
        self.guard = ReplayGuard()
        self.bucket = TokenBucket(answers_per_s)
        self.answered: dict[int, int] = {}
        # Once a second is enough to see that it goes on; anybody can send such requests.
        self.other_keys = TokenBucket(1, burst=1)
        self.reads_brief = True


class Peers:
    """The nodes of the mesh, this one included, found by name or by what a packet claims.

    Attributes:
        bucket: how many answers all nodes get together.
        rotations: how often the keys were changed: what was learnt under a key before is to be learnt anew.
    """

    def __init__(self, keys: MeshKeys, names: Iterable[NodeName], budgets: Budgets) -> None:
        self._keys = keys
        self._peers = {name: Peer(name, budgets.peer_per_s) for name in names}
        self.bucket = TokenBucket(budgets.all_per_s)
        self._all_per_s = budgets.all_per_s
        self.rotations = 0
        for name in self._peers:
            keys.add_peer(name)

    def know(self, names: Iterable[NodeName], budgets: Budgets) -> None:
        """The mesh has these nodes from here on; windows, epochs and budgets of those that stay go on."""
        wanted = dict.fromkeys(names)
        for name in [name for name in self._peers if name not in wanted]:
            del self._peers[name]
            self._keys.remove_peer(name)
        for name in wanted:
            if name not in self._peers:
                self._peers[name] = Peer(name, budgets.peer_per_s)
                self._keys.add_peer(name)
        if budgets.all_per_s != self._all_per_s:
            self._all_per_s = budgets.all_per_s
            self.bucket = TokenBucket(budgets.all_per_s)

    def __contains__(self, name: NodeName) -> bool:
        return name in self._peers

    def peer(self, name: NodeName) -> Peer:
        """The node of that name; it must be one of the mesh."""
        return self._peers[name]

    def sending_key(self, name: NodeName) -> PairKey:
        """The key for probes to a node of the mesh."""
        return self._keys.sending(name)

    @property
    def signing_id(self) -> int:
        """The key id of the mesh secret behind the keys of own probes."""
        return self._keys.signing_id

    def use(self, secrets: Sequence[MeshSecret]) -> tuple[int, tuple[int, ...]]:
        """Change the secrets and nothing else: windows, epochs and budgets go on.

        Returns:
            The key id that signs, and those that are accepted.

        Raises:
            ValueError: they cannot be used together, and nothing has changed.
        """
        self._keys.replace(secrets)
        self.rotations += 1
        return self._keys.signing_id, self._keys.accepted_ids

    def bind(self, bindings: Sequence[PairBinding]) -> None:
        """Take over how probes to and from some nodes are signed; whether these are of the mesh does not matter."""
        self._keys.bind(bindings)
        self.rotations += 1

    def answering_key(self, name: NodeName, packet: bytes) -> PairKey | None:
        """The key that an answer of this peer claims; the probe it answers may have been signed before a rotation."""
        claim = peek(packet)
        key = None if claim is None else self._keys.receiving(*claim)
        return key if key is not None and key.peer == name else None

    def named(self, node_id: int) -> Peer | None:
        """The node a packet claims to come from, whatever it is signed with."""
        name = self._keys.name(node_id)
        return None if name is None else self._peers[NodeName(name)]

    def claimed(self, node_id: int, key_id: int) -> tuple[Peer, PairKey] | None:
        """The node that a packet says it comes from, unverified; None for strangers."""
        key = self._keys.receiving(node_id, key_id)
        return None if key is None else (self._peers[NodeName(key.peer)], key)
