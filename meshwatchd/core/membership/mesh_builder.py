"""From what all nodes say to one mesh: a pure function, so that nodes that have heard the same come to the same.

hellos --home.place--> locations --election--> leaders --> standbys: the first backups by name
what the operator has written under [mesh] replaces whatever it names
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from ipaddress import IPv4Address

import msgspec

from meshwatchd.core.membership.location import Hellos
from meshwatchd.model.discovery import Hello, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.prefixes import Claim, Contradiction, covers, judge, span
from meshwatchd.model.settings import MeshSettings, Mode, Settings
from meshwatchd.model.topology import Location, Node, can_link

MAX_LOCATIONS = 4
"""Six pairs of locations is what a probe can tell its view of (model.events.Banner)."""

_DEFAULTS = MeshSettings()


class Assembly(msgspec.Struct, frozen=True, kw_only=True):
    """A mesh, and what stands in its way.

    Attributes:
        mesh: None while too little is known.
        problems: sentences for the operator, each with a remedy where there is one.
    """

    mesh: MeshSettings | None
    problems: tuple[str, ...] = ()


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a mesh is made from.

    Attributes:
        hellos: of all nodes, this one among them.
        places: the location of each node that has one.
        leaders: of each location that has one.
        alive: who was heard lately.
        watched: locations that have been part of the mesh for long; MAX_LOCATIONS at most.
    """

    hellos: Hellos
    places: Mapping[NodeName, LocationName]
    leaders: Mapping[LocationName, NodeName]
    alive: Collection[NodeName]
    watched: Collection[LocationName] = ()


def is_whole(declared: MeshSettings) -> bool:
    """Whether the operator has declared all there is to know."""
    return bool(declared.location and declared.node)


OUTSIDER = "it has the mesh key and is no node of the mesh; stop meshwatchd there, or change the key"


def is_outsider(name: str, settings: Settings) -> bool:
    """Whether the operator has said that a node is none of the mesh, by its name or by naming all others."""
    mesh = settings.mesh
    return name in settings.discovery.forbid or (is_whole(mesh) and all(name != node.name for node in mesh.node))


def assemble(said: Said, view: LocalView, settings: Settings) -> Assembly:
    """The mesh as this node has to see it."""
    problems: list[str] = []
    nodes = _without_doubles(dict(_nodes(said, settings.mesh, problems)), said.alive, problems)
    nodes = _without_contradictions(nodes, said, settings.mesh, problems)
    locations = dict(_locations(said, nodes, settings, problems))
    kept = _watchable(locations, {node.location for node in nodes.values()}, said.watched)
    if len(kept) < len(locations):
        problems.append(
            f"{len(locations)} locations were found and {MAX_LOCATIONS} can be watched: {', '.join(kept)}; more can be"
            " where [mesh] declares all locations and nodes"
        )
    own = nodes.get(view.node)
    if own is None or own.location not in kept:
        return Assembly(mesh=None, problems=(*problems, _what_is_missing(said, view, own)))
    chosen = tuple(locations[name] for name in kept)
    has_links = any(location.standbys for location in chosen)
    members = [
        _dress(node, locations[node.location], said, has_links=has_links)
        for node in nodes.values()
        if node.location in kept
    ]
    problems += _impossible_links(chosen, {node.name: node for node in members})
    mesh = MeshSettings(
        profile=_profile(view, settings.mesh),
        wireguard_device=_device(view, settings.mesh, "wireguard_device"),
        overlay_device=_device(view, settings.mesh, "overlay_device"),
        ipip_device=_device(view, settings.mesh, "ipip_device"),
        traits=settings.mesh.traits or view.traits,
        location=chosen,
        node=tuple(sorted(members, key=lambda node: node.name)),
    )
    return Assembly(mesh=mesh, problems=tuple(problems))


def _watchable(
    found: Collection[LocationName], inhabited: Collection[LocationName], watched: Collection[LocationName]
) -> list[LocationName]:
    """Those that have been watched for long, then the first by name.

    One that has just come must not push out another, with the traffic that was moved for it: not even while that one
    is without a leader.
    """
    waited_for = sum(name in inhabited and name not in found for name in watched)
    by_right = sorted(found, key=lambda name: (name not in watched, name))
    return sorted(by_right[: MAX_LOCATIONS - waited_for])


def _nodes(said: Said, declared: MeshSettings, problems: list[str]) -> Iterator[tuple[NodeName, Node]]:
    """Every node that can be placed and addressed; relays are dressed with keys later."""
    pins = {node.name: node for node in declared.node}
    for name in sorted({*said.hellos, *pins}):
        pin, hello = pins.get(name), said.hellos.get(name)
        if pin is not None:
            yield name, pin
            continue
        assert hello is not None, "the name comes from either of the two"
        view, location = hello.view, said.places.get(name)
        missing = [field for field in ("node_ip", "pod_cidr", "overlay_ip") if not getattr(view, field)]
        if location is None:
            problems.append(f"{name} is in no location: {_why_homeless(hello)}")
        elif missing:
            problems.append(f"{name} reports no {', '.join(missing)}; see meshwatchctl topology --why there")
        else:
            yield name, _undressed(view, location)


def _why_homeless(hello: Hello) -> str:
    if hello.view.leader:
        return f"its leader {hello.view.leader} has not been heard; start meshwatchd there, or set discovery.location"
    return "its sources name none and it follows no leader; set discovery.location there"


def _undressed(view: LocalView, location: LocationName) -> Node:
    return Node(
        name=view.node,
        location=location,
        node_ip=view.node_ip,
        pod_cidr=view.pod_cidr,
        overlay_ip=view.overlay_ip,
        node_ip6=view.node_ip6 or None,
        overlay_ip6=view.overlay_ip6 or None,
    )


def _without_doubles(
    nodes: dict[NodeName, Node], alive: Collection[NodeName], problems: list[str]
) -> dict[NodeName, Node]:
    """Drop nodes whose addresses another one has: a node under a new name leaves its old one behind.

    Who is alive stays, then the first by name.
    """
    order = sorted(nodes, key=lambda name: (name not in alive, name))
    taken: dict[str, NodeName] = {}
    kept: list[NodeName] = []
    for name in order:
        node = nodes[name]
        owner = next((taken[address] for address in (node.node_ip, node.overlay_ip) if address in taken), None)
        if owner is None:
            taken |= {node.node_ip: name, node.overlay_ip: name}
            kept.append(name)
        elif name in alive:
            problems.append(f"{name} and {owner} say they have the same address; {name} is left out")
    return {name: nodes[name] for name in sorted(kept)}


def _without_contradictions(
    nodes: dict[NodeName, Node], said: Said, declared: MeshSettings, problems: list[str]
) -> dict[NodeName, Node]:
    """Drop nodes whose pods would be where others are; addresses of nodes and the operator's word are believed.

    But for a lone address among the pods of a node about which all is as usual: else any node could have another one,
    and the location that it leads, left out by a word on itself.
    """
    pinned = {node.name for node in declared.node}
    among_pods = tuple(_among_pods(nodes, said, pinned))
    nodes = {name: node for name, node in nodes.items() if name not in {each.claim.who for each in among_pods}}
    addresses = (claim for name, node in nodes.items() for claim in _addresses_of(node, said.hellos.get(name)))
    pins = (Claim(name, node.pod_cidr) for name, node in nodes.items() if name in pinned)
    claims = (
        Claim(
            name,
            node.pod_cidr,
            is_shown=said.hellos[name].view.is_pod_cidr_in_kernel,
            is_alive=name in said.alive,
        )
        for name, node in nodes.items()
        if name not in pinned
    )
    contradictions = (*among_pods, *judge([*addresses, *pins], claims).contradictions)
    problems += (
        f"{each.render()}; {each.claim.who} is left out: correct there what names its pods and addresses"
        " (meshwatchctl topology --why), or add it to discovery.forbid"
        for each in contradictions
    )
    offenders = {each.claim.who for each in contradictions}
    return {name: node for name, node in nodes.items() if name not in offenders}


def _addresses_of(node: Node, hello: Hello | None) -> Iterator[Claim]:
    """The IPv4 addresses of a node, and the one outside at which its standby links are reached."""
    endpoint = node.standby_endpoint or (hello.standby_endpoint if hello is not None else "")
    for address in dict.fromkeys((node.node_ip, node.overlay_ip, endpoint)):
        if _is_ipv4(address):
            yield Claim(node.name, f"{address}/32")


def _among_pods(nodes: Mapping[NodeName, Node], said: Said, pinned: Collection[NodeName]) -> Iterator[Contradiction]:
    """Addresses of one node alone that are among the pods of another one about which all is as usual."""
    pods = {span(node.pod_cidr): node for node in nodes.values()}
    widths = Counter(last - first for first, last in pods)
    usual = max(widths, key=lambda width: (widths[width], -width), default=0)
    found: dict[NodeName, list[Claim]] = {}
    for name, node in nodes.items():
        for claim in _addresses_of(node, said.hellos.get(name)):
            first, _ = span(claim.prefix)
            begin = first & ~usual
            owner = pods.get((begin, begin + usual))
            if owner is not None and owner.name != name:
                found.setdefault(owner.name, []).append(claim)
    for name, claims in found.items():
        if len({claim.who for claim in claims}) == 1 and claims[0].who not in pinned and _is_usual(nodes[name], said):
            yield Contradiction(claims[0], Claim(name, nodes[name].pod_cidr))


def _is_usual(node: Node, said: Said) -> bool:
    """Whether a node is alive, its kernel shows its pods, and its own overlay address is one among them."""
    hello = said.hellos.get(node.name)
    is_shown = hello is not None and hello.view.is_pod_cidr_in_kernel and node.name in said.alive
    return is_shown and _is_ipv4(node.overlay_ip) and covers(node.pod_cidr, node.overlay_ip)


def _is_ipv4(text: str) -> bool:
    """Endpoints may be names, and some nodes have IPv6 addresses alone."""
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _locations(
    said: Said, nodes: Mapping[NodeName, Node], settings: Settings, problems: list[str]
) -> Iterator[tuple[LocationName, Location]]:
    pins = {location.name: location for location in settings.mesh.location}
    members: dict[LocationName, list[NodeName]] = {}
    for node in nodes.values():
        members.setdefault(node.location, []).append(node.name)
    for name in sorted(members):
        pin = pins.get(name)
        leader = pin.leader if pin is not None else said.leaders.get(name)
        if leader not in members[name]:
            who = f"{leader} is not one of them" if leader else "no node reports that it leads"
            problems.append(f"location {name} ({', '.join(members[name][:4])}) has no leader: {who}")
            continue
        assert leader is not None, "members are names"
        if pin is not None and pin.standbys:
            standbys = tuple(standby for standby in pin.standbys if standby in members[name])
        else:
            backups = [member for member in members[name] if member != leader]
            standbys = tuple(_backups(backups, said, settings))
        yield name, Location(name=name, leader=leader, standbys=standbys)


def _backups(candidates: list[NodeName], said: Said, settings: Settings) -> list[NodeName]:
    """The first by name that relay and are alive; where nobody is, the first that would."""
    able = [name for name in candidates if _relays(said.hellos.get(name))]
    alive = [name for name in able if name in said.alive]
    return (alive or able)[: settings.discovery.standbys]


def _relays(hello: Hello | None) -> bool:
    if hello is None or Trait.WITHOUT_STANDBY in traits_of(hello.view.profiles, hello.view.traits):
        return False
    return hello.mode == Mode.ENFORCE and bool(hello.standby_public_key)


def _dress(node: Node, location: Location, said: Said, *, has_links: bool) -> Node:
    """Give relays what only relays need; others stay the same whatever they say of it, so that nothing is rebuilt.

    Without any standby there are no links, and nobody needs a key or an endpoint for one.
    """
    hello = said.hellos.get(node.name)
    if hello is None or node.name not in location.relays():
        return node
    view, is_leader = hello.view, node.name == location.leader
    is_relay = has_links and _relays(hello)
    return msgspec.structs.replace(
        node,
        wireguard_ip=node.wireguard_ip or (view.wireguard_ip if is_leader else "") or None,
        wireguard_ip6=node.wireguard_ip6 or (view.wireguard_ip6 if is_leader else "") or None,
        standby_public_key=node.standby_public_key or (hello.standby_public_key if is_relay else "") or None,
        standby_endpoint=node.standby_endpoint or (hello.standby_endpoint if is_relay else "") or None,
    )


def _impossible_links(locations: tuple[Location, ...], nodes: Mapping[NodeName, Node]) -> Iterator[str]:
    for one, other in itertools.combinations(locations, 2):
        for first, second in itertools.product(one.relays(), other.relays()):
            if (first, second) == (one.leader, other.leader) or can_link(nodes[first], nodes[second]):
                continue
            silent = [name for name in (first, second) if nodes[name].standby_public_key is None]
            yield (
                f"no standby link between {first} and {second}: {silent[0]} is not in enforce mode"
                if silent
                else f"no standby link between {first} and {second}: neither can be reached from outside;"
                " set discovery.endpoint on one of them"
            )


def _profile(view: LocalView, declared: MeshSettings) -> str:
    if declared.profile != _DEFAULTS.profile or not view.profiles:
        return declared.profile
    return view.profiles[0]


def _device(view: LocalView, declared: MeshSettings, field: str) -> str:
    """A device that the operator names, else the one that was found."""
    pinned: str = getattr(declared, field)
    found: str = getattr(view, field)
    if pinned != getattr(_DEFAULTS, field):
        return pinned
    return found or ("" if view.profiles else pinned)


def _what_is_missing(said: Said, view: LocalView, own: Node | None) -> str:
    if own is None:
        return f"this node is not placed yet; {len(said.hellos) - 1} other nodes are known"
    return f"{view.node} is in {own.location}, which cannot be watched; {len(said.hellos) - 1} other nodes are known"
