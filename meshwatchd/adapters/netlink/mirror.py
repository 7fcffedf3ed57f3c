"""A picture of the kernel that is complete once and then kept up to date.

    monitor (notifications) --> links, addresses, routes,   applied one by one to what the first dump showed
                                neighbours, FDB entries
                            --> rules                       a hint that they must be read again: they are few
                            --> Overrun                     everything is read again

The subscription starts before the first dump, so nothing that happens in between is missed, and nothing is told
before that dump is complete. While everything is read again, what was known stays known; what turns out to be gone of
our own is told as lost.

Where the kernel drops routes without a word the mirror does the same: those of a device that goes down or is deleted.
Where that cannot be told from here (a next hop of several, a nexthop object, the last address of a device) routes are
read again, and once in AUDIT_NS in any case.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Awaitable, Callable

from meshwatchd.adapters.netlink import tables
from meshwatchd.adapters.netlink.decode import RuleRecord
from meshwatchd.adapters.netlink.intake import Intake
from meshwatchd.adapters.netlink.kinds import Kind, describe_kinds
from meshwatchd.adapters.netlink.message import Message
from meshwatchd.adapters.netlink.monitor import Monitor, Overrun
from meshwatchd.adapters.netlink.ports import DumpSource, NotificationSource
from meshwatchd.adapters.netlink.rule_table import RuleTable
from meshwatchd.adapters.netlink.tables import Table
from meshwatchd.adapters.netlink.view import View
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.errors import KernelError, MeshwatchError
from meshwatchd.model.settings import MINUTE, SECOND, KernelSettings, MeshSettings
from meshwatchd.model.snapshot import Link, Neighbour, Snapshot

MAX_BACKLOG = 400
"""Turns of the monitor in a row, some hundred thousand notifications; more is a storm, to be looked at later."""

MAX_ROUNDS = 5
"""Overruns in a row during one synchronisation, before the caller gets to know."""

AUDIT_NS = 5 * MINUTE
REREAD_PAUSE = 50
"""Reading again for a doubt's sake may take one part in so many of the time."""


class Mirror:
    """Snapshots of the kernel, and word of what changed.

    Args:
        is_ours: tells whether a device with our prefix was made by us.
        overrun: is told why everything has to be read again, once until it has been.

    Attributes:
        is_dirty: set whenever a new snapshot may differ from the last one.
        is_in_sync: everything has been read, and no notification was lost since.
        stirs: what the mesh's own agent did to its WireGuard device and its routes, in order.
        losses: removals of marked objects, in order; our own removals are among them.
    """

    def __init__(
        self,
        source: DumpSource,
        settings: KernelSettings,
        mesh: MeshSettings,
        is_ours: Callable[[Link], Awaitable[bool]],
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        overrun: Callable[[str], object] = lambda _reason: None,
    ) -> None:
        self._source, self._overrun = source, overrun
        self._clock = clock
        self._monitor: NotificationSource | None = None
        self.links = Table(tables.apply_to_devices)
        self.addresses = Table(tables.apply_to_devices)
        self.routes = Table(tables.apply_to_routes, join=tables.join_routes)
        self.neighbours = Table(tables.apply_to_neighbours, is_counted=True)
        self.fdb = Table(tables.apply_to_fdb, is_counted=True)
        self._view = View(self, settings, mesh, is_ours)
        self._rules = RuleTable(source, self._view.describe_rule)
        device, prefix = mesh.wireguard_device, settings.device_prefix
        self._intake = Intake(self, self._view, self._rules, mesh_device=device, device_prefix=prefix)
        self.is_dirty, self.stirs, self.losses = self._intake.is_dirty, self._intake.stirs, self._intake.losses
        self._is_unsure = False
        self._reread_at = 0
        self._audit_at = 0
        self._kinds = describe_kinds(
            links=self.links, addresses=self.addresses, routes=self.routes, neighbours=self.neighbours, fdb=self.fdb
        )
        self.is_in_sync = False
        self._is_reading = asyncio.Lock()

    def open(self, monitor: NotificationSource | None = None) -> None:
        """Subscribe to changes; they are taken in by the running event loop from here on."""
        self._monitor = monitor or Monitor()
        asyncio.get_running_loop().add_reader(self._monitor.fileno(), self._read_monitor)

    def close(self) -> None:
        """End the subscription."""
        if self._monitor is not None:
            asyncio.get_running_loop().remove_reader(self._monitor.fileno())
            self._monitor.close()
            self._monitor = None

    async def snapshot(self) -> Snapshot:
        """The kernel's state: everything anew the first time and after an overrun, else what changed.

        Raises:
            KernelError: a dump was refused, or notifications are lost faster than dumps are read.
            DecodeError: a dump is malformed; what was known stays known.
        """
        async with self._is_reading:
            self.is_dirty.clear()
            if not self.is_in_sync:
                await self._synchronise()
            elif self._is_reading_due():
                await self._read_doubtful()
            if self._rules.is_stale:
                await self._rules.read()
            return await self._view.snapshot()

    async def read_back(self) -> Snapshot:
        """A snapshot that shows every change acknowledged so far, with all entries of the mesh's devices.

        The kernel queues its notifications before it acknowledges; here they are taken in first.

        Raises:
            KernelError, DecodeError: as `snapshot`.
        """
        if self._monitor is not None:
            for _ in range(MAX_BACKLOG):
                if not self._monitor.read(self.take):
                    break
        try:
            return self.complete(await self.snapshot())
        finally:
            # Whoever waits for changes has not seen this snapshot.
            self.is_dirty.set()

    def lan_neighbours(self) -> tuple[Neighbour, ...]:
        """Neighbours over IPv4 on devices that are not the mesh's."""
        return self._view.lan_neighbours()

    def overlay_figures(self, device: str) -> OverlayFigures:
        """How much a device holds."""
        return self._view.overlay_figures(device)

    def complete(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with all entries of the mesh's devices, however many there are."""
        return self._view.complete(snapshot)

    def devices(self) -> dict[int, str]:
        """Device names by interface index, as far as known."""
        return self._intake.names

    def rule_records(self) -> list[RuleRecord]:
        """The IPv4 rules at our priorities, and those with our protocol."""
        return self._rules.records()

    @property
    def rules(self) -> tuple[bytes, ...]:
        """All rules, as message bodies."""
        return self._rules.bodies

    def next_reading_in_ns(self) -> int:
        """How long until something is to be read again without word of a change, at most AUDIT_NS."""
        return max(0, (min(self._reread_at, self._audit_at) if self._is_unsure else self._audit_at) - self._clock())

    async def _synchronise(self) -> None:
        """Read everything; what the dumps do not show of our own any more is lost."""
        before = self._intake.marked()
        for _ in range(MAX_ROUNDS):
            self.is_in_sync = True
            try:
                for kind in self._kinds:
                    await self._read(kind)
                await self._rules.read()
            except MeshwatchError:
                self.is_in_sync = False
                raise
            if self.is_in_sync:
                break
        else:
            raise KernelError(
                "read the kernel's state", errno.ENOBUFS, f"notifications were lost {MAX_ROUNDS} times in a row"
            )
        self._audit_at = self._clock() + AUDIT_NS
        self._intake.compare(before)

    async def _read(self, kind: Kind) -> None:
        kind.table.begin()
        try:
            found = [
                await self._source.dump(request, header, kind.name, kind.pack) for request, header in kind.requests
            ]
        except MeshwatchError:
            kind.table.abandon()
            raise
        # Whatever happened during the dump has been told by the time it ends, and must be known before it is believed.
        if self._monitor is not None and all(self._monitor.read(self.take) for _ in range(MAX_BACKLOG)):
            self._is_unsure = True
        for packed in found:
            for each in packed:
                kind.table.add(each)
        kind.table.finish()
        self._is_unsure |= kind.table.is_doubtful
        if kind.table is self.links:
            self._intake.name_devices()

    async def _read_doubtful(self) -> None:
        """Read what may be wrong again, and everything when that is due."""
        started, is_audit, self._is_unsure = self._clock(), self._clock() >= self._audit_at, False
        try:
            for kind in self._kinds:
                if is_audit or kind.table is self.routes or kind.table.is_doubtful:
                    await self._read(kind)
        except MeshwatchError:
            self._is_unsure = True
            raise
        now = self._clock()
        self._reread_at = now + max(SECOND, REREAD_PAUSE * (now - started))
        if is_audit:
            self._audit_at = now + AUDIT_NS

    def _is_reading_due(self) -> bool:
        return self.next_reading_in_ns() == 0

    def _read_monitor(self) -> None:
        assert self._monitor is not None, "the reader is removed before the monitor is closed"
        self._monitor.read(self.take)

    def take(self, notification: Message | Overrun) -> None:
        """Take in one notification.

        Raises:
            DecodeError: it is malformed.
        """
        if isinstance(notification, Overrun):
            if self.is_in_sync:
                self._overrun(notification.reason)
            self.is_in_sync = False
            self.is_dirty.set()
        elif self._intake.take(notification):
            self._is_unsure = True
            self.is_dirty.set()
