"""Keeps connections alive that leave a relay and come back: its connection tracking must not call them INVALID.

Once for each pair of locations and each time its traffic goes by other relays; `adapters.netlink.conntrack` says why.
Only in mode enforce, since nothing else moves traffic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from meshwatchd.adapters.netlink import conntrack
from meshwatchd.core.failover.idle_relays import Pair, idle_pairs, relayed_prefixes
from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings, Mode, Settings
from meshwatchd.model.status import Status
from meshwatchd.runtime.sinks import Log

SETTLED_S: Final = 0.5
"""By then the last node has moved its traffic too, and no connection begins here any more."""


class ConnectionCare:
    """One relay's tracked connections."""

    def __init__(
        self,
        settings: Settings,
        mesh: Callable[[], MeshSettings],
        log: Log,
        *,
        relax: Callable[[tuple[str, ...], tuple[str, ...]], int] = conntrack.relax,
        is_tracking: Callable[[], bool] = conntrack.is_tracking,
        settled_s: float = SETTLED_S,
    ) -> None:
        self._node, self._is_acting = NodeName(settings.daemon.node), settings.daemon.mode is Mode.ENFORCE
        self._mesh, self._log, self._relax, self._is_tracking = mesh, log, relax, is_tracking
        self._settled_s = settled_s
        self._idle = self._due = frozenset[Pair]()
        self._has_work = asyncio.Event()

    def note(self, status: Status) -> None:
        """Take in which pairs go by other relays."""
        idle = idle_pairs(status) if self._is_acting else frozenset[Pair]()
        self._due = (self._due | (idle - self._idle)) & idle
        self._idle = idle
        if self._due:
            self._has_work.set()

    async def watch(self) -> None:
        """Work for ever."""
        while True:
            await self._has_work.wait()
            await asyncio.sleep(self._settled_s)
            self._has_work.clear()
            await self._look_after(sorted(self._due))

    async def _look_after(self, pairs: list[Pair]) -> None:
        self._due = frozenset()
        if not pairs or not self._is_tracking():
            return
        # The near end is this node's location in all of them; the kernel lists its connections once.
        ends = [relayed_prefixes(self._mesh(), self._node, pair) for pair in pairs]
        near, far = ends[0][0], tuple(prefix for _, beyond in ends for prefix in beyond)
        location = ", ".join(pair[1] for pair in pairs)
        try:
            count = await asyncio.to_thread(self._relax, near, far)
        except (KernelError, DecodeError) as error:
            remedy = "where a rule drops ctstate INVALID, set net.netfilter.nf_conntrack_tcp_be_liberal to 1"
            self._log.warning("connections.unrelaxed", location=location, error=str(error), remedy=remedy)
        else:
            if count:
                self._log.info("connections.relaxed", location=location, connections=count)
