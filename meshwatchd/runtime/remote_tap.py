"""Taps for others: a node that bisects the way to this one asks its agent to watch for its probes.

    datagram --signed, for this node, affordable--> BEGIN    taps on both devices, READY
                                                    COLLECT  COUNTS
                                                    silence  taps closed

One exchange at a time, for a few seconds. What is not signed uses up nothing but time: so many datagrams a second are
looked at, and those that are signed are counted by themselves. An exchange begins once: replayed, it opens no tap.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from meshwatchd.adapters.tap.marks import ORDER
from meshwatchd.adapters.tap.taps import Taps, count_peer
from meshwatchd.model.bisection import SeriesName
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.topology import Node
from meshwatchd.wire.auth import MeshKeys, PairKey
from meshwatchd.wire.tap_request import TapContent, TapKind, TapMessage, decode, encode, find_pair

LIFE_S: Final = 5.0
"""A run is over by then; one that was forgotten ends."""
LOOKED_AT_PER_S: Final = 5_000
"""To find that one is not signed costs some 10 us."""
DATAGRAMS_PER_S: Final = 20
"""Of those that are."""
MAX_NONCES: Final = 4096
"""Exchanges of the past that are remembered; an operator begins one at a time."""

OpenTaps = Callable[[Node, int], Taps]
"""Taps for the probes of a node in a session; raises MeshwatchError."""


class _Exchange(msgspec.Struct):
    """Taps that somebody has asked for."""

    asker: NodeName
    nonce: int
    taps: Taps
    end_s: float
    is_collected: bool = False


class TapDesk:
    """Decides what becomes of each datagram; knows no socket.

    Args:
        keys: to believe and to sign; None where there are none.
    """

    def __init__(
        self,
        node: str,
        *,
        mesh: Callable[[], MeshSettings],
        keys: Callable[[], MeshKeys | None],
        open_taps: OpenTaps,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = NodeName(node)
        self._mesh, self._keys, self._open, self._clock = mesh, keys, open_taps, clock
        self._exchange: _Exchange | None = None
        self._second, self._seen, self._signed = 0, 0, 0
        self._past: dict[int, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether taps are open."""
        return self._exchange is not None

    def take(self, datagram: bytes) -> bytes | None:
        """The answer to a datagram, or None."""
        keys = self._keys() if self._is_affordable() else None
        pair = find_pair(datagram, keys) if keys is not None else None
        if not isinstance(pair, PairKey):
            return None
        message = decode(datagram, pair)
        if not isinstance(message, TapMessage) or message.content.target != self._node:
            return None
        self.read()
        is_current = self._exchange is not None and self._exchange.nonce == message.nonce
        if (message.nonce in self._past and not is_current) or self._signed >= DATAGRAMS_PER_S:
            return None
        self._signed += 1
        if message.kind is TapKind.BEGIN:
            content = self._begin(message)
            kind = TapKind.READY
        else:
            content = self._collect(message) if message.kind is TapKind.COLLECT else None
            kind = TapKind.COUNTS
        return None if content is None else encode(TapMessage(kind=kind, nonce=message.nonce, content=content), pair)

    def read(self) -> None:
        """Take in what has passed; an exchange whose time is up ends."""
        if self._exchange is not None:
            self._exchange.taps.read()
            if self._clock() >= self._exchange.end_s:
                self.close()

    def close(self) -> None:
        """End the exchange."""
        if self._exchange is not None:
            self._exchange.taps.close()
            self._exchange = None

    def _begin(self, message: TapMessage) -> TapContent | None:
        """Open taps, unless somebody else's are open; asked again, say again that they are."""
        asker = next((node for node in self._mesh().node if node.name == message.content.sender), None)
        if asker is None:
            return None
        exchange = self._exchange
        if exchange is None or (exchange.nonce != message.nonce and self._is_over_for(exchange, asker.name)):
            self.close()
            try:
                taps = self._open(asker, message.content.ssid)
            except MeshwatchError:
                return None
            exchange = self._exchange = _Exchange(asker.name, message.nonce, taps, self._clock() + LIFE_S)
            self._past[message.nonce] = None
            if len(self._past) > MAX_NONCES:
                del self._past[next(iter(self._past))]
        return self._answer(message) if exchange.nonce == message.nonce else None

    def _collect(self, message: TapMessage) -> TapContent | None:
        """What was seen; the taps stay until their time is up, since the answer may be lost and asked for again."""
        exchange = self._exchange
        if exchange is None or (exchange.asker, exchange.nonce) != (message.content.sender, message.nonce):
            return None
        exchange.is_collected = True
        return self._answer(message, *ORDER)

    def _answer(self, message: TapMessage, *names: SeriesName) -> TapContent:
        counts = tuple(count_peer(self._exchange.taps, name) for name in names) if self._exchange is not None else ()
        return TapContent(sender=self._node, target=message.content.sender, counts=counts)

    @staticmethod
    def _is_over_for(exchange: _Exchange, asker: str) -> bool:
        """Whether another exchange may take the place of this one."""
        return exchange.is_collected or exchange.asker == asker

    def _is_affordable(self) -> bool:
        second = int(self._clock())
        if second != self._second:
            self._second, self._seen, self._signed = second, 0, 0
        self._seen += 1
        return self._seen <= LOOKED_AT_PER_S
