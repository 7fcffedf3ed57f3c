"""The engine's own look at the mesh's WireGuard device: at the first answer that is missed, and while it is rewritten.

Kilo's agent on a leader that starts again takes the peers away for 0.2 s and says nothing: the nodes beyond the tunnel
see the silence of a leader that is dead. Whoever misses an answer over its own tunnel looks before it accuses anybody,
and says what it has seen in its next packets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.wireguard.glance import Glance, Peers
from meshwatchd.core.failover.topology_change_hold import exchanged
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.settings import MS, SECOND
from meshwatchd.model.snapshot import WireGuardState

CALM_NS: Final = 5 * SECOND
"""How old what a later look is compared with may be: counters that have become less were begun anew."""

REWRITING_NS: Final = 1 * SECOND
STEP_NS: Final = 25 * MS
"""For so long after a change, and so often, another is looked for: peers that have gone come back."""

DOUBT_NS: Final = 200 * MS
DOUBT_STEP_NS: Final = 20 * MS
"""An answer may be missed before the peers are gone: doubt is worth more than one look."""

PATIENCE_NS: Final = 500 * MS
"""A process that has not answered by then is asked again."""


class TunnelGlance:
    """Of one device, on a node that leads its location."""

    def __init__(
        self,
        *,
        poller: Poller,
        emit: Callable[[MeshStirred], object],
        glance: Callable[..., Glance] = Glance,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._emit, self._clock = emit, clock
        self._glance = glance(poller=poller, take=self._note)
        self._device = ""
        self._seen: tuple[WireGuardState, ...] = ()
        self._looked_ns = 0
        self._until_ns = self._next_ns = self._step_ns = 0

    def use(self, device: str) -> None:
        """Look at this device from here on; at none if it is empty."""
        if device != self._device:
            self._device, self._seen, self._until_ns, self._looked_ns = device, (), 0, -CALM_NS

    def doubt(self, now_ns: int) -> None:
        """An answer is missing: look at once, and again while others are waited for."""
        if self._device:
            self._press(now_ns, DOUBT_NS, DOUBT_STEP_NS)
            self._look(now_ns)

    def advance(self, now_ns: int) -> None:
        """Look again if it is time."""
        if self._next_ns <= now_ns < self._until_ns:
            self._look(now_ns)

    def refresh(self, now_ns: int) -> None:
        """In calm: remember what the device is like."""
        if self._device and now_ns - self._looked_ns >= CALM_NS:
            self._look(now_ns)

    def close(self) -> None:
        """Wait for no answer."""
        self._glance.close()

    def _press(self, now_ns: int, length_ns: int, step_ns: int) -> None:
        self._until_ns, self._step_ns = max(self._until_ns, now_ns + length_ns), step_ns

    def _look(self, now_ns: int) -> None:
        self._next_ns = now_ns + self._step_ns
        if not self._glance.is_waiting or now_ns - self._looked_ns >= PATIENCE_NS:
            self._looked_ns = now_ns
            self._glance.ask(self._device)

    def _note(self, device: str, peers: Peers) -> None:
        if device != self._device:
            return
        now_ns = self._clock()
        seen = (WireGuardState(device=device, public_key="", listen_port=0, at_ns=now_ns, peers=peers),)
        stirred, self._seen = exchanged(self._seen, seen), seen
        if stirred is not None:
            self._press(now_ns, REWRITING_NS, STEP_NS)
            self._next_ns = min(self._next_ns, now_ns + STEP_NS)
            self._emit(stirred)
