"""A picture of the kernel that is complete once and then kept up to date.

    monitor (notifications) --> links, addresses, routes,   applied one by one to what the first dump showed
                                neighbours, FDB entries
                            --> rules                       a hint that they must be read again: they are few
                            --> Overrun                     everything is read again

The subscription starts before the first dump, so nothing that happens in between is missed, and nothing is told
before that dump is complete. While everything is read again, what was known stays known; what turns out to be gone of
our own is told as lost.

Where the kernel drops routes without a word the mirror does the same: those of a device that goes down or is deleted.
Where that cannot be told from here (a next hop of several, the last address of a device) routes are read again, and
once in AUDIT_NS in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import socket
import time
from collections.abc import Awaitable, Callable

from meshwatchd.adapters.netlink import compact, message, objects, tables
from meshwatchd.adapters.netlink.choice import is_kilos
from meshwatchd.adapters.netlink.decode import RuleRecord
from meshwatchd.adapters.netlink.kinds import Kind, describe_kinds
from meshwatchd.adapters.netlink.message import Message
from meshwatchd.adapters.netlink.monitor import Monitor, Overrun
from meshwatchd.adapters.netlink.news import Lost, stirred
from meshwatchd.adapters.netlink.ports import DumpSource, NotificationSource
from meshwatchd.adapters.netlink.rule_table import RuleTable
from meshwatchd.adapters.netlink.rules import describe_rule
from meshwatchd.adapters.netlink.tables import Table
from meshwatchd.adapters.netlink.view import View
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.errors import KernelError, MeshwatchError
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.settings import MINUTE, SECOND, KernelSettings, MeshSettings
from meshwatchd.model.snapshot import Link, Neighbour, Snapshot

MAX_PENDING_LOSSES = 1000
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
        self._settings = settings
        self._clock = clock
        self._our_device = re.compile(rf"{re.escape(settings.device_prefix)}\d+")
        self._monitor: NotificationSource | None = None
        self.links = Table(tables.apply_to_devices)
        self.addresses = Table(tables.apply_to_devices)
        self.routes = Table(tables.apply_to_routes, join=tables.join_routes)
        self.neighbours = Table(tables.apply_to_neighbours, is_counted=True)
        self.fdb = Table(tables.apply_to_fdb, is_counted=True)
        self._names: dict[int, str] = {}
        self._view = View(self, settings, mesh, is_ours)
        self._rules = RuleTable(source, self._view.describe_rule)
        self._is_unsure = False
        self._reread_at = 0
        self._audit_at = 0
        self._kinds = describe_kinds(
            links=self.links, addresses=self.addresses, routes=self.routes, neighbours=self.neighbours, fdb=self.fdb
        )
        self.is_in_sync = False
        self.is_dirty = asyncio.Event()
        self._is_reading = asyncio.Lock()
        self.stirs: asyncio.Queue[MeshStirred] = asyncio.Queue(MAX_PENDING_LOSSES)
        self._mesh_device = mesh.wireguard_device
        self.losses: asyncio.Queue[Lost] = asyncio.Queue(MAX_PENDING_LOSSES)

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
        return self._names

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
        before = self._marked()
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
        after = self._marked()
        for text in before.keys() - after.keys():
            self._lose(before[text])

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
            links = self._view.links()
            self._names = {link.index: link.name for link in links}
            self._view.know_devices(links)

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

    def _marked(self) -> dict[str, Lost]:
        """Everything of ours as it would be told if it were lost, by its text."""
        found = [Lost(text=each.text, rule=each.rule) for each in self.rule_records() if self._view.is_marked(each)]
        found += [Lost(text=each.text, route=each.route) for each in self._view.marked_routes()]
        found += [
            Lost(text=f"device {name}", device=name)
            for name in self._names.values()
            if self._our_device.fullmatch(name)
        ]
        return {each.text: each for each in found}

    # --- notifications ---

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
            return
        kind, flags, _, body = notification
        is_gone = kind in message.DELETIONS
        if kind in {message.RTM_NEWROUTE, message.RTM_DELROUTE}:
            self._take_route(body, flags, is_gone=is_gone)
        elif kind in {message.RTM_NEWNEIGH, message.RTM_DELNEIGH}:
            self._take_neighbour(body, is_gone=is_gone)
        elif kind in {message.RTM_NEWLINK, message.RTM_DELLINK}:
            self._take_link(body, is_gone=is_gone)
        elif kind in {message.RTM_NEWADDR, message.RTM_DELADDR}:
            self._take_address(body, is_gone=is_gone)
        elif kind in {message.RTM_NEWRULE, message.RTM_DELRULE}:
            self._rules.is_stale = True
            self.is_dirty.set()
            if is_gone:
                self._take_lost_rule(body)

    def _take_route(self, body: bytes, flags: int, *, is_gone: bool) -> None:
        packed = compact.pack_route(body)
        if packed is None:
            return
        key, values = packed
        before = self.routes.entries.get(key, ())
        self.routes.change(tables.Gone(key, values) if is_gone else tables.Put(key, values, flags))
        # Of a route that another one replaces the kernel says nothing.
        replaced = () if is_gone else tuple(set(before) - set(self.routes.entries.get(key, ())))
        if is_gone and self.is_in_sync and self.stirs.empty() and any(is_kilos(key, value) for value in values):
            # An agent that ends takes all of them, one that follows another leader each before it sets it anew: one
            # word serves for all that are heard of together.
            what = "routes of the mesh's own agent were removed"
            self._tell(MeshStirred(what=what, is_rebuilding=False, is_seen_everywhere=True))
        if self._view.concerns_route(key, (*values, *replaced)):
            self.is_dirty.set()
            if is_gone:
                self._lose_routes(key, values)

    def _take_neighbour(self, body: bytes, *, is_gone: bool) -> None:
        is_fdb = body[:1] == bytes((compact.AF_BRIDGE,))
        table = self.fdb if is_fdb else self.neighbours
        packed = compact.pack_fdb(body) if is_fdb else compact.pack_neighbour(body)
        if packed is None:
            return
        key, values = packed
        table.change(tables.Gone(key, values) if is_gone else tables.Put(key, values, 0))
        if self._view.concerns_device(compact.index_of_fdb(key) if is_fdb else compact.index_of_neighbour(key)):
            self.is_dirty.set()

    def _take_link(self, body: bytes, *, is_gone: bool) -> None:
        packed = objects.pack_link(body)
        if packed is None:
            return
        key, values = packed
        old, new = self.links.entries.get(key), None if is_gone else values
        self.links.change(tables.Gone(key, values) if is_gone else tables.Put(key, values, 0))
        if old == new:
            return  # statistics, carrier and the like: nothing we show
        before = objects.unpack_link(key, old[0]) if old else None
        after = None if is_gone else objects.unpack_link(key, values[0])
        was_shown = before is not None and self._view.shows(before)
        if before is not None:
            self._leave(before, after)
        if self.is_in_sync and (news := stirred(self._mesh_device, before, after)) is not None:
            self._tell(news)
        self._name_device(objects.index_of(key), after)
        if was_shown or (after is not None and self._view.shows(after)):
            self.is_dirty.set()

    def _tell(self, news: MeshStirred) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self.stirs.put_nowait(news)

    def _leave(self, before: Link, after: Link | None) -> None:
        """What goes along with a device that is deleted, goes down or changes its name."""
        index = before.index
        if after is None or (before.is_up and not after.is_up):
            has_gone = after is None
            lost = list(tables.silently_lost(self.routes.entries, index, has_gone=has_gone))
            change = tables.DeviceGone(index) if after is None else tables.DeviceDown(index)
            for table in (self.addresses, self.routes, self.neighbours, self.fdb):
                table.change(change)
            for key, value in lost:
                if self._view.concerns_route(key, (value,)):
                    self.is_dirty.set()
                    self._lose_routes(key, (value,))
            self._is_unsure |= any(
                compact.leads_into(value, frozenset({index}))
                for values in self.routes.entries.values()
                for value in values
                if compact.is_multipath(value)
            )
        if self._our_device.fullmatch(before.name) and (after is None or after.name != before.name):
            self._lose(Lost(text=f"device {before.name}", device=before.name))

    def _take_address(self, body: bytes, *, is_gone: bool) -> None:
        packed = objects.pack_address(body)
        if packed is None:
            return
        key, values = packed
        address = objects.unpack_address(key, values[0])
        if (key in self.addresses.entries) == is_gone and self._view.shows_address(address):
            self.is_dirty.set()
        self.addresses.change(tables.Gone(key, values) if is_gone else tables.Put(key, values, 0))
        # Routes with this source go with it, and with the last address all of the device's.
        self._is_unsure |= is_gone and address.family == socket.AF_INET

    def _take_lost_rule(self, body: bytes) -> None:
        record = describe_rule(body) if body[:1] == bytes((socket.AF_INET,)) else None
        if record is not None and record.rule is not None and self._view.is_marked(record):
            self._lose(Lost(text=record.text, rule=record.rule))

    def _lose_routes(self, key: bytes, values: tuple[bytes, ...]) -> None:
        for record in self._view.describe_marked(key, values):
            if record.route is not None:
                self._lose(Lost(text=record.text, route=record.route))

    def _name_device(self, index: int, link: Link | None) -> None:
        self._names.pop(index, None)
        if link is not None:
            self._names[index] = link.name
        self._view.know_device(index, link)

    def _lose(self, lost: Lost) -> None:
        try:
            self.losses.put_nowait(lost)
        except asyncio.QueueFull:
            self.is_dirty.set()  # the next snapshot tells what is missing all the same
