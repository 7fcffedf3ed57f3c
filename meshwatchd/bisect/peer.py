"""Asking the node at the far end of the overlay to tap, over the underlay: its agent answers at once, or not at all.

The question goes by node addresses, beside the overlay that is in doubt. Without an answer the run is one-sided, as it
is with peers of another version.
"""

from __future__ import annotations

import socket
import time
from random import Random
from typing import Final, Self

from meshwatchd.bisect.leg import Leg
from meshwatchd.model.bisection import PeerCounts
from meshwatchd.model.port_map import tap_port
from meshwatchd.wire.auth import MeshKeys, PairKey
from meshwatchd.wire.tap_request import MAX_BYTES, TapContent, TapKind, TapMessage, decode, encode, find_pair

PATIENCE_S: Final = 0.3
"""For each of the two answers; an agent takes a few milliseconds on top of the round trip."""
REPEAT_S: Final = 0.1
"""A datagram may be lost."""


class UdpPeerTaps:
    """One exchange with the agent of `leg.via`.

    Args:
        keys: of purpose `auth.Purpose.TAPS`; they know `leg.via`.
    """

    def __init__(self, keys: MeshKeys, random: Random) -> None:
        self._keys = keys
        self._nonce = random.getrandbits(64)
        self._socket: socket.socket | None = None
        self._leg: Leg | None = None
        self._is_ready = False

    def begin(self, leg: Leg, ssid: int) -> None:
        """Have `leg.via` tap; without an underlay nobody is asked."""
        if not leg.underlay_destination:
            return
        self._leg = leg
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((leg.underlay_source, 0))
            self._socket.connect((leg.underlay_destination, tap_port(leg.underlay_port)))
        except OSError:
            return
        self._is_ready = self._ask(TapKind.BEGIN, TapKind.READY, ssid=ssid) is not None

    def counts(self) -> tuple[PeerCounts, ...]:
        """What it has seen; empty where it did not tap or does not answer."""
        told = self._ask(TapKind.COLLECT, TapKind.COUNTS) if self._is_ready else None
        return told.content.counts if told is not None else ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def _ask(self, kind: TapKind, wanted: TapKind, *, ssid: int = 0) -> TapMessage | None:
        assert self._socket is not None
        assert self._leg is not None
        content = TapContent(sender=self._leg.node, target=self._leg.via, ssid=ssid)
        question = encode(TapMessage(kind=kind, nonce=self._nonce, content=content), self._keys.sending(self._leg.via))
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            try:
                self._socket.send(question)
                answer = self._listen(wanted, min(end_s, time.monotonic() + REPEAT_S))
            except OSError:
                # Nobody listens there: its ICMP error comes with the next call, and asking again changes nothing.
                return None
            if answer is not None:
                return answer
        return None

    def _listen(self, wanted: TapKind, until_s: float) -> TapMessage | None:
        assert self._socket is not None
        assert self._leg is not None
        while (left_s := until_s - time.monotonic()) > 0:
            self._socket.settimeout(left_s)
            try:
                datagram = self._socket.recv(MAX_BYTES + 1)
            except TimeoutError:
                return None
            pair = find_pair(datagram, self._keys)
            told = decode(datagram, pair) if isinstance(pair, PairKey) else pair
            if isinstance(told, TapMessage) and (told.kind, told.nonce, told.content.sender, told.content.target) == (
                wanted,
                self._nonce,
                self._leg.via,
                self._leg.node,
            ):
                return told
        return None
