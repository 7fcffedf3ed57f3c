"""Every node that is known, by its place in the mesh or by its hello, with the age of what is known."""

from __future__ import annotations

from collections.abc import Mapping

from meshwatchd.core.membership.roster import Heard
from meshwatchd.model.discovery import Hello
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.settings import MeshSettings


def list_nodes(
    mesh: MeshSettings | None, own: Hello | None, peers: Mapping[NodeName, Heard], now: int
) -> tuple[NodeStatus, ...]:
    """The nodes by location and name.

    Args:
        mesh: in force, None while there is none; nodes of it may never have been heard.
        own: what this node advertises; None while it cannot, or where nothing is exchanged.
        peers: the last hello of each other node.
        now: monotonic nanoseconds.
    """
    hellos = {name: (heard.hello, max(0, now - heard.at_ns)) for name, heard in peers.items()}
    if own is not None:
        hellos[own.view.node] = own, 0
    homes = {node.name: node.location for node in mesh.node} if mesh is not None else {}
    declared = {node.name: node for node in mesh.node} if mesh is not None else {}
    found = []
    for name in {**dict.fromkeys(homes), **dict.fromkeys(hellos)}:
        hello, age_ns = hellos.get(name, (None, None))
        node = declared.get(name)
        home = homes.get(name) or (hello.home if hello is not None else LocationName(""))
        place = node or (hello.view if hello is not None else None)
        found.append(
            NodeStatus(
                name=name,
                location=home,
                role=_role(mesh, name),
                version=hello.version if hello is not None else "",
                mode=hello.mode if hello is not None else "",
                node_ip=place.node_ip if place is not None else "",
                pod_cidr=place.pod_cidr if place is not None else "",
                overlay_ip=place.overlay_ip if place is not None else "",
                wireguard_ip=(place.wireguard_ip or "") if place is not None else "",
                heard_ago_ns=age_ns,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.location, each.name)))


def _role(mesh: MeshSettings | None, name: NodeName) -> str:
    for location in mesh.location if mesh is not None else ():
        if name == location.leader:
            return "leader"
        if name in location.standbys:
            return "standby"
    return "member"
