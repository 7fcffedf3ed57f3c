"""Desired kernel state: what stands while all is well, and the override that moves traffic.

Protection is armed before the fault, as in IP fast reroute: links, tables and selectors of every path are in place,
so that failover is one rule that points at a table and failback is its removal.

    priority            rule                                     purpose
    base                iif mwN lookup T_IN                      deliver what comes out of a standby link
    base + 10 + slot    ipproto udp sport|dport P lookup T_PROBE probes of a path take that path at every hop
                        ... or goto base + 80                    where the mesh's own routes are that path
    base + 60 + pair    lookup T_OUT                             the override
    base + 80           lookup an empty table                    where probes land that must not meet the override

Beside these stand those of detours (`core.routes.detours`), also in a mesh in which nobody may stand by.

Probes of the mesh's own path jump over the override instead of looking up the main table: the mesh has rules of its
own behind ours (Kilo delivers what comes out of kilo0 by table 1107), and those are part of its path.

`slot` numbers the paths of this node's location, RANKS_PER_PAIR for each pair, so that a table leads over the same two
relays for as long as they are relays. The first MAX_SLOTS have tables of the first hundred; what a bigger mesh needs
beyond follows from the second hundred on, two by two, and shares priorities: selectors of different ports exclude each
other, and so do policy rules whose tables lead to different locations. Where a foreign rule would be asked before
`base`, all of it stands in a narrow window before that rule (`placement`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from meshwatchd.core.routes.detours import detour_override, detour_routes, detour_rules, is_of_detour
from meshwatchd.model.detour import Detour
from meshwatchd.model.ids import NodeName
from meshwatchd.model.plan import FIRST_TABLES, Provision, Route, Rule, StandbyLink, Switch
from meshwatchd.model.port_map import path_port, reserved_ports
from meshwatchd.model.prefixes import Claim, judge
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import SECOND, Settings
from meshwatchd.model.topology import RANKS_PER_PAIR, Node, Path, Topology
from meshwatchd.model.units import parse_port_range

MAX_SLOTS = 40
DELIVERY_SLOT = 99
EMPTY_SLOT = 98
PAIR_PRIORITIES = 20
PROBE_TABLE_OFFSET = MAX_SLOTS

Place = tuple[int, int]
"""Where a path stands in the kernel: its number, by which its link is called, and its table."""


def table_offset(slot: int) -> int:
    """How far above the base a path's table is."""
    return slot if slot < MAX_SLOTS else FIRST_TABLES + 2 * (slot - MAX_SLOTS)


class Planner:
    """Pure functions of one topology and the settings, gathered because all of them need both.

    Attributes:
        withheld: one sentence for each prefix of another location that no table of ours leads to.
        windows: where rules of ours stand, and behind that where they have stood.
    """

    def __init__(self, topology: Topology, settings: Settings) -> None:
        self.topology = topology
        self.settings = settings
        self.local = topology.local
        self.windows = topology.windows or (RuleWindow(first=settings.kernel.priority_base),)
        self.paths = topology.local_paths()
        self._led, self.withheld = _led(topology)
        self._by_number: dict[int, Path] = {path.number: path for path in self.paths}
        places = {pair: place for place, pair in enumerate(sorted({path.pair for path in self.paths}))}
        self._slots = {path.number: places[path.pair] * RANKS_PER_PAIR + path.rank for path in self.paths}
        self._pair_slots = {pair: place % PAIR_PRIORITIES for pair, place in places.items()}

    def path(self, number: int) -> Path:
        """The path of that number that ends here."""
        return self._by_number[number]

    def provision(self, kept_devices: Collection[str] = (), kept_tables: Collection[int] = ()) -> Provision:
        """Every standing object of this node.

        Args:
            kept_devices: of an earlier mesh, with traffic on them still; what would take their place waits.
            kept_tables: likewise.
        """
        paths = self.paths
        links = tuple(self._link(path) for path in paths if self._has_link(path))
        routes = tuple(route for path in paths for route in (*self.routes(path), *self._probe_routes(path)))
        routes += tuple(detour_routes(self.topology, self.settings.kernel.table_base, self._led))
        devices = tuple(dict.fromkeys((*(link.device for link in links), *sorted(kept_devices))))
        delivery = self._delivery_routes() if devices else ()
        return Provision(
            links=tuple(link for link in links if link.device not in kept_devices),
            # Routes into a link that still leads elsewhere wait as well: their probes would praise the wrong path.
            routes=tuple(
                each for each in routes + delivery if each.table not in kept_tables and each.dev not in kept_devices
            ),
            rules=self._standing_rules(devices) if self.topology.detours or not self.topology.is_observed else (),
            kept_devices=tuple(sorted(kept_devices)),
            kept_tables=tuple(sorted(kept_tables)),
            windows=self.windows,
        )

    def detour(self, detour: Detour, window: RuleWindow | None = None) -> Rule:
        """The rule that has this node's traffic to other locations take a detour."""
        return detour_override(self.settings.kernel.table_base, window or self.windows[0], detour)

    def detour_of(self, rule: Rule) -> Detour | None:
        """The detour whose rule was found in the kernel, where it stands or has stood; or None."""
        found = (each for each in self.topology.detours for window in self.windows if self.detour(each, window) == rule)
        return next(found, None)

    def is_of_detour(self, rule: Rule) -> bool:
        """Whether a rule found in the kernel has led by a detour, be it one of this mesh or of an earlier one."""
        return is_of_detour(self.settings.kernel.table_base, rule)

    def stands_on(self, path: Path) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The standby devices and tables of this node that traffic on a path needs."""
        devices = (self._device(path),) if self._has_link(path) else ()
        return devices, (self._table(path),) if self.routes(path) else ()

    def place_of(self, path: Path) -> Place:
        """A path's number, by which its link is called, and its table: the same in two meshes is the same path."""
        return path.number, self._table(path)

    def routes(self, path: Path) -> tuple[Route, ...]:
        """The routes of a path's table on this node; none for the mesh's own path and on a leader that it bypasses."""
        local = self.local
        relay = path.relay_in(local.location)
        if path.is_primary or relay not in (local.name, *self.topology.hops) or not self.probes_path(path):
            return ()
        table = self._table(path)
        prefixes = [prefix for node in self.reached_over(path) for prefix in self._led[node.name]]
        if relay == local.name:
            return tuple(
                Route(dst=prefix, table=table, dev=self._device(path), src=local.node_ip) for prefix in prefixes
            )
        hop = self.topology.hops[relay]
        return tuple(
            Route(dst=prefix, table=table, dev=hop.device, via=hop.via, src=local.node_ip) for prefix in prefixes
        )

    def reached_over(self, path: Path) -> tuple[Node, ...]:
        """The remote nodes whose traffic a path carries.

        A leader that the path goes around keeps its own traffic on the mesh's path in both directions: its own pods
        are usually fine, and its relay duties are what is broken.
        """
        remote = path.other_location(self.local.location)
        leader = self.topology.mesh.location(remote).leader
        bypassed = None if path.relay_in(remote) == leader else leader
        return tuple(node for node in self.topology.mesh.members(remote) if node.name != bypassed)

    def probes_path(self, path: Path) -> bool:
        """Whether this node's traffic could ever take the path; a bypassed leader's own never does."""
        local = self.local
        return self.topology.mesh.location(local.location).leader != local.name or self.topology.is_relay(path)

    def override(self, path: Path, window: RuleWindow | None = None) -> tuple[Rule, ...]:
        """The rules that move this node's traffic onto a path; none where nothing has to move."""
        if not self.routes(path):
            return ()
        priority = (window or self.windows[0]).override(self._pair_slots[path.pair])
        return (Rule(priority=priority, table=self._table(path)),)

    def switch(self, current: Path, target: Path) -> Switch:
        """The change from one path to another: make before break."""
        return Switch(add=self.override(target), delete=self.override(current))

    def operations(self, current: Path, target: Path) -> tuple[str, ...]:
        """The same change as a person would type it."""
        return self.switch(current, target).render(self.settings.kernel.protocol)

    def overridden_by(self, rule: Rule) -> Path | None:
        """The path whose override a rule found in the kernel is, where it stands or has stood; or None."""
        windows = [each for each in self.windows if each.is_override(rule.priority)]
        found = (path for window in windows for path in self.paths if rule in self.override(path, window))
        return next(found, None)

    def pair_of_override(self, rule: Rule) -> int | None:
        """The pair whose override has this rule's priority, whatever it leads to; the first pair for nobody's."""
        window = next((each for each in self.windows if each.is_override(rule.priority)), None)
        if window is None:
            return None
        led = next((path.pair for path in self.paths if self._table(path) == rule.table), None)
        if window.is_narrow and led is not None:
            return led
        pairs: dict[int, int] = {}
        for pair, place in self._pair_slots.items():
            pairs.setdefault(place, pair)
        return pairs.get(rule.priority - window.override(0), pairs.get(0))

    def probe_port(self, path: Path) -> int:
        """The UDP port of the path's reflectors, which selects the path at every hop."""
        return path_port(self.settings.probe.port, path.number)

    def _has_link(self, path: Path) -> bool:
        return not path.is_primary and self.topology.is_relay(path)

    def _table(self, path: Path) -> int:
        return self.settings.kernel.table_base + table_offset(self._slots[path.number])

    def _probe_table(self, path: Path) -> int:
        slot = self._slots[path.number]
        return self.settings.kernel.table_base + table_offset(slot) + (PROBE_TABLE_OFFSET if slot < MAX_SLOTS else 1)

    def _device(self, path: Path) -> str:
        return f"{self.settings.kernel.device_prefix}{path.link_index}"

    def _link(self, path: Path) -> StandbyLink:
        remote = path.other_location(self.local.location)
        peer = self.topology.mesh.node(path.relay_in(remote))
        port = self.settings.standby.port + (path.link_index or 0)
        return StandbyLink(
            device=self._device(path),
            peer=peer.name,
            listen_port=port,
            mtu_bytes=self.settings.standby.mtu,
            peer_public_key=peer.standby_public_key or "",
            endpoint=f"{peer.standby_endpoint}:{port}" if peer.standby_endpoint else None,
            allowed_ips=tuple(prefix for node in self.topology.mesh.members(remote) for prefix in self._led[node.name]),
            keepalive_s=self.settings.standby.keepalive // SECOND,
        )

    def _delivery_routes(self) -> tuple[Route, ...]:
        table = self.settings.kernel.table_base + DELIVERY_SLOT
        return tuple(
            Route(dst=f"{self.topology.mesh.node(name).node_ip}/32", table=table, dev=hop.device, via=hop.via)
            for name, hop in sorted(self.topology.hops.items())
        )

    def _standing_rules(self, devices: Iterable[str]) -> tuple[Rule, ...]:
        window, table = self.windows[0], self.settings.kernel.table_base
        delivery = tuple(Rule(priority=window.delivery, table=table + DELIVERY_SLOT, iif=device) for device in devices)
        landing = Rule(priority=window.landing, table=table + EMPTY_SLOT)
        selectors = tuple(rule for path in self.paths for rule in self._selectors(path))
        around = detour_rules(
            self.topology, table, window, probe_port=self.settings.probe.port, probing=self._probing_ports()
        )
        return (*delivery, landing, *selectors, *around)

    def _selectors(self, path: Path) -> tuple[Rule, Rule]:
        """Probes of the path and answers to them: both ports must fit, so that no other traffic is caught."""
        window, port = self.windows[0], self.probe_port(path)
        priority = window.selector(self._slots[path.number] % MAX_SLOTS)
        own, theirs = (port, port), self._probing_ports()
        if self.routes(path):
            table = self._probe_table(path)
            return (
                Rule(priority=priority, table=table, sport=theirs, dport=own),
                Rule(priority=priority, table=table, sport=own, dport=theirs),
            )
        landing = window.landing
        return (
            Rule(priority=priority, goto=landing, sport=theirs, dport=own),
            Rule(priority=priority, goto=landing, sport=own, dport=theirs),
        )

    def _probing_ports(self) -> tuple[int, int]:
        """Every source port a probe of any node may have, pinned ones included."""
        first, last = parse_port_range(self.settings.probe.source_ports)
        reserved = reserved_ports(self.settings.probe.port)
        return min(first, reserved.start), max(last, reserved.stop)

    def _probe_routes(self, path: Path) -> tuple[Route, ...]:
        """The path's ways to what is probed: nodes, and the one address among each node's pods that is the host's."""
        table, ways = self._probe_table(path), {route.dst: route for route in self.routes(path)}
        nodes = [way for prefix, way in ways.items() if prefix.endswith("/32")]
        hosts = [
            msgspec.structs.replace(ways[node.pod_cidr], dst=f"{node.overlay_ip}/32")
            for node in self.reached_over(path)
            if node.pod_cidr in ways and node.has_pod_address()
        ]
        return tuple(msgspec.structs.replace(route, table=table) for route in (*nodes, *hosts))


def _led(topology: Topology) -> tuple[dict[NodeName, tuple[str, ...]], tuple[str, ...]]:
    """Prefixes of each node of another location that our tables may lead to: none that holds an address of this one.

    The last guard, whatever was believed before: our rules are asked before the main table, so a route of ours to an
    address of the own location takes it from everybody on this node.

    Returns:
        the prefixes by node, and one sentence for each that is left out.
    """
    local = topology.local
    own = [
        Claim(node.name, prefix)
        for node in topology.mesh.members(local.location)
        for prefix in (*node.prefixes(), *(f"{each}/32" for each in (node.overlay_ip, node.wireguard_ip) if each))
        if ":" not in prefix
    ]
    # Whether others contradict each other was settled where the mesh was made: here they are one claimant.
    remote = {node.name: node.prefixes() for node in topology.mesh.nodes if node.location != local.location}
    told = dict.fromkeys(prefix for prefixes in remote.values() for prefix in prefixes)
    against = {
        each.claim.prefix: f"which holds {each.against.prefix} of {each.against.who}"
        for each in judge(own, [Claim("", prefix) for prefix in told]).contradictions
    } | dict.fromkeys(topology.refused, "which the kernel of this node contradicts")
    return (
        {name: tuple(prefix for prefix in prefixes if prefix not in against) for name, prefixes in remote.items()},
        tuple(
            f"{name} claims {prefix}, {against[prefix]}: no table of ours leads there; correct {name}'s pod CIDR"
            for name, prefixes in remote.items()
            for prefix in prefixes
            if prefix in against
        ),
    )
