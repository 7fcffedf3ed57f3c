"""Kernel objects of the ways around a member's own leg to its leader (`model.detour`).

    priority                rule                             purpose
    base                    iif DEVICE goto base + 80        what others hand to this node goes on as the mesh routes it
    base + 10 + 40 + place  ipproto udp ... lookup T_PROBE   probes of a detour
    base + 79               lookup T                         the detour in use

The first of them keeps two nodes that go by each other from sending packets in a circle, and proves to a neighbour's
probes what its traffic will meet. There is one for each device that detours leave by, and one for the overlay: a member
that becomes the leader is sent by that what the others have, before its daemon knows of it, or without one. T leads to
what the mesh routes by the leg, services and all, and to the nodes and pods that are known beside it: a route that the
mesh's own agent has lost is gone around as well. T_PROBE leads to the leaders of other locations alone, so that no
pod's traffic is steered by a selector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from meshwatchd.model.detour import MAX_DETOURS, Detour
from meshwatchd.model.ids import NodeName
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.port_map import path_port
from meshwatchd.model.prefixes import covers
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.topology import Node, Topology

FIRST_TABLE: Final = 80
"""From the base on: behind the tables of paths and of their probes."""

FIRST_SLOT: Final = 40
"""Of selectors, behind those of paths."""

LAST_OVERRIDE: Final = 19
"""Behind those of pairs, of which many may share one: a detour is for what no pair has moved."""


class Places:
    """Has each relay keep its place, and with that its table, while nodes come and go.

    A rule that leads traffic to a table must not find another relay in it, nor have to be removed since the same relay
    is in another. What an earlier process has given is read from its tables.
    """

    def __init__(self, base: int) -> None:
        self._first = base + FIRST_TABLE
        self._known: dict[NodeName, int] = {}

    def keep(self, detours: Sequence[Detour], routes: Iterable[Route]) -> tuple[Detour, ...]:
        """The same detours in the places of before; `routes` are those of our tables in the kernel."""
        known = self._known or self._read(detours, routes)
        held = {each.relay: known[each.relay] for each in detours if each.relay in known}
        # What a relay that is gone had is given away last: it may have been gone for a moment.
        absent = {place for relay, place in known.items() if relay not in held}
        for each in (each for each in detours if each.relay not in held):
            free = [place for place in range(MAX_DETOURS) if place not in held.values()]
            held[each.relay] = min((place in absent, place != each.place, place) for place in free)[2]
        self._known = {relay: place for relay, place in known.items() if place not in held.values()} | held
        return tuple(msgspec.structs.replace(each, place=held[each.relay]) for each in detours)

    def _read(self, detours: Sequence[Detour], routes: Iterable[Route]) -> dict[NodeName, int]:
        relays = {(each.via, each.device): each.relay for each in detours}
        if len(relays) < len(detours):
            return {}  # one router is the next hop of several
        traffic = (each for each in routes if 0 <= each.table - self._first < MAX_DETOURS)
        places = {(each.via, each.dev): each.table - self._first for each in traffic}
        return {relay: places[way] for way, relay in relays.items() if way in places}


def remote_leaders(topology: Topology) -> tuple[Node, ...]:
    """Whom detours are proven by: no leg of their own is between the cable and them."""
    home = topology.local.location
    names = (each.leader for each in topology.mesh.locations if each.name != home)
    return tuple(topology.mesh.node(name) for name in names)


def detour_table(base: int, detour: Detour) -> int:
    """The table of traffic."""
    return base + FIRST_TABLE + detour.place


def is_of_detour(base: int, rule: Rule) -> bool:
    """Whether a rule leads to the table of a detour."""
    return 0 <= rule.table - base - FIRST_TABLE < MAX_DETOURS


def detour_routes(topology: Topology, base: int, led: Mapping[NodeName, Sequence[str]]) -> Iterator[Route]:
    """Both tables of each detour; `led` has the prefixes of each node of another location that may be led to."""
    source = topology.local.node_ip
    home = topology.local.location
    nodes = [text for each in topology.mesh.nodes if each.location != home for text in led[each.name]]
    for detour in topology.detours:
        beside = [text for text in nodes if not any(covers(wide, text) for wide in detour.prefixes)]
        ways = {"dev": detour.device, "via": detour.via, "src": source}
        for prefix in dict.fromkeys((*detour.prefixes, *beside)):
            yield Route(dst=prefix, table=detour_table(base, detour), **ways)
        for leader in remote_leaders(topology):
            yield Route(dst=f"{leader.node_ip}/32", table=_probe_table(base, detour), **ways)


def detour_rules(
    topology: Topology, base: int, window: RuleWindow, *, probe_port: int, probing: tuple[int, int]
) -> Iterator[Rule]:
    """What stands while all is well; `probing` are the ports that probes come from."""
    devices = {detour.device for detour in topology.detours}
    for device in sorted({*devices, topology.overlay_device} if devices else ()):
        yield Rule(priority=window.delivery, goto=window.landing, iif=device)
    for detour in topology.detours:
        own = path_port(probe_port, detour.number)
        priority = window.selector(FIRST_SLOT + detour.place)
        yield Rule(priority=priority, table=_probe_table(base, detour), sport=probing, dport=(own, own))


def detour_override(base: int, window: RuleWindow, detour: Detour) -> Rule:
    """The rule that has all traffic to other locations take a detour."""
    return Rule(priority=window.override(0 if window.is_narrow else LAST_OVERRIDE), table=detour_table(base, detour))


def _probe_table(base: int, detour: Detour) -> int:
    return detour_table(base, detour) + MAX_DETOURS
