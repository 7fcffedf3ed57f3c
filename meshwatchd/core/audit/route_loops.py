"""Routes of a leader that hand packets for another location back to a member of its own.

    10.244.3.0/24 dev kilo0                         Kilo's, on the leader
    10.244.3.0/24 via 10.244.6.0 dev flannel.1      in its place, and the member at 10.244.6.0 sends such packets
                                                    to the leader: they go round until their TTL ends

The device is one of the mesh's, and the kernel's answer looks like that on a member, or in a failover. So this is said
of Kilo's leaders alone: there the agent itself has taken the WireGuard device up, and has a route of its own into it.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import MAIN_TABLE, AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.snapshot import DeviceRoute


def looped_routes(view: View) -> Iterator[AuditFinding]:
    """Each prefix of another location's node that the main table leads to a member of this leader's location."""
    mesh = view.mesh
    own = next((location.name for location in mesh.location if location.leader == view.node), "")
    if not own or not _is_kilos_leader(view):
        return
    members = {each.overlay_ip: each for each in mesh.node if each.location == own and each.name != view.node}
    abroad = {prefix: each for each in mesh.node if each.location != own for prefix in each.prefixes()}
    for prefix, route in _first_routes(view).items():
        node, member = abroad.get(prefix), members.get(route.via)
        if node is None or member is None or route.dev != mesh.overlay_device:
            continue
        remedy = f"delete that route, and restart Kilo's agent, which routes {prefix} into {mesh.wireguard_device}"
        because = (
            f"{prefix} of {node.name} in {node.location} leads back to {member.name}: via {route.via} dev {route.dev}",
            f"{view.node} leads {own}: {member.name} sends such packets here, and they go round until their TTL ends",
            remedy,
        )
        yield AuditFinding(
            code=FaultCode.POD_ROUTE_DIVERTED,
            device=route.dev,
            subject=prefix,
            peer=node.name,
            culprit=view.node,
            because=because,
        )


def _is_kilos_leader(view: View) -> bool:
    """Whether Kilo leads by this node: its device is up, and packets for other locations are routed into it.

    A node that has just lost the lead has it down; one that has just got it has no route into it yet.
    """
    mesh, tunnel = view.mesh, view.snapshot.link(view.mesh.wireguard_device)
    is_kilos = Trait.REPLACES_ROUTES in traits_of((mesh.profile,), mesh.traits)
    if not is_kilos or tunnel is None or not tunnel.is_up or mesh.overlay_device == mesh.wireguard_device:
        return False
    home = next((each.location for each in mesh.node if each.name == view.node), "")
    routed = view.routed_into(frozenset((tunnel.name,)))
    return any(prefix in routed for each in mesh.node if each.location != home for prefix in each.prefixes())


def _first_routes(view: View) -> dict[str, DeviceRoute]:
    """Of the main table's routes into devices of the mesh, the one that is taken, by prefix."""
    routes = (each for each in view.snapshot.device_routes if each.table == MAIN_TABLE)
    return {each.dst: each for each in sorted(routes, key=lambda each: each.metric, reverse=True)}
