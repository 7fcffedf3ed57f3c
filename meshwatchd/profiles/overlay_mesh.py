"""How the engine goes through a mesh, whatever kind it is: by the devices that were found or declared.

The gateway towards a neighbour is the address of its overlay device: with flannel the network address of its pod CIDR
on flannel.1, with Cilium its cilium_host address through the IPIP device, with neither the node's own address. Where
every node has a tunnel of its own to every other, each is a location by itself and has no neighbours.
"""

from __future__ import annotations

import msgspec

from meshwatchd.model.errors import ProfileError
from meshwatchd.model.host_mesh import carrier_of
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import Profile, Trait, Unrecognised, traits_of
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.topology import Hop, Location, Mesh, Topology, build_mesh
from meshwatchd.profiles.detours import detours_of
from meshwatchd.profiles.reading import IPIP_DEVICES

COLLECT_METADATA_DEVICE = "cilium_vxlan"


class OverlayMesh:
    """Recognises a WireGuard device and an overlay, by the names that were found or that the operator gives them.

    Args:
        is_star: the overlay leads from members to their leader and from it to them, and leaders alone have a tunnel,
            if it is a WireGuard device at all (Submariner). Nobody stands by there, whatever is declared.
    """

    def __init__(self, *, is_star: bool = False) -> None:
        self._is_star = is_star

    def recognise(self, snapshot: Snapshot, declared: MeshSettings, node: NodeName) -> Topology | Unrecognised:
        """See `Profile.recognise`."""
        if not declared.location:
            return Unrecognised(
                reason="no mesh is known yet, neither found nor declared under [mesh]; nothing is probed"
            )
        traits = traits_of((declared.profile,), declared.traits)
        is_observed = self._is_star or Trait.WITHOUT_STANDBY in traits
        is_direct = Trait.DIRECT in traits
        try:
            mesh = build_mesh(_without_standbys(declared.location) if is_observed else declared.location, declared.node)
        except ProfileError as error:
            return Unrecognised(reason=str(error))
        wireguard = snapshot.link(declared.wireguard_device)
        carrier = carrier_of(snapshot, declared.wireguard_device, declared.overlay_device)
        # Flannel over a host mesh needs none, nor do members of a star, nor the port of a switch.
        is_needed = bool(declared.wireguard_device) or not (carrier is not None or is_direct)
        if wireguard is None and is_needed and not self._is_star:
            return Unrecognised(
                reason=f"no device {declared.wireguard_device} on this node; is what makes it running (Kilo, wg-quick)?"
            )
        overlay = snapshot.link(declared.overlay_device)
        if overlay is None:
            return Unrecognised(reason=f"no overlay device {declared.overlay_device} on this node; is the CNI running?")
        if declared.ipip_device and snapshot.link(declared.ipip_device) is None:
            return Unrecognised(reason=f"no IPIP device {declared.ipip_device} on this node; does Kilo encapsulate?")
        gateway_device = _gateway_device(snapshot, declared)
        if gateway_device is None:
            return Unrecognised(reason=f"{declared.overlay_device} needs one of {', '.join(IPIP_DEVICES)}, none exists")
        return Topology(
            profile=declared.profile,
            why=_reasons(mesh, node, declared, is_up=wireguard is not None and wireguard.is_up),
            local_node=node,
            wireguard_device=declared.wireguard_device,
            overlay_device=declared.overlay_device,
            mesh=mesh,
            hops=_hops(mesh, node, gateway_device),
            is_overlay_direct=is_direct
            or _stands_on(overlay, wireguard)
            or not (declared.wireguard_device or self._is_star),
            is_overlay_star=self._is_star,
            is_observed=is_observed,
            is_clustered=Trait.CLUSTERED in traits,
            detours=detours_of(snapshot, declared, mesh, node),
            carrier=carrier.name if carrier is not None else "",
        )


def _without_standbys(locations: tuple[Location, ...]) -> tuple[Location, ...]:
    return tuple(msgspec.structs.replace(each, standbys=()) for each in locations)


def _stands_on(overlay: Link, tunnel: Link | None) -> bool:
    """Or is the tunnel itself, where pods are routed straight into it."""
    if tunnel is None:
        return False
    return overlay.name == tunnel.name or (overlay.vxlan is not None and overlay.vxlan.lower == tunnel.index)


def _gateway_device(snapshot: Snapshot, declared: MeshSettings) -> str | None:
    if declared.overlay_device != COLLECT_METADATA_DEVICE:
        return declared.overlay_device
    if declared.ipip_device:
        return declared.ipip_device
    return next((name for name in IPIP_DEVICES if snapshot.link(name) is not None), None)


def _hops(mesh: Mesh, node: NodeName, device: str) -> dict[str, Hop]:
    local = mesh.node(node)
    return {
        member.name: Hop(via=member.overlay_ip, device=device)
        for member in mesh.members(local.location)
        if member.name != node
    }


def _reasons(mesh: Mesh, node: NodeName, declared: MeshSettings, *, is_up: bool) -> tuple[str, ...]:
    local = mesh.node(node)
    leader = mesh.location(local.location).leader
    state, tunnel = "up" if is_up else "down", declared.wireguard_device
    led = "" if Trait.CLUSTERED in traits_of((declared.profile,), declared.traits) else f", led by {leader}"
    role = f"leads {local.location}" if led and leader == node else f"is in {local.location}{led}"
    return (
        f"{tunnel} exists and is {state}" if tunnel else "this node has no WireGuard device of the mesh",
        f"{declared.overlay_device} carries the location's overlay",
        f"the mesh has {len(mesh.locations)} locations; {node} {role}",
    )


OVERLAY_MESH: Profile = OverlayMesh()
GATEWAY_MESH: Profile = OverlayMesh(is_star=True)
