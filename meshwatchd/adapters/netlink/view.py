"""What of the mirror is told to the engine: our own objects, what is in their way, and the mesh's devices.

Everything else stays here. A node of a large mesh has ten thousand neighbours and as many routes and FDB entries even
on the mesh's own devices; the engine gets a bounded number of each, the first by address, so that its loop is not late
for reading them.
"""

from __future__ import annotations

import heapq
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Protocol, TypeVar

import msgspec

from meshwatchd.adapters.netlink import compact, objects
from meshwatchd.adapters.netlink.choice import (
    DEAD_ENDS,
    MAX_ROUTES,
    Chosen,
    choose,
    is_dead_end,
    is_default,
    is_kilos,
    of_mesh,
)
from meshwatchd.adapters.netlink.compact import protocol_of, table_of
from meshwatchd.adapters.netlink.decode import RouteRecord, RuleRecord, protocol_name
from meshwatchd.adapters.netlink.foreign_rules import Destinations
from meshwatchd.adapters.netlink.rules import describe_rule, priority_and_protocol
from meshwatchd.adapters.netlink.tables import Entries, Table
from meshwatchd.adapters.wireguard.poll import is_wireguard
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.open_vswitch import GATEWAYS
from meshwatchd.model.plan import FIRST_TABLES, TABLES
from meshwatchd.model.rule_window import WIDE
from meshwatchd.model.settings import KernelSettings, MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, ForeignObject, Forwarding, Gateway, Link, Neighbour, Snapshot

MAX_TOLD = MAX_ROUTES
"""Routes, neighbours and FDB entries each."""

MAX_LAN = 1024
"""Neighbours on the LAN and on bridges of pods; what the kernel keeps by default (gc_thresh3)."""

MAX_ADDRESSES = 32
"""Of one device; kube-ipvs0 has one for every service."""

MESH_KINDS: Final = frozenset(("vxlan", "geneve", "ipip"))
MESH_NAMES: Final = frozenset(("cilium_host", "cilium_net", "cilium_tunl", "tunl0", "submariner")) | GATEWAYS

NUD_PERMANENT = 0x80
NUD_STALE = 0x04
RT_SCOPE_LINK: Final = 253
"""linux/rtnetlink.h."""

Told = TypeVar("Told")


class Tables(Protocol):
    """The mirror's tables, as far as they are shown."""

    links: Table
    addresses: Table
    routes: Table
    neighbours: Table
    fdb: Table

    def devices(self) -> Mapping[int, str]:
        """Device names by interface index."""

    def rule_records(self) -> list[RuleRecord]:
        """The rules at our priorities, and those with our protocol."""

    @property
    def rules(self) -> tuple[bytes, ...]:
        """All rules, as message bodies."""


class View:
    """Chooses and describes."""

    def __init__(
        self,
        tables: Tables,
        settings: KernelSettings,
        mesh: MeshSettings,
        is_ours: Callable[[Link], Awaitable[bool]],
    ) -> None:
        self._tables = tables
        self._settings = settings
        self._is_ours = is_ours
        self._our_device = re.compile(rf"{re.escape(settings.device_prefix)}\d+")
        self._named = MESH_NAMES | {mesh.wireguard_device, mesh.overlay_device}
        self._mesh_devices: frozenset[int] = frozenset()
        self._cached: tuple[int, Chosen] | None = None
        self._destinations = Destinations(settings.protocol)

    # --- what concerns us ---

    def links(self) -> list[Link]:
        """All devices, by index and without their addresses."""
        entries = self._tables.links.entries
        return [objects.unpack_link(key, entries[key][0]) for key in sorted(entries, key=objects.index_of)]

    def know_devices(self, links: Iterable[Link]) -> None:
        """Take note of which devices there are."""
        self._know_those_of_the_mesh(frozenset(link.index for link in links if self._is_of_the_mesh(link)))

    def know_device(self, index: int, link: Link | None) -> None:
        """Take note of what a device has become; None: it is gone."""
        is_of_the_mesh = link is not None and self._is_of_the_mesh(link)
        self._know_those_of_the_mesh(self._mesh_devices - {index} | ({index} if is_of_the_mesh else frozenset()))

    def shows(self, link: Link) -> bool:
        """Whether a device is told of: host ends of pods are hundreds, always changing, deciding nothing."""
        key = objects.index_key(link.index)
        entries = self._tables.addresses.entries
        # Asked at each change of a device: most of the addresses are others', and are not unpacked.
        held = (objects.unpack_address(each, entries[each][0]) for each in entries if each.startswith(key))
        return self._is_shown(link, held)

    def shows_address(self, address: objects.Address) -> bool:
        """Whether an address is told of, or has its device told of: IPv6 gives every device one of scope link."""
        return address.family != socket.AF_INET6 or address.scope != RT_SCOPE_LINK

    def concerns_device(self, index: int) -> bool:
        """Whether a device is one of the mesh's."""
        return index in self._mesh_devices

    def concerns_route(self, key: bytes, values: tuple[bytes, ...]) -> bool:
        """Whether a route is ours, sits in a table of ours, or tells where this node is in its mesh."""
        if self._is_in_our_tables(key) or is_default(key):
            return True
        return any(
            protocol_of(value) == self._settings.protocol
            or compact.leads_into(value, self._mesh_devices)
            or is_kilos(key, value)
            or is_dead_end(key, value)
            for value in values
        )

    def is_marked(self, record: RuleRecord | RouteRecord) -> bool:
        """Whether an object carries our protocol number."""
        return record.protocol == self._settings.protocol

    def describe_rule(self, body: bytes) -> RuleRecord | None:
        """A rule that is at one of our priorities or has our protocol; None for others."""
        priority, protocol = priority_and_protocol(body)
        is_near = 0 <= priority - self._settings.priority_base < WIDE
        return describe_rule(body) if is_near or protocol == self._settings.protocol else None

    def describe_marked(self, key: bytes, values: Iterable[bytes]) -> Iterator[RouteRecord]:
        """Those of an IPv4 route's values that carry our protocol number."""
        for value in values:
            if compact.family_of(key) == socket.AF_INET and protocol_of(value) == self._settings.protocol:
                yield objects.describe_route(key, value, self._tables.devices())

    def marked_routes(self) -> list[RouteRecord]:
        """All IPv4 routes with our protocol number."""
        return [record for record in self._near_routes() if self.is_marked(record)]

    # --- the snapshot ---

    async def snapshot(self) -> Snapshot:
        """All that is told."""
        links = self.links()
        # A process may have begun to listen for a device of kind tun without a change of the device.
        self.know_devices(links)
        near = self._near_routes()
        rules = self._tables.rule_records()
        our_rules = [record.rule for record in rules if self.is_marked(record) and record.rule]
        our_routes = [record.route for record in near if self.is_marked(record) and record.route]
        collisions = [*self._rule_collisions(rules), *self._route_collisions(near)]
        collisions += await self._strange_devices(links)
        routes = [self._describe(key, value) for key, value in self._chosen().of_mesh]
        neighbours, forwarding = self._neighbours(), self._forwarding()
        return Snapshot(
            links=tuple(self._described_links(links)),
            # Those of one priority stay in the order in which the kernel asks them.
            rules=tuple(sorted(our_rules, key=lambda rule: rule.priority)),
            routes=tuple(sorted(our_routes, key=lambda route: (route.table, route.render()))),
            collisions=tuple(collisions),
            device_routes=tuple(routes[:MAX_TOLD]),
            gateways=tuple(self._gateways()),
            default_routes=tuple(self._describe(key, value) for key, value in self._chosen().defaults),
            dead_ends=tuple(self._describe(key, value) for key, value in self._chosen().dead_ends),
            destination_rules=self._destinations.of(self._tables.rules),
            neighbours=tuple(neighbours[:MAX_TOLD]),
            forwarding=tuple(forwarding[:MAX_TOLD]),
            is_bounded=any(len(each) > MAX_TOLD for each in (routes, neighbours, forwarding)),
        )

    def overlay_figures(self, device: str) -> OverlayFigures:
        """How much a device holds; of neighbours, those that age."""
        index = next((number for number, name in self._tables.devices().items() if name == device), None)
        stale = sum(
            1
            for key, values in self._tables.neighbours.entries.items()
            if compact.index_of_neighbour(key) == index and compact.unpack_neighbour(key, values[0]).state & NUD_STALE
        )
        fdb = sum(1 for key in self._tables.fdb.entries if compact.index_of_fdb(key) == index)
        return OverlayFigures(fdb_entries=fdb, stale_neighbours=stale)

    def lan_neighbours(self) -> tuple[Neighbour, ...]:
        """Neighbours over IPv4 on devices that are not the mesh's, a bounded number; at rest nobody is told of them."""
        found = (
            compact.unpack_neighbour(key, values[0])
            for key, values in self._tables.neighbours.entries.items()
            if compact.index_of_neighbour(key) not in self._mesh_devices
        )
        devices = self._tables.devices()
        told = (_describe_neighbour(each, devices) for each in found if each.family == socket.AF_INET)
        return tuple(islice(told, MAX_LAN))

    def complete(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with all routes, neighbours and FDB entries of the mesh's devices, however many there are."""
        if not snapshot.is_bounded:
            return snapshot
        routes = of_mesh(self._tables.routes.entries, self._mesh_devices, self._is_near)
        return msgspec.structs.replace(
            snapshot,
            device_routes=tuple(self._describe(key, value) for key, value in routes),
            neighbours=tuple(self._neighbours(limit=None)),
            forwarding=tuple(self._forwarding(limit=None)),
            is_bounded=False,
        )

    def _described_links(self, links: Iterable[Link]) -> Iterator[Link]:
        addresses: dict[int, list[objects.Address]] = {}
        for key, values in self._tables.addresses.entries.items():
            addresses.setdefault(objects.index_of(key), []).append(objects.unpack_address(key, values[0]))
        for link in links:
            held = addresses.get(link.index, [])
            if self._is_shown(link, held):
                v4, v6 = (objects.in_order(held, each)[:MAX_ADDRESSES] for each in (socket.AF_INET, socket.AF_INET6))
                yield msgspec.structs.replace(
                    link,
                    addresses=tuple(objects.render_address(each.address) for each in v4),
                    addresses_v6=tuple(objects.render_address(each.address) for each in v6 if not each.scope),
                    prefix_lengths=tuple(each.length for each in v4),
                )

    def _is_shown(self, link: Link, addresses: Iterable[objects.Address]) -> bool:
        is_of_the_mesh = self.concerns_device(link.index)
        return link.kind != "veth" or is_of_the_mesh or any(map(self.shows_address, addresses))

    def _know_those_of_the_mesh(self, found: frozenset[int]) -> None:
        if found != self._mesh_devices:
            self._mesh_devices, self._cached = found, None

    def _is_of_the_mesh(self, link: Link) -> bool:
        is_known = link.kind in MESH_KINDS or link.name in self._named or bool(self._our_device.fullmatch(link.name))
        return is_known or is_wireguard(link)

    # --- routes ---

    def _chosen(self) -> Chosen:
        """The routes that are told, looked for once for each change."""
        version = self._tables.routes.version
        if self._cached is None or self._cached[0] != version:
            self._cached = version, choose(self._tables.routes.entries, self._mesh_devices, self._is_near)
        return self._cached[1]

    def _is_near(self, key: bytes, value: bytes) -> bool:
        return protocol_of(value) == self._settings.protocol or self._is_in_our_tables(key)

    def _near_routes(self) -> list[RouteRecord]:
        devices = self._tables.devices()
        return [
            objects.describe_route(key, value, devices)
            for key, value in self._chosen().near
            if compact.family_of(key) == socket.AF_INET
        ]

    def _gateways(self) -> Iterator[Gateway]:
        devices = self._tables.devices()
        for each in self._chosen().gateways:
            yield Gateway(
                dev=devices.get(each.ifindex, f"#{each.ifindex}"),
                via=objects.render_address(each.gateway) if each.gateway else "",
                table=each.table,
                protocol=each.protocol,
                routes=each.routes,
            )

    def _describe(self, key: bytes, value: bytes) -> DeviceRoute:
        route = compact.unpack_route(key, value)
        if route.kind in DEAD_ENDS:
            return DeviceRoute(
                dst=objects.render_prefix(route),
                dev="",
                table=route.table,
                protocol=route.protocol,
                metric=route.metric,
                scope=route.scope,
                kind=DEAD_ENDS[route.kind],
            )
        hop = next((hop for hop in route.hops if hop.ifindex in self._mesh_devices), None) or route.hops[0]
        return DeviceRoute(
            dst=objects.render_prefix(route),
            dev=self._tables.devices().get(hop.ifindex, f"#{hop.ifindex}"),
            table=route.table,
            protocol=route.protocol,
            via=objects.render_address(hop.gateway) if hop.gateway else "",
            src=objects.render_address(route.prefsrc) if route.prefsrc else "",
            metric=route.metric,
            scope=route.scope,
            is_onlink=bool(hop.flags & compact.RTNH_F_ONLINK),
        )

    def _is_in_our_tables(self, key: bytes) -> bool:
        place = table_of(key) - self._settings.table_base
        return compact.family_of(key) == socket.AF_INET and 0 <= place < FIRST_TABLES

    # --- neighbours and FDB ---

    def _neighbours(self, *, limit: int | None = MAX_TOLD + 1) -> list[Neighbour]:
        devices = self._tables.devices()
        found = self._first(self._tables.neighbours.entries, compact.index_of_neighbour, limit)
        return [_describe_neighbour(compact.unpack_neighbour(key, value), devices) for key, value in found]

    def _forwarding(self, *, limit: int | None = MAX_TOLD + 1) -> list[Forwarding]:
        devices = self._tables.devices()
        found = self._first(self._tables.fdb.entries, compact.index_of_fdb, limit)
        entries = (compact.unpack_fdb(key, value) for key, value in found)
        return [
            Forwarding(
                dev=devices.get(each.ifindex, f"#{each.ifindex}"),
                lladdr=each.mac.hex(":"),
                dst=objects.render_address(each.dst),
            )
            for each in entries
        ]

    def _first(
        self, entries: Entries, index_of: Callable[[bytes], int], limit: int | None
    ) -> list[tuple[bytes, bytes]]:
        """The first entries on the mesh's devices; by default one more than may be told where there are more."""
        wanted = (key for key in entries if index_of(key) in self._mesh_devices)
        chosen = wanted if limit is None else heapq.nsmallest(limit, wanted)
        return [(key, entries[key][0]) for key in chosen]

    # --- collisions ---

    async def _strange_devices(self, links: Iterable[Link]) -> list[ForeignObject]:
        """Devices with our prefix that somebody else made."""
        found = []
        for link in links:
            if self._our_device.fullmatch(link.name) and not await self._is_ours(link):
                what = f"device {link.name} ({link.kind or 'no kind'}) was not made by meshwatchd"
                found.append(ForeignObject(what=f"{what}; remove it or set kernel.device_prefix", owner_protocol=0))
        return found

    def _rule_collisions(self, rules: Iterable[RuleRecord]) -> Iterator[ForeignObject]:
        first = self._settings.priority_base
        for record in rules:
            is_foreign = not self.is_marked(record) or record.rule is None
            if first <= record.priority < first + WIDE and is_foreign:
                what = f"{record.text} (protocol {protocol_name(record.protocol)}) uses a priority of ours"
                remedy = f"remove it or set kernel.priority_base to a free range of {WIDE}"
                found = f"{what}; {remedy}"
                yield ForeignObject(what=found, owner_protocol=record.protocol, priority=record.priority)

    def _route_collisions(self, routes: Iterable[RouteRecord]) -> Iterator[ForeignObject]:
        """Strangers in our tables, and routes with our protocol that we cannot have made."""
        first = self._settings.table_base
        for record in routes:
            if not self.is_marked(record):
                what = f"{record.text} (protocol {protocol_name(record.protocol)}) is in a table of ours"
                remedy = f"remove it or set kernel.table_base to a free range of {FIRST_TABLES}"
                yield ForeignObject(what=f"{what}; {remedy}", owner_protocol=record.protocol)
            elif record.route is None or not first <= record.table < first + TABLES:
                what = f"{record.text} carries protocol {record.protocol} and was not made by meshwatchd"
                remedy = "remove it or set kernel.protocol to an unused number"
                yield ForeignObject(what=f"{what}; {remedy}", owner_protocol=record.protocol)


def _describe_neighbour(each: compact.NeighbourEntry, devices: Mapping[int, str]) -> Neighbour:
    return Neighbour(
        dev=devices.get(each.ifindex, f"#{each.ifindex}"),
        address=objects.render_address(each.address),
        lladdr=each.lladdr.hex(":"),
        is_permanent=bool(each.state & (NUD_PERMANENT | compact.NUD_NOARP)),
    )
