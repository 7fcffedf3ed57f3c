"""What one notification of the kernel changes: in the mirror's tables, and for whoever waits for news of ours."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Mapping
from typing import Protocol

from meshwatchd.adapters.netlink import compact, message, objects, tables
from meshwatchd.adapters.netlink.choice import is_kilos
from meshwatchd.adapters.netlink.message import Message
from meshwatchd.adapters.netlink.news import Lost, stirred
from meshwatchd.adapters.netlink.rule_table import RuleTable
from meshwatchd.adapters.netlink.rules import describe_rule
from meshwatchd.adapters.netlink.view import Tables, View
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.snapshot import Link

MAX_PENDING_LOSSES = 1000


class Picture(Tables, Protocol):
    """The mirror, as far as notifications change it."""

    is_in_sync: bool


class Intake:
    """Applies notifications one by one.

    Args:
        mesh_device: the mesh's WireGuard device.
        device_prefix: of the names of our own devices.

    Attributes:
        names: device names by interface index.
        is_dirty, stirs, losses: as in `mirror.Mirror`.
    """

    def __init__(self, picture: Picture, view: View, rules: RuleTable, *, mesh_device: str, device_prefix: str) -> None:
        self._picture, self._view, self._rules = picture, view, rules
        self._mesh_device = mesh_device
        self._our_device = re.compile(rf"{re.escape(device_prefix)}\d+")
        self.names: dict[int, str] = {}
        self.is_dirty = asyncio.Event()
        self.stirs: asyncio.Queue[MeshStirred] = asyncio.Queue(MAX_PENDING_LOSSES)
        self.losses: asyncio.Queue[Lost] = asyncio.Queue(MAX_PENDING_LOSSES)

    def name_devices(self) -> None:
        """All devices have been read."""
        links = self._view.links()
        self.names = {link.index: link.name for link in links}
        self._view.know_devices(links)

    def marked(self) -> dict[str, Lost]:
        """Everything of ours as it would be told if it were lost, by its text."""
        rules = (each for each in self._rules.records() if self._view.is_marked(each))
        found = [Lost(text=each.text, rule=each.rule) for each in rules]
        found += [Lost(text=each.text, route=each.route) for each in self._view.marked_routes()]
        found += [
            Lost(text=f"device {name}", device=name) for name in self.names.values() if self._our_device.fullmatch(name)
        ]
        return {each.text: each for each in found}

    def compare(self, before: Mapping[str, Lost]) -> None:
        """Tell what of ours was there before everything was read, and is not any more."""
        for text in before.keys() - self.marked().keys():
            self._lose(before[text])

    def take(self, notification: Message) -> bool:
        """Take in one notification.

        Returns:
            Whether the kernel may have dropped routes without a word.

        Raises:
            DecodeError: it is malformed.
        """
        kind, flags, _, body = notification
        is_gone = kind in message.DELETIONS
        if kind in {message.RTM_NEWROUTE, message.RTM_DELROUTE}:
            self._take_route(body, flags, is_gone=is_gone)
        elif kind in {message.RTM_NEWNEIGH, message.RTM_DELNEIGH}:
            self._take_neighbour(body, is_gone=is_gone)
        elif kind in {message.RTM_NEWLINK, message.RTM_DELLINK}:
            return self._take_link(body, is_gone=is_gone)
        elif kind in {message.RTM_NEWADDR, message.RTM_DELADDR}:
            return self._take_address(body, is_gone=is_gone)
        elif kind in {message.RTM_NEWRULE, message.RTM_DELRULE}:
            self._rules.is_stale = True
            self.is_dirty.set()
            if is_gone:
                self._take_lost_rule(body)
        # FRR's routes point to nexthop objects, and the kernel drops them with theirs.
        return kind == message.RTM_DELNEXTHOP

    def _take_route(self, body: bytes, flags: int, *, is_gone: bool) -> None:
        packed = compact.pack_route(body)
        if packed is None:
            return
        key, values = packed
        before = self._picture.routes.entries.get(key, ())
        self._picture.routes.change(tables.Gone(key, values) if is_gone else tables.Put(key, values, flags))
        # Of a route that another one replaces the kernel says nothing.
        replaced = () if is_gone else tuple(set(before) - set(self._picture.routes.entries.get(key, ())))
        is_news = self._picture.is_in_sync and self.stirs.empty()
        if is_gone and is_news and any(is_kilos(key, value) for value in values):
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
        table = self._picture.fdb if is_fdb else self._picture.neighbours
        packed = compact.pack_fdb(body) if is_fdb else compact.pack_neighbour(body)
        if packed is None:
            return
        key, values = packed
        table.change(tables.Gone(key, values) if is_gone else tables.Put(key, values, 0))
        if self._view.concerns_device(compact.index_of_fdb(key) if is_fdb else compact.index_of_neighbour(key)):
            self.is_dirty.set()

    def _take_link(self, body: bytes, *, is_gone: bool) -> bool:
        packed = objects.pack_link(body)
        if packed is None:
            return False
        key, values = packed
        old, new = self._picture.links.entries.get(key), None if is_gone else values
        self._picture.links.change(tables.Gone(key, values) if is_gone else tables.Put(key, values, 0))
        if old == new:
            return False  # statistics, carrier and the like: nothing we show
        before = objects.unpack_link(key, old[0]) if old else None
        after = None if is_gone else objects.unpack_link(key, values[0])
        was_shown = before is not None and self._view.shows(before)
        is_unsure = before is not None and self._leave(before, after)
        if self._picture.is_in_sync and (news := stirred(self._mesh_device, before, after)) is not None:
            self._tell(news)
        self._name_device(objects.index_of(key), after)
        if was_shown or (after is not None and self._view.shows(after)):
            self.is_dirty.set()
        return is_unsure

    def _tell(self, news: MeshStirred) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self.stirs.put_nowait(news)

    def _leave(self, before: Link, after: Link | None) -> bool:
        """What goes along with a device that is deleted, goes down or changes its name.

        Returns:
            Whether there are routes of several next hops, of which one may go.
        """
        index, is_unsure = before.index, False
        if after is None or (before.is_up and not after.is_up):
            has_gone = after is None
            lost = list(tables.silently_lost(self._picture.routes.entries, index, has_gone=has_gone))
            change = tables.DeviceGone(index) if after is None else tables.DeviceDown(index)
            for table in (self._picture.addresses, self._picture.routes, self._picture.neighbours, self._picture.fdb):
                table.change(change)
            for key, value in lost:
                if self._view.concerns_route(key, (value,)):
                    self.is_dirty.set()
                    self._lose_routes(key, (value,))
            is_unsure = any(
                compact.leads_into(value, frozenset({index}))
                for values in self._picture.routes.entries.values()
                for value in values
                if compact.is_multipath(value)
            )
        if self._our_device.fullmatch(before.name) and (after is None or after.name != before.name):
            self._lose(Lost(text=f"device {before.name}", device=before.name))
        return is_unsure

    def _take_address(self, body: bytes, *, is_gone: bool) -> bool:
        packed = objects.pack_address(body)
        if packed is None:
            return False
        key, values = packed
        address = objects.unpack_address(key, values[0])
        if (key in self._picture.addresses.entries) == is_gone and self._view.shows_address(address):
            self.is_dirty.set()
        self._picture.addresses.change(tables.Gone(key, values) if is_gone else tables.Put(key, values, 0))
        # Routes with this source go with it, and with the last address all of the device's.
        return is_gone and address.family == socket.AF_INET

    def _take_lost_rule(self, body: bytes) -> None:
        record = describe_rule(body) if body[:1] == bytes((socket.AF_INET,)) else None
        if record is not None and record.rule is not None and self._view.is_marked(record):
            self._lose(Lost(text=record.text, rule=record.rule))

    def _lose_routes(self, key: bytes, values: tuple[bytes, ...]) -> None:
        for record in self._view.describe_marked(key, values):
            if record.route is not None:
                self._lose(Lost(text=record.text, route=record.route))

    def _name_device(self, index: int, link: Link | None) -> None:
        self.names.pop(index, None)
        if link is not None:
            self.names[index] = link.name
        self._view.know_device(index, link)

    def _lose(self, lost: Lost) -> None:
        try:
            self.losses.put_nowait(lost)
        except asyncio.QueueFull:
            self.is_dirty.set()  # the next snapshot tells what is missing all the same
