"""A picture of the kernel that is complete once and then kept up to date.

    monitor (notifications) --> links, addresses        applied one by one: a node may have hundreds of devices
                            --> rules, routes           a hint that they must be read again: ours are few, and the
                                                        kernel drops the routes of a downed device without a word
                            --> Overrun                 everything is read again

The subscription starts before the first dump, so nothing that happens in between is missed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from meshwatchd.adapters.netlink.decode import RouteRecord, RuleRecord, protocol_name
from meshwatchd.adapters.netlink.monitor import (
    AddressEvent,
    LinkEvent,
    Monitor,
    Notification,
    Overrun,
    RouteEvent,
    RuleEvent,
)
from meshwatchd.adapters.netlink.ports import StateReader
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.settings import KernelSettings
from meshwatchd.model.snapshot import ForeignObject, Link, Snapshot

BAND = 100
"""Tables and rule priorities reserved for us, from the configured base on."""

MAX_PENDING_LOSSES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An object with our mark was removed; `text` is how `ip` would say it."""

    text: str
    rule: Rule | None = None
    route: Route | None = None
    device: str | None = None


class Mirror:
    """Snapshots of the kernel, and word of what changed.

    Args:
        kernel: for dumps.
        settings: our protocol number, tables, priorities and device prefix.
        is_ours: tells whether a device with our prefix was made by us.

    Attributes:
        is_dirty: set whenever a new snapshot may differ from the last one.
        losses: removals of marked objects, in order; our own removals are among them.
    """

    def __init__(
        self, kernel: StateReader, settings: KernelSettings, is_ours: Callable[[Link], Awaitable[bool]]
    ) -> None:
        self._kernel = kernel
        self._settings = settings
        self._is_ours = is_ours
        self._our_device = re.compile(rf"{re.escape(settings.device_prefix)}\d+")
        self._monitor: Monitor | None = None
        self._links: dict[int, Link] = {}
        self._addresses: dict[int, list[str]] = {}
        self._foreign_routes: list[ForeignObject] | None = None
        self._is_stale = True
        self.is_dirty = asyncio.Event()
        self.losses: asyncio.Queue[Lost] = asyncio.Queue(MAX_PENDING_LOSSES)

    def open(self) -> None:
        """Subscribe to changes; they are taken in by the running event loop from here on."""
        self._monitor = Monitor(self._settings.protocol)
        asyncio.get_running_loop().add_reader(self._monitor.fileno(), self._take_in)

    def close(self) -> None:
        """End the subscription."""
        if self._monitor is not None:
            asyncio.get_running_loop().remove_reader(self._monitor.fileno())
            self._monitor.close()
            self._monitor = None

    async def snapshot(self) -> Snapshot:
        """The kernel's state: everything anew the first time and after an overrun, else rules and routes anew.

        Raises:
            KernelError: a dump was refused.
        """
        self.is_dirty.clear()
        if self._is_stale:
            await self._read_links()
        devices = self.devices()
        rules = await self._kernel.rules()
        routes = await self._kernel.marked_routes(devices)
        our_rules = [record.rule for record in rules if self._is_marked(record) and record.rule]
        our_routes = [record.route for record in routes if record.route]
        return Snapshot(
            links=tuple(sorted(self._described_links(), key=lambda link: link.index)),
            # By text, because selectors that are absent do not compare.
            rules=tuple(sorted(our_rules, key=lambda rule: (rule.priority, rule.render()))),
            routes=tuple(sorted(our_routes, key=lambda route: (route.table, route.render()))),
            collisions=tuple(await self._collisions(rules, routes)),
        )

    def devices(self) -> dict[int, str]:
        """Device names by interface index, as far as known."""
        return {link.index: link.name for link in self._links.values()}

    def link(self, name: str) -> Link | None:
        """The device of that name, as far as known; read the kernel where the answer must not be old."""
        return next((link for link in self._links.values() if link.name == name), None)

    async def _read_links(self) -> None:
        self._is_stale = False
        self._foreign_routes = None
        links = {link.index: link for link in await self._kernel.links()}
        addresses: dict[int, list[str]] = {}
        for index, address in await self._kernel.addresses():
            addresses.setdefault(index, []).append(address)
        self._links, self._addresses = links, addresses

    def _described_links(self) -> Iterator[Link]:
        """Devices with their addresses, without the host ends of pods: hundreds, always changing, deciding nothing."""
        for link in self._links.values():
            addresses = tuple(sorted(self._addresses.get(link.index, ())))
            if addresses or link.kind != "veth":
                yield msgspec.structs.replace(link, addresses=addresses)

    def _is_marked(self, record: RuleRecord | RouteRecord) -> bool:
        return record.protocol == self._settings.protocol

    # --- collisions ---

    async def _collisions(self, rules: list[RuleRecord], routes: list[RouteRecord]) -> list[ForeignObject]:
        """Everything that sits where ours would go, in a stable order."""
        found = [*self._rule_collisions(rules), *self._shape_collisions(routes)]
        found += await self._strangers_in_our_tables()
        for link in list(self._links.values()):
            if self._our_device.fullmatch(link.name) and not await self._is_ours(link):
                what = f"device {link.name} ({link.kind or 'no kind'}) was not made by meshwatchd"
                found.append(ForeignObject(what=f"{what}; remove it or set kernel.device_prefix", owner_protocol=0))
        return found

    async def _strangers_in_our_tables(self) -> list[ForeignObject]:
        """Dumped once for each of our tables, and again only after word of such a route: that is 100 requests."""
        if self._foreign_routes is None:
            found: list[ForeignObject] = []
            for table in range(self._settings.table_base, self._settings.table_base + BAND):
                found += self._route_collisions(await self._kernel.routes_in(table, self.devices()))
            self._foreign_routes = found
        return self._foreign_routes

    def _rule_collisions(self, rules: Iterable[RuleRecord]) -> Iterator[ForeignObject]:
        first = self._settings.priority_base
        for record in rules:
            is_foreign = not self._is_marked(record) or record.rule is None
            if first <= record.priority < first + BAND and is_foreign:
                what = f"{record.text} (protocol {protocol_name(record.protocol)}) uses a priority of ours"
                remedy = f"remove it or set kernel.priority_base to a free range of {BAND}"
                yield ForeignObject(what=f"{what}; {remedy}", owner_protocol=record.protocol)

    def _route_collisions(self, routes: Iterable[RouteRecord]) -> Iterator[ForeignObject]:
        for record in routes:
            if not self._is_marked(record):
                what = f"{record.text} (protocol {protocol_name(record.protocol)}) is in a table of ours"
                remedy = f"remove it or set kernel.table_base to a free range of {BAND}"
                yield ForeignObject(what=f"{what}; {remedy}", owner_protocol=record.protocol)

    def _shape_collisions(self, routes: Iterable[RouteRecord]) -> Iterator[ForeignObject]:
        """Routes with our protocol that we cannot have made: somebody else uses the number."""
        first = self._settings.table_base
        for record in routes:
            if record.route is None or not first <= record.table < first + BAND:
                what = f"{record.text} carries protocol {record.protocol} and was not made by meshwatchd"
                remedy = "remove it or set kernel.protocol to an unused number"
                yield ForeignObject(what=f"{what}; {remedy}", owner_protocol=record.protocol)

    # --- notifications ---

    def _take_in(self) -> None:
        assert self._monitor is not None
        for notification in self._monitor.read():
            self._apply(notification)

    def _apply(self, notification: Notification) -> None:
        match notification:
            case LinkEvent():
                self._apply_link(notification)
            case AddressEvent(index=index, address=address, is_gone=is_gone):
                addresses = self._addresses.setdefault(index, [])
                if is_gone and address in addresses:
                    addresses.remove(address)
                elif not is_gone and address not in addresses:
                    addresses.append(address)
                self.is_dirty.set()
            case RuleEvent(record=rule_record, is_gone=is_gone):
                self.is_dirty.set()
                if is_gone and self._is_marked(rule_record) and rule_record.rule is not None:
                    self._lose(Lost(text=rule_record.text, rule=rule_record.rule))
            case RouteEvent(record=route_record, is_gone=is_gone):
                self._apply_route(route_record, is_gone=is_gone)
            case Overrun():
                self._is_stale = True
                self.is_dirty.set()

    def _apply_link(self, event: LinkEvent) -> None:
        link = event.link
        had_address = bool(self._addresses.get(link.index))
        if event.is_gone:
            self._links.pop(link.index, None)
            self._addresses.pop(link.index, None)
            if self._our_device.fullmatch(link.name):
                self._lose(Lost(text=f"device {link.name}", device=link.name))
        elif self._links.get(link.index) == link:
            return  # statistics, carrier and the like: nothing we show
        else:
            self._links[link.index] = link
        if link.kind != "veth" or had_address:
            self.is_dirty.set()

    def _apply_route(self, record: RouteRecord, *, is_gone: bool) -> None:
        first = self._settings.table_base
        if not self._is_marked(record) and not first <= record.table < first + BAND:
            return
        self.is_dirty.set()
        if not self._is_marked(record):
            self._foreign_routes = None
        elif is_gone and record.route is not None:
            index = int(record.route.dev.removeprefix("#"))
            route = msgspec.structs.replace(record.route, dev=self.devices().get(index, record.route.dev))
            self._lose(Lost(text=f"route {route.render()}", route=route))

    def _lose(self, lost: Lost) -> None:
        try:
            self.losses.put_nowait(lost)
        except asyncio.QueueFull:
            self.is_dirty.set()  # the next snapshot tells what is missing all the same
