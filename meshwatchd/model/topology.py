"""The mesh as the daemon understands it: locations, leaders, standbys and the paths between locations.

A *path* joins two locations through one relay on each side. Rank 0 is the mesh's own path, from leader to leader. The
other ranks are standby links of our own, one between any two relays:

    location cloud                 location onprem
      b3 --overlay-- b1 ==kilo0== a1 --overlay-- a3        rank 0
      b3 --overlay-- b2 ===mw0=== a1 --overlay-- a3        rank 1
      b3 --overlay-- b1 ===mw1=== a2 --overlay-- a3        rank 2
      b3 --overlay-- b2 ===mw2=== a2 --overlay-- a3        rank 3
      b3 --overlay-- b1 ===mw3=== a1 --overlay-- a3        rank 4

A standby link and its rank depend on its two relays and on nobody's being the leader. So when Kilo moves a leader from
one relay to another, all standby links stay as they are, with the traffic on them.

Numbers are derived from the sorted names alone, so all nodes agree on them without talking to each other. A pair's
number matters to the nodes of its two locations only, so pairs that share none may have the same: the pairs of up to
COUNTED_LOCATIONS are counted, and those of more are coloured like the edges of a complete graph.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from ipaddress import ip_address, ip_network

import msgspec

from meshwatchd.model.detour import Detour
from meshwatchd.model.errors import ProfileError
from meshwatchd.model.ids import LocationName, NodeName, PairIndex, PathNumber
from meshwatchd.model.rule_window import RuleWindow

RANKS_PER_PAIR = 8
"""Paths a pair of locations may have; two locations with a leader and one standby each have five."""

LINKS_PER_PAIR = RANKS_PER_PAIR - 1

COUNTED_LOCATIONS = 4
"""Of so many locations or fewer all pairs are counted: six numbers for six pairs, all that one banner has room for."""

MAX_LOCATIONS = 60
"""More would need more probe ports than port_map.RESERVED_PORTS leaves."""


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node of the mesh.

    Attributes:
        node_ip: its address in its own location, which the mesh routes between locations.
        pod_cidr: the prefix of its pods.
        overlay_ip: the address of its overlay device, the gateway its neighbours use for its pods.
        wireguard_ip: its address on the mesh's WireGuard device; leaders have one.
        node_ip6, overlay_ip6, wireguard_ip6: the same places by IPv6; a layer is probed by IPv6 where both ends have
            an address. Routes of ours are IPv4: what only IPv6 loses is told and never moves traffic.
        standby_public_key: base64 of 32 bytes; nodes that may relay have one.
        standby_endpoint: host part of where its standby links can be reached; None behind NAT, where it initiates.
    """

    name: NodeName
    location: LocationName
    node_ip: str
    pod_cidr: str
    overlay_ip: str
    wireguard_ip: str | None = None
    node_ip6: str | None = None
    overlay_ip6: str | None = None
    wireguard_ip6: str | None = None
    standby_public_key: str | None = None
    standby_endpoint: str | None = None

    def prefixes(self) -> tuple[str, ...]:
        """The prefixes that other locations route to this node: its pods and itself."""
        return (*filter(None, (self.pod_cidr,)), f"{self.node_ip}/32")

    def has_pod_address(self) -> bool:
        """Whether the overlay address is among the pods': flannel.1's and cilium_host's are."""
        try:
            return ip_address(self.overlay_ip) in ip_network(self.pod_cidr, strict=False)
        except ValueError:
            return False


class Location(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A set of nodes that reach each other without crossing the mesh, with its leader and ranked standbys."""

    name: LocationName
    leader: NodeName
    standbys: tuple[NodeName, ...] = ()

    def relays(self) -> tuple[NodeName, ...]:
        """Every node that may relay for this location, the leader first."""
        return (self.leader, *self.standbys)


PathKey = tuple[tuple[LocationName, LocationName], tuple[NodeName, NodeName], bool]
"""Locations, relays, and whether it is the mesh's own: what a path is, whatever its number in the mesh of a moment."""


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """One way between two locations: a relay on each side, in the order of the locations' names.

    Attributes:
        rank: the same for all nodes, whoever leads.
        preference: the lowest is taken first. The mesh's own path is 0.
        is_between_leaders: both relays lead their locations. A standby link between them avoids the mesh's tunnel
            alone, so it is the last that is taken.
    """

    number: PathNumber
    pair: PairIndex
    rank: int
    preference: int
    locations: tuple[LocationName, LocationName]
    relays: tuple[NodeName, NodeName]
    is_between_leaders: bool = False

    @property
    def is_primary(self) -> bool:
        """Whether this is the mesh's own path."""
        return self.rank == 0

    @property
    def is_spare(self) -> bool:
        """Whether this is a standby link between the two leaders."""
        return self.is_between_leaders and not self.is_primary

    @property
    def key(self) -> PathKey:
        """What makes it the same path in another topology: numbers and ranks shift when locations or relays change."""
        return self.locations, self.relays, self.is_primary

    @property
    def link_index(self) -> int | None:
        """The standby link it runs over, or None for the mesh's own path."""
        return None if self.is_primary else self.pair * LINKS_PER_PAIR + self.rank - 1

    def relay_in(self, location: LocationName) -> NodeName:
        """Its relay in one of its two locations."""
        return self.relays[self.locations.index(location)]

    def other_location(self, location: LocationName) -> LocationName:
        """The location at the other end."""
        return self.locations[1 - self.locations.index(location)]


class Mesh(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All locations, nodes and paths, in sorted order.

    What is asked for again and again is found once: looking through a thousand nodes takes a tenth of a millisecond.
    """

    locations: tuple[Location, ...]
    nodes: tuple[Node, ...]
    paths: tuple[Path, ...]

    def node(self, name: str) -> Node:
        """The node of that name."""
        return self._by_name[name]

    def is_in(self, name: str, location: str) -> bool:
        """Whether there is a node of that name in a location."""
        node = self._by_name.get(name)
        return node is not None and node.location == location

    def location(self, name: str) -> Location:
        """The location of that name."""
        return next(location for location in self.locations if location.name == name)

    def members(self, location: str) -> tuple[Node, ...]:
        """The nodes of one location."""
        return self._by_location.get(location, ())

    def paths_of(self, location: str) -> tuple[Path, ...]:
        """The paths that end in one location."""
        return self._ending_in.get(location, ())

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _by_location(self) -> dict[str, tuple[Node, ...]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(node.location, []).append(node)
        return {location: tuple(nodes) for location, nodes in found.items()}

    @cached_property
    def _ending_in(self) -> dict[str, tuple[Path, ...]]:
        found: dict[str, list[Path]] = {}
        for path in self.paths:
            for location in path.locations:
                found.setdefault(location, []).append(path)
        return {location: tuple(paths) for location, paths in found.items()}


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """How this node hands a packet to another node of its location: a gateway on an overlay device."""

    via: str
    device: str


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile makes of a snapshot: the mesh, and how this node reaches its neighbours.

    Attributes:
        profile: the name of the profile that recognised it.
        why: one sentence for each reason.
        hops: the way to each other node of this location, by node name.
        is_overlay_direct: the overlay stands on the WireGuard device (flannel over wg0), or on the nodes' own network
            (Antrea): its packets go straight from node to node, between locations too, and nobody relays.
        is_overlay_star: the overlay joins each member with its leader, and no two members (Submariner).
        is_observed: nobody may stand by, and no rule of ours is there but those of detours.
        is_clustered: locations are clusters whose nodes each reach all others themselves: leaders are so by name alone.
        detours: ways around this node's leg to its leader, the preferred first; a leader has none.
        windows: where rules of ours stand, and behind that where they have stood; empty for the configured place.
        carrier: the host mesh's device by which packets of the tunnel leave, or have left; empty where there is none.
    """

    profile: str
    why: tuple[str, ...]
    local_node: NodeName
    wireguard_device: str
    overlay_device: str
    mesh: Mesh
    hops: dict[str, Hop]
    is_overlay_direct: bool = False
    is_overlay_star: bool = False
    is_observed: bool = False
    is_clustered: bool = False
    refused: tuple[str, ...] = ()
    detours: tuple[Detour, ...] = ()
    windows: tuple[RuleWindow, ...] = ()
    carrier: str = ""

    @property
    def local(self) -> Node:
        """The node this daemon runs on."""
        return self.mesh.node(self.local_node)

    @property
    def is_on_underlay(self) -> bool:
        """Whether there is nothing below the overlay but the nodes' network (Antrea): no WireGuard, no host mesh."""
        return self.is_overlay_direct and not (self.wireguard_device or self.local.wireguard_ip)

    def local_paths(self) -> tuple[Path, ...]:
        """The paths that end in this node's location."""
        return self.mesh.paths_of(self.local.location)

    def path(self, number: int) -> Path:
        """The path of that number that ends in this node's location."""
        return next(path for path in self.local_paths() if path.number == number)

    def is_relay(self, path: Path) -> bool:
        """Whether this node is one of the path's two relays."""
        return self.local_node in path.relays


def build_mesh(locations: Iterable[Location], nodes: Iterable[Node], *, with_impossible: bool = False) -> Mesh:
    """Sort, check and number a mesh.

    Args:
        locations: in any order.
        nodes: in any order.
        with_impossible: keep paths over links that cannot come up; they have numbers in any case, so that no other
            path is numbered anew when a key or an endpoint turns up.

    Raises:
        ProfileError: a location names a node that does not exist or lives elsewhere, a node names no location, or a
            pair of locations has more than LINKS_PER_PAIR standby links.
    """
    ordered = tuple(sorted(locations, key=lambda location: location.name))
    members = tuple(sorted(nodes, key=lambda node: node.name))
    return _build(ordered, members, with_impossible)


# Every snapshot of a kernel is read against the mesh, which is nearly always the same, and a thousand nodes in fifty
# locations have five thousand paths.
@lru_cache(maxsize=4)
def _build(ordered: tuple[Location, ...], members: tuple[Node, ...], with_impossible: bool) -> Mesh:
    _check_membership(ordered, members)
    relays = {node.name: node for node in members}
    paths = (
        path
        for path in _enumerate_paths(ordered, members)
        if with_impossible or path.is_primary or can_link(*(relays[name] for name in path.relays))
    )
    return Mesh(locations=ordered, nodes=members, paths=tuple(paths))


def pair_number(first: int, second: int, locations: int) -> PairIndex:
    """The number of a pair of locations.

    Args:
        first: place of one of them among all locations in the order of their names.
        second: place of the other, behind it.
        locations: how many there are.

    Returns:
        The place among all pairs where these are counted. Else a colour below `locations`: two pairs with one location
        in common have different ones, since (first + second) mod n leaves only one second for each first.
    """
    if locations <= COUNTED_LOCATIONS:
        return PairIndex(first * locations - first * (first + 1) // 2 + second - first - 1)
    return PairIndex((first + second - 1) % locations)


def can_link(one: Node, other: Node) -> bool:
    """Whether a standby link between two relays can come up: both have a key, and somebody can be reached.

    Where neither has a key, keys are not what the mesh is about: observe and advise make no links.
    """
    if one.standby_public_key is None and other.standby_public_key is None:
        return True
    has_keys = one.standby_public_key is not None and other.standby_public_key is not None
    return has_keys and (one.standby_endpoint is not None or other.standby_endpoint is not None)


def _check_membership(locations: tuple[Location, ...], nodes: tuple[Node, ...]) -> None:
    homes = {node.name: node.location for node in nodes}
    known = {location.name for location in locations}
    if len(homes) != len(nodes) or len(known) != len(locations):
        raise ProfileError("two nodes or two locations share one name; names must be unique")
    for node in nodes:
        if node.location not in known:
            raise ProfileError(f"node {node.name} is in location {node.location}, which is not declared")
    for location in locations:
        for relay in location.relays():
            if homes.get(relay) != location.name:
                raise ProfileError(f"location {location.name} names {relay}, which is not one of its nodes")


def _enumerate_paths(locations: tuple[Location, ...], nodes: tuple[Node, ...]) -> Iterator[Path]:
    places = {location.name: _places(location, nodes) for location in locations}
    for (place, first), (other_place, second) in itertools.combinations(enumerate(locations), 2):
        pair = pair_number(place, other_place, len(locations))
        links = _rank_links(first, second, places[first.name], places[second.name])
        if len(links) > LINKS_PER_PAIR:
            raise ProfileError(
                f"{first.name} and {second.name} have {len(links)} standby links, at most {LINKS_PER_PAIR} are"
                " supported; declare fewer standbys"
            )
        ranked = [(0, (first.leader, second.leader)), *links]
        for preference, (rank, relays) in enumerate(ranked):
            yield Path(
                number=PathNumber(pair * RANKS_PER_PAIR + rank),
                pair=pair,
                rank=rank,
                preference=preference,
                locations=(first.name, second.name),
                relays=relays,
                is_between_leaders=relays == (first.leader, second.leader),
            )


def _rank_links(
    first: Location, second: Location, first_places: dict[NodeName, int], second_places: dict[NodeName, int]
) -> list[tuple[int, tuple[NodeName, NodeName]]]:
    """The standby links of a pair with their ranks, the preferred first; none where nobody stands by."""
    relays = [first.relays(), second.relays()]
    chosen = sorted(
        itertools.product(range(len(relays[0])), range(len(relays[1]))),
        key=lambda places: (places == (0, 0), sum(places), places[1]),
    )
    if len(chosen) == 1:
        return []
    ends = [(relays[0][one], relays[1][other]) for one, other in chosen]
    return [((first_places[a] + len(relays[0]) * second_places[b]) or len(chosen), (a, b)) for a, b in ends]


def _places(location: Location, nodes: Sequence[Node]) -> dict[NodeName, int]:
    """A number for each of K relays, below K, that mostly stays the same when other nodes become relays.

    It is the relay's index among all nodes of the location modulo K, or the next that is free.
    """
    names = [node.name for node in nodes if node.location == location.name]
    relays = frozenset(location.relays())
    places: dict[NodeName, int] = {}
    for index, name in enumerate(names):
        if name in relays:
            places[name] = next(
                place
                for place in ((index + step) % len(relays) for step in range(len(relays)))
                if place not in places.values()
            )
    return places


def relays_print(paths: Sequence[Path]) -> int:
    """One byte that stands for what the ranks of a pair mean, whoever leads; never 0."""
    links = sorted((path for path in paths if not path.is_primary), key=lambda path: path.rank)
    text = ";".join("/".join((*path.locations, *path.relays)) for path in links or paths)
    return zlib.crc32(text.encode()) % 255 + 1
