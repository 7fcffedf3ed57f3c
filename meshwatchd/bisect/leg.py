"""Which way packets to another node go, as the mesh has it: addresses, port, and whose overlay carries them.

same location, or no tunnel     own overlay address -> peer's overlay address, through the overlay device
other location, not the leader  own node address -> peer's node address, through the overlay device to the leader
other location, the leader      through the mesh's WireGuard device
"""

from __future__ import annotations

import msgspec

from meshwatchd.model.errors import ProfileError
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.port_map import routed_port
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.topology import Mesh, Node, build_mesh


class Leg(msgspec.Struct, frozen=True, kw_only=True):
    """One node seen from another.

    Attributes:
        via: the node at the far end of the overlay: the peer, or the own leader.
        source, destination: of the probes.
        port: destination port.
        underlay_source, underlay_destination: of packets without overlay to `via`; empty where there are none.
        via_address: overlay address of `via`; empty where there is no overlay.
        device: that packets should enter.
        is_wrapped: it is an overlay, whose packets are recognised on the device below.
    """

    node: NodeName
    peer: NodeName
    via: NodeName
    layer: Layer
    source: str
    destination: str
    port: int
    underlay_port: int
    underlay_source: str = ""
    underlay_destination: str = ""
    via_address: str = ""
    device: str = ""
    is_wrapped: bool = True


def find_leg(mesh: MeshSettings, node: str, peer: str, *, port: int) -> Leg:
    """The way from one node to another.

    Raises:
        ProfileError: a node is not of the mesh, or both are the same.
    """
    built = build_mesh(mesh.location, mesh.node)
    here, there = _find(built, node), _find(built, peer)
    if here == there:
        raise ProfileError(f"{peer} is this node; name another one to bisect the way to it")
    is_direct = Trait.DIRECT in traits_of((mesh.profile,), mesh.traits) and not mesh.wireguard_device
    if here.location == there.location or is_direct:
        return _overlay(mesh, here, there, there, port=port)
    leader = _find(built, built.location(here.location).leader)
    if leader != here:
        return _overlay(mesh, here, there, leader, port=port)
    return _tunnel(mesh, built, here, there, port=port)


def _overlay(mesh: MeshSettings, here: Node, there: Node, via: Node, *, port: int) -> Leg:
    is_neighbour = there == via
    return Leg(
        node=here.name,
        peer=there.name,
        via=via.name,
        layer=Layer.OVERLAY if is_neighbour else Layer.EFFECTIVE,
        source=here.overlay_ip if is_neighbour else here.node_ip,
        destination=there.overlay_ip if is_neighbour else there.node_ip,
        port=port if is_neighbour else routed_port(port),
        underlay_port=port,
        underlay_source=here.node_ip,
        underlay_destination=via.node_ip,
        via_address=via.overlay_ip,
        device=mesh.overlay_device,
    )


def _tunnel(mesh: MeshSettings, built: Mesh, here: Node, there: Node, *, port: int) -> Leg:
    via = _find(built, built.location(there.location).leader)
    is_direct = there == via and bool(here.wireguard_ip and there.wireguard_ip)
    return Leg(
        node=here.name,
        peer=there.name,
        via=via.name,
        layer=Layer.WIREGUARD if is_direct else Layer.EFFECTIVE,
        source=here.wireguard_ip or "" if is_direct else here.node_ip,
        destination=there.wireguard_ip or "" if is_direct else there.node_ip,
        port=port if is_direct else routed_port(port),
        underlay_port=port,
        device=mesh.wireguard_device,
        is_wrapped=False,
    )


def _find(mesh: Mesh, name: str) -> Node:
    for node in mesh.nodes:
        if node.name == name:
            return node
    known = ", ".join(node.name for node in mesh.nodes)
    raise ProfileError(f"there is no node {name} in this mesh; its nodes are: {known or 'none'}")
