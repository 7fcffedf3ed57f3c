"""Which ways around its leg to the leader a node has: by whom, and by which next hop."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.model.detour import MAX_DETOURS, Detour
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.prefixes import overlap
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.topology import Mesh, Node
from meshwatchd.profiles import reading


def addresses_near(settings: Settings, found: MeshSettings | None) -> tuple[str, ...]:
    """Of which addresses the kernel is asked for a next hop; none where nobody is to go around a leg.

    `found` is the mesh as it was found out, None where the declared one is in force.
    """
    if not settings.submariner.leg_detour:
        return ()
    return tuple(each.node_ip for each in relays_of(found or settings.mesh, settings.daemon.node))


def relays_of(declared: MeshSettings, node: str) -> tuple[Node, ...]:
    """The nodes that a member may go by, in the order of their names: its leader, and the first others.

    None for a leader, which has no leg, and where the mesh's overlay is all that a location has.
    """
    if Trait.DETOUR not in traits_of((declared.profile,), declared.traits):
        return ()
    home = next((each.location for each in declared.node if each.name == node), None)
    leader = next((each.leader for each in declared.location if each.name == home), node)
    if leader == node:
        return ()
    members = [
        each for each in declared.node if each.location == home and each.name != node and ":" not in each.node_ip
    ]
    ranked = sorted(members, key=lambda each: (each.name != leader, each.name))[:MAX_DETOURS]
    return tuple(sorted(ranked, key=lambda each: each.name))


def detours_of(snapshot: Snapshot, declared: MeshSettings, mesh: Mesh, node: NodeName) -> tuple[Detour, ...]:
    """The detours of a node, the one by the leader first: it crosses nobody's leg.

    What the kernel sends by the overlay itself, or by the device of the node's own pods, is no way around.
    """
    local = mesh.node(node)
    leader = mesh.location(local.location).leader
    own = next((link.name for link in snapshot.links if local.node_ip in link.addresses), "")
    ways = {each.address: each for each in snapshot.near}
    prefixes = tuple(_routed(snapshot, declared.overlay_device, mesh, local))
    found = []
    for place, relay in enumerate(relays_of(declared, node)):
        way = ways.get(relay.node_ip)
        if way is not None and way.dev not in {declared.overlay_device, own, "lo"}:
            via = way.via or relay.node_ip
            found.append(Detour(place=place, relay=relay.name, via=via, device=way.dev, prefixes=prefixes))
    return tuple(sorted(found, key=lambda each: (each.relay != leader, each.place)))


def _routed(snapshot: Snapshot, device: str, mesh: Mesh, local: Node) -> Iterator[str]:
    """What the mesh routes by the leg, services and all; nothing that has an address of the own location in it."""
    leader = mesh.node(mesh.location(local.location).leader)
    near = [text for each in mesh.members(local.location) for text in (*each.prefixes(), f"{each.overlay_ip}/32")]
    for route in sorted(snapshot.device_routes, key=lambda each: each.dst):
        is_by_leg = route.table == reading.MAIN_TABLE and route.dev == device and route.via == leader.overlay_ip
        if is_by_leg and not any(overlap(route.dst, text) for text in near):
            yield route.dst
