"""WireGuard devices, asked again and again: they tell nobody of a peer that comes, goes or is made anew.

All of them, every other second, more often while something is wrong or has just been done to the mesh's own. In doubt
the engine looks at that one itself (tunnel_glance.py): by the time this process is run on a busy node, it has decided.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from meshwatchd.adapters.wireguard.poll import Poll
from meshwatchd.core.audit.wireguard_changes import changes_more_than_counters, of_the_mesh
from meshwatchd.core.failover.topology_change_hold import exchanged
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.snapshot import Link, WireGuardState
from meshwatchd.runtime.beat import until_next_s
from meshwatchd.runtime.debounce import pause_s

POLL_S: Final = 2.0
POLL_IN_DOUBT_S: Final = 1.0
POLL_STIRRED_S: Final = 0.5
STIRRED_S: Final = 3.0
STIRRED_PAUSE_S: Final = 6.0
STIRRED_PEERS: Final = 200
"""Kilo's agent takes all peers away and brings them back within some tenths of a second. A look in between would stand
until the next one, for as long as it takes to call a peer missing (`confirm_ns` of the catalogue). So there are more
looks then, however long a busy machine takes for each; not where there are more peers than that, and not without a
pause where somebody changes the device again and again."""
KEPT_S: Final = 60.0
"""For how long a device that gives no answer counts as slow, and is as it was. After that nothing is known of it: its
counters stand still, so that a peer which falls silent, or answers again, would never be noticed."""
POLL_LATEST_S: Final = 10.0
POLL_PAUSE: Final = 200
"""A device with a thousand peers takes tens of milliseconds: looking at it may take half a percent of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Whom the poll asks, and whom it tells.

    Attributes:
        links: the devices of this node.
        device: the mesh's own.
        is_calm: whether nothing is wrong.
        observed: takes all devices as they are after each full look.
        changed: called when more than counters has changed.
        stirred: takes what was done to the mesh's own device.
        unread: takes a device that gives no answer, and why; what it was like before is kept for KEPT_S.
    """

    links: Callable[[], Sequence[Link]]
    device: Callable[[], str]
    is_calm: Callable[[], bool]
    observed: Callable[[tuple[WireGuardState, ...]], None]
    changed: Callable[[], None]
    stirred: Callable[[MeshStirred], None]
    unread: Callable[[str, str], object]


@dataclass(frozen=True, slots=True)
class _Reading:
    """Of a device: its index then, and the loop's second at which it was."""

    index: int
    at_s: float


class TunnelPoll:
    """One node's WireGuard devices.

    Attributes:
        states: as they were at the last full look; a device that gave no answer then, as it was when it last gave one,
            unless that is too long ago.
        told: those with few peers, as they were when more than counters had changed.
    """

    def __init__(
        self,
        around: Surroundings,
        poll: Callable[[], Poll] = Poll,
        until_next_s: Callable[[float], float] = until_next_s,
    ) -> None:
        self._around, self._until_next_s = around, until_next_s
        self._all = poll()
        self.states: tuple[WireGuardState, ...] = ()
        self.told: tuple[WireGuardState, ...] = ()
        self._own: tuple[WireGuardState, ...] = ()
        self._readings: dict[str, _Reading] = {}
        self._stirred_until_s = -STIRRED_PAUSE_S
        self._is_wanted = asyncio.Event()

    def doubt(self) -> None:
        """An answer is missing: the next look is due."""
        self._is_wanted.set()

    async def watch(self) -> None:
        """Look at all devices for ever; less often where that takes long."""
        around, clock = self._around, asyncio.get_running_loop().time
        while True:
            started_s = clock()
            self._is_wanted.clear()
            before, links = self._all.problems, around.links()
            read = await self._all.states(links)
            for device, problem in self._all.problems.items():
                if before.get(device) != problem:
                    around.unread(device, problem)
            self._note(tuple(state for state in read if state.device == around.device()), clock())
            self.states = self._with_unread(read, links, clock())
            around.observed(self.states)
            if changes_more_than_counters(self.told, told := of_the_mesh(self.states)):
                self.told = told
                around.changed()
            interval_s = self._until_next_s(POLL_S) if around.is_calm() else POLL_IN_DOUBT_S
            rest_s = pause_s(clock() - started_s, factor=POLL_PAUSE, longest_s=POLL_LATEST_S)
            if clock() < self._stirred_until_s and sum(len(state.peers) for state in self.states) <= STIRRED_PEERS:
                interval_s = rest_s = POLL_STIRRED_S
            await asyncio.sleep(min(rest_s, interval_s))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_wanted.wait(), max(interval_s, rest_s) - min(rest_s, interval_s))

    def _with_unread(
        self, read: tuple[WireGuardState, ...], links: Sequence[Link], now_s: float
    ) -> tuple[WireGuardState, ...]:
        """What was read, and devices that give no answer and were read not long ago, as they were then.

        A busy wireguard-go answers too late, and what is wrong with a device stands until it is read again. A device
        that was deleted is gone, with or without another of the same name: that one has another index. So is one whose
        process has ended and taken its socket away, though its tun stays.
        """
        indexes, present = {link.name: link.index for link in links}, {state.device for state in read}
        for device in present:
            self._readings[device] = _Reading(indexes[device], now_s)
        unread = (state for state in self.states if state.device not in present)
        kept = [
            state
            for state in unread
            if state.device in self._all.problems
            and self._readings[state.device].index == indexes.get(state.device)
            and now_s - self._readings[state.device].at_s < KEPT_S
        ]
        states = tuple(sorted((*read, *kept), key=attrgetter("device")))
        self._readings = {state.device: self._readings[state.device] for state in states}
        return states

    def _note(self, own: tuple[WireGuardState, ...], now_s: float) -> None:
        """Take in the mesh's own device; whether something was done to it is told at once."""
        stirred = exchanged(self._own, own)
        self._own = own or self._own
        if stirred is not None:
            self._around.stirred(stirred)
            if now_s >= self._stirred_until_s + STIRRED_PAUSE_S:
                self._stirred_until_s = now_s + STIRRED_S
            self._is_wanted.set()
