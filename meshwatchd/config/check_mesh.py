"""Whether the declared mesh can be one: names, addresses, keys, and a way to bring up every standby link."""

from __future__ import annotations

import difflib
import ipaddress
import itertools
from collections.abc import Iterator

from meshwatchd.config.shape import element_key
from meshwatchd.config.values import (
    Finding,
    check_address,
    check_address6,
    check_endpoint,
    check_name,
    check_prefix,
    check_public_key,
)
from meshwatchd.model.errors import ProfileError
from meshwatchd.model.mesh_profile import MESH_KINDS, PROFILE_GROUP, Trait, traits_of
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.topology import LINKS_PER_PAIR, MAX_LOCATIONS, Location, Mesh, Node, Path, build_mesh

_FIELDS6 = ("node_ip6", "overlay_ip6", "wireguard_ip6")


def check_mesh(settings: Settings) -> Iterator[Finding]:
    """Everything under [mesh]; nothing when no mesh is declared."""
    mesh = settings.mesh
    yield from _check_kind(mesh)
    yield from _check_traits(mesh)
    if not mesh.location and not mesh.node:
        return
    yield from _check_family(mesh)
    yield from _check_names(mesh)
    if is_whole(settings):
        yield from _check_membership(mesh)
    yield from _check_relays(mesh)
    yield from _check_count(mesh)
    for index, node in enumerate(mesh.node):
        yield from _check_node(_node_key(index, node), node)
    yield from _check_unique(mesh)
    yield from _check_overlaps(mesh)
    if not is_whole(settings):
        yield from _check_links(mesh)
        return
    yield from _check_local_node(settings)
    try:
        built = build_mesh(mesh.location, mesh.node, with_impossible=True)
    except ProfileError as error:
        yield Finding(key="mesh", problem=str(error), remedy="correct the declaration of the mesh")
        return
    yield from _check_paths(mesh, built)


def _check_kind(mesh: MeshSettings) -> Iterator[Finding]:
    """A kind that is built in, or that an installed package offers."""
    if mesh.profile in MESH_KINDS:
        return
    from importlib.metadata import entry_points  # noqa: PLC0415 - 3 MiB that only strangers' kinds need

    kinds = (*MESH_KINDS, *sorted(point.name for point in entry_points(group=PROFILE_GROUP)))
    if mesh.profile not in kinds:
        near = difflib.get_close_matches(mesh.profile, kinds, n=1)
        yield Finding(
            key="mesh.profile",
            problem=f"no kind of mesh is called {mesh.profile}; there are {', '.join(kinds)}",
            remedy=f'did you mean "{near[0]}"?' if near else "leave it out: the kind is found out",
        )


def _check_traits(mesh: MeshSettings) -> Iterator[Finding]:
    """What is declared is known; what a peer of a later version tells beside that means nothing here."""
    known = tuple(Trait)
    for index, trait in enumerate(mesh.traits):
        if trait not in known:
            near = difflib.get_close_matches(trait, known, n=1)
            yield Finding(
                key=f"mesh.traits[{index}]",
                problem=f"no trait of a mesh is called {trait!r}; there are {', '.join(known)}",
                remedy=f'did you mean "{near[0]}"?' if near else "leave it out, or install the version that knows it",
            )


def is_whole(settings: Settings) -> bool:
    """Whether [mesh] is all there is to know; locations alone or nodes alone pin what is found out otherwise."""
    return bool(settings.mesh.location and settings.mesh.node) or not settings.discovery.enabled


def _check_family(mesh: MeshSettings) -> Iterator[Finding]:
    """One IPv6 address is a slip, all of them are another kind of mesh."""
    if mesh.node and all(":" in node.node_ip for node in mesh.node):
        yield Finding(
            key="mesh.node",
            problem="every node_ip is IPv6, and our routes, rules and standby links are IPv4: nothing could be moved",
            remedy="a mesh without IPv4 is not supported; write IPv4 addresses as node_ip, and these as node_ip6",
        )


def _node_key(index: int, node: Node) -> str:
    return element_key("mesh.node", index, node.name)


def _check_names(mesh: MeshSettings) -> Iterator[Finding]:
    keyed: dict[str, list[str]] = {
        "mesh.location": [location.name for location in mesh.location],
        "mesh.node": [node.name for node in mesh.node],
    }
    for section, names in keyed.items():
        for index, name in enumerate(names):
            key = f"{element_key(section, index, name)}.name"
            yield from check_name(key, name)
            if name in names[:index]:
                first = f"{section}[{names.index(name)}]"
                yield Finding(key=key, problem=f"{first} has the same name", remedy="give each its own")


def _check_membership(mesh: MeshSettings) -> Iterator[Finding]:
    locations = [location.name for location in mesh.location]
    homes: dict[str, str] = {node.name: node.location for node in mesh.node}
    for index, node in enumerate(mesh.node):
        if node.location not in locations:
            declared = ", ".join(locations) or "none"
            yield Finding(
                key=f"{_node_key(index, node)}.location",
                problem=f"there is no location {node.location!r}",
                remedy=f"declare it as [[mesh.location]], or write one of those declared: {declared}",
            )
    for index, location in enumerate(mesh.location):
        key = element_key("mesh.location", index, location.name)
        yield from _check_relay(f"{key}.leader", location.leader, location, homes)
        for rank, standby in enumerate(location.standbys):
            yield from _check_relay(f"{key}.standbys[{rank}]", standby, location, homes)


def _check_relays(mesh: MeshSettings) -> Iterator[Finding]:
    """Relays are each another node."""
    for index, location in enumerate(mesh.location):
        relays = location.relays()
        for rank, standby in enumerate(location.standbys):
            if standby in relays[: rank + 1]:
                yield Finding(
                    key=f"{element_key('mesh.location', index, location.name)}.standbys[{rank}]",
                    problem=f"{standby} is named twice",
                    remedy="name the leader and each standby once",
                )


def _check_links(mesh: MeshSettings) -> Iterator[Finding]:
    """What `build_mesh` will refuse once the nodes of these locations are found."""
    for one, other in itertools.combinations(mesh.location, 2):
        links = len(one.relays()) * len(other.relays())
        if links > LINKS_PER_PAIR:
            yield Finding(
                key="mesh.location",
                problem=f"{one.name} and {other.name} have {links} standby links",
                remedy=f"name fewer standbys; at most {LINKS_PER_PAIR} links are supported",
            )


def _check_count(mesh: MeshSettings) -> Iterator[Finding]:
    if len(mesh.location) > MAX_LOCATIONS:
        yield Finding(
            key="mesh.location",
            problem=f"{len(mesh.location)} locations need more probe ports than there are",
            remedy=f"declare at most {MAX_LOCATIONS}",
        )


def _check_relay(key: str, name: str, location: Location, homes: dict[str, str]) -> Iterator[Finding]:
    members = ", ".join(node for node, home in homes.items() if home == location.name) or "none"
    if name not in homes:
        yield Finding(key=key, problem=f"there is no node {name!r}", remedy=f"name a node of the location: {members}")
    elif homes[name] != location.name:
        yield Finding(
            key=key,
            problem=f"{name} is in location {homes[name]}, not in {location.name}",
            remedy=f"name a node of the location: {members}",
        )


def _check_node(key: str, node: Node) -> Iterator[Finding]:
    yield from check_address(f"{key}.node_ip", node.node_ip)
    yield from check_prefix(f"{key}.pod_cidr", node.pod_cidr)
    yield from check_address(f"{key}.overlay_ip", node.overlay_ip)
    if node.wireguard_ip is not None:
        yield from check_address(f"{key}.wireguard_ip", node.wireguard_ip)
    for field in _FIELDS6:
        address = getattr(node, field)
        if address is not None:
            yield from check_address6(f"{key}.{field}", address)
    if node.standby_public_key is not None:
        yield from check_public_key(f"{key}.standby_public_key", node.standby_public_key)
    if node.standby_endpoint is not None:
        yield from check_endpoint(f"{key}.standby_endpoint", node.standby_endpoint)


def _check_unique(mesh: MeshSettings) -> Iterator[Finding]:
    """Addresses and keys that identify one node; a copied block is the usual mistake."""
    for field in ("node_ip", "overlay_ip", "wireguard_ip", *_FIELDS6, "standby_public_key"):
        first: dict[str, str] = {}
        for index, node in enumerate(mesh.node):
            value = getattr(node, field)
            if value is None:
                continue
            if value in first:
                what = f"{first[value]} has the same" if field.endswith("key") else f"{value} is also {first[value]}'s"
                yield Finding(key=f"{_node_key(index, node)}.{field}", problem=what, remedy="give each node its own")
            first.setdefault(value, node.name)


def _check_overlaps(mesh: MeshSettings) -> Iterator[Finding]:
    """No address may belong to two nodes: the longest prefix would silently win."""
    networks = [
        (index, node, field, ipaddress.IPv4Network(text))
        for index, node in enumerate(mesh.node)
        for field, text in (("pod_cidr", node.pod_cidr), ("node_ip", f"{node.node_ip}/32"))
    ]
    for (_, one, one_field, first), (index, other, field, second) in itertools.combinations(networks, 2):
        if first.overlaps(second):
            of_one = (
                f"{one.name}'s {one_field} {_render(first)}"
                if one is not other
                else f"its own {one_field} {_render(first)}"
            )
            yield Finding(
                key=f"{_node_key(index, other)}.{field}",
                problem=f"{_render(second)} overlaps {of_one}",
                remedy="give each node a prefix of its own (kubectl get nodes shows spec.podCIDR)",
            )


def _render(network: ipaddress.IPv4Network) -> str:
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _check_local_node(settings: Settings) -> Iterator[Finding]:
    names = [node.name for node in settings.mesh.node]
    if settings.daemon.node not in names:
        yield Finding(
            key="daemon.node",
            problem=f"{settings.daemon.node!r} is no node of the mesh (an empty key means the host name)",
            remedy=f"write one of {', '.join(names)}",
        )


def _check_paths(mesh: MeshSettings, built: Mesh) -> Iterator[Finding]:
    """Leaders have a WireGuard address, if there is a tunnel; a standby path has two keys and one who can initiate."""
    has_tunnel = mesh.wireguard_device or Trait.DIRECT not in traits_of((mesh.profile,), mesh.traits)
    keys: dict[str, str] = {node.name: _node_key(index, node) for index, node in enumerate(mesh.node)}
    for path in built.paths:
        ends = [built.node(relay) for relay in path.relays]
        if path.is_primary:
            for leader in ends:
                if leader.wireguard_ip is None and has_tunnel:
                    yield Finding(
                        key=f"{keys[leader.name]}.wireguard_ip",
                        problem=f"is missing, and {leader.name} leads {leader.location}",
                        remedy=f"write what `ip -4 addr show {mesh.wireguard_device}` prints there",
                    )
            continue
        yield from _check_standby_path(path, ends, keys)


def _check_standby_path(path: Path, ends: list[Node], keys: dict[str, str]) -> Iterator[Finding]:
    between = " and ".join(path.relays)
    for end in ends:
        if end.standby_public_key is None:
            yield Finding(
                key=f"{keys[end.name]}.standby_public_key",
                problem=f"is missing, and the standby path between {between} needs it",
                remedy=f"write what `wg pubkey < /var/lib/meshwatchd/standby.key` prints on {end.name}",
            )
    if all(end.standby_endpoint is None for end in ends):
        yield Finding(
            key=f"{keys[ends[0].name]}.standby_endpoint",
            problem=f"is missing at both ends of the standby path between {between}: neither can initiate",
            remedy="write the address under which one of them is reached from outside",
        )
