"""What prober and reflector share about the other nodes: keys, proven epochs, rate limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from meshwatchd.model.ids import NodeName
from meshwatchd.wire import MeshKeys, PairKey, ReplayGuard

PEER_ANSWERS_PER_S: Final = 2_000
"""A peer sends some 20 probes a second for each session and path, and ten times that in a confirm burst."""
ALL_ANSWERS_PER_S: Final = 20_000
"""About a third of one core: what a flood of valid requests may cost."""
_BURST_S: Final = 0.25
_SECOND_NS: Final = 1_000_000_000


class TokenBucket:
    """At most so many a second, with room for a quarter of a second's worth at once."""

    __slots__ = ("_burst", "_last_ns", "_rate_per_ns", "_tokens")

    def __init__(self, rate_per_s: int) -> None:
        self._rate_per_ns = rate_per_s / _SECOND_NS
        self._burst = rate_per_s * _BURST_S
        self._tokens = self._burst
        self._last_ns = 0

    def take(self, now_ns: int) -> bool:
        """Whether one more is allowed; `now_ns` never runs backwards."""
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
        the peer
            lost requests from lost answers.
    """

    __slots__ = ("answered", "bucket", "guard", "name")

    def __init__(self, name: NodeName) -> None:
        self.name = name
        self.guard = ReplayGuard()
        self.bucket = TokenBucket(PEER_ANSWERS_PER_S)
        self.answered: dict[int, int] = {}


class Peers:
    """The nodes of the mesh, this one included, found by name or by what a packet claims."""

    def __init__(self, keys: MeshKeys, names: Iterable[NodeName]) -> None:
        self._keys = keys
        self._peers = {name: Peer(name) for name in names}
        self.bucket = TokenBucket(ALL_ANSWERS_PER_S)
        for name in self._peers:
            keys.add_peer(name)

    def __contains__(self, name: NodeName) -> bool:
        return name in self._peers

    def peer(self, name: NodeName) -> Peer:
        """The node of that name; it must be one of the mesh."""
        return self._peers[name]

    def sending_key(self, name: NodeName) -> PairKey:
        """The key for probes to a node of the mesh."""
        return self._keys.sending(name)

    def claimed(self, node_id: int, key_id: int) -> tuple[Peer, PairKey] | None:
        """The node that a packet says it comes from, unverified; None for strangers."""
        key = self._keys.receiving(node_id, key_id)
        return None if key is None else (self._peers[NodeName(key.peer)], key)
