"""The ports of Open vSwitch by which a host reaches pods, its tunnel, and the routes into the former.

    ip link del genev_sys_6081, no module geneve      -> overlay-device-missing     of the tunnel
    ip link set antrea-gw0 down                       -> overlay-device-down        of the port, or of the tunnel
    ip address flush dev ovn0                         -> overlay-emptied
    ip route del 10.10.1.0/24 via 10.10.1.1           -> pod-route-missing          Antrea: one node's pods
    ip route del 10.244.0.0/16 via 10.244.0.1         -> cluster-route-missing      OVN: those of all nodes

The tunnel has one device for all nodes, so that nothing but its absence shows in the kernel: whom the switch sends to
is in its own database. Nothing is put back here: the agents make all of it anew, each at its own pace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from meshwatchd.core.audit.device_sizes import shrunk_devices
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import MAIN_TABLE, AuditFinding
from meshwatchd.model.discovery import Hello
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import LocationName
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.open_vswitch import (
    ANTREA_WIREGUARD,
    TUNNELS,
    USERSPACE,
    SwitchMesh,
    switch_mesh_of,
    tunnel_kind,
    tunnel_of,
)
from meshwatchd.model.prefixes import covers
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link
from meshwatchd.model.topology import Node


def unwatched_mesh(declared: MeshSettings, hellos: Mapping[str, Hello], node: str) -> MeshSettings:
    """What to look at on a node whose mesh is not watched: the devices that it names itself, and the nodes it hears of.

    Of clusters in which each node leads itself few nodes are watched by probes, unless `[mesh]` declares them all. Its
    own devices every node can look at.
    """
    own = hellos.get(node)
    if own is None or declared.node or Trait.DIRECT not in traits_of(own.view.profiles, own.view.traits):
        return declared
    views = [each.view for each in hellos.values() if each.view.pod_cidr]
    return msgspec.structs.replace(
        declared,
        profile=own.view.profiles[0],
        wireguard_device=own.view.wireguard_device,
        overlay_device=own.view.overlay_device,
        node=tuple(
            Node(
                name=view.node,
                location=LocationName(view.node),
                node_ip=view.node_ip,
                pod_cidr=view.pod_cidr,
                overlay_ip=view.overlay_ip,
            )
            for view in views
        ),
    )


def audit_switch(view: View) -> Iterator[AuditFinding]:
    """What is wrong with the switch's port in the host, its tunnel and its routes; nothing in other meshes."""
    mesh = switch_mesh_of(view.mesh.overlay_device)
    if mesh is None:
        return
    gateway = view.snapshot.link(mesh.gateway)
    carried = view.mesh.overlay_device
    if gateway is None:
        if carried in (view.seen_device, ANTREA_WIREGUARD) or (view.good is not None and view.good.device == carried):
            yield _finding(view, mesh, FaultCode.OVERLAY_DEVICE_MISSING, mesh.gateway, f"there is no {mesh.gateway}")
        return
    if not gateway.is_up:
        because = f"{gateway.name} is administratively down, and the routes to pods went with it"
        yield _finding(view, mesh, FaultCode.OVERLAY_DEVICE_DOWN, gateway.name, because)
        return
    if not gateway.addresses:
        because = f"{gateway.name} is up and has no address: this host is not among its pods any more"
        yield _finding(view, mesh, FaultCode.OVERLAY_EMPTIED, gateway.name, because)
        return
    yield from _lost_routes(view, mesh)
    if carried == gateway.name:
        yield from _tunnel(view, mesh, gateway)
        yield from shrunk_devices(view, gateway)


def _tunnel(view: View, mesh: SwitchMesh, gateway: Link) -> Iterator[AuditFinding]:
    tunnel, others = tunnel_of(view.snapshot), _others(view)
    if tunnel is not None and not tunnel.is_up:
        because = f"{tunnel.name} is administratively down: ip link set dev {tunnel.name} up"
        yield _finding(view, mesh, FaultCode.OVERLAY_DEVICE_DOWN, tunnel.name, because)
    is_needed = gateway.kind != USERSPACE and any(_is_sent_there(view, gateway, node) for node in others)
    if tunnel is not None or not is_needed:
        return
    name, peers = _usual_tunnel(view)
    told = f", which {peers} of its peers have" if peers else ""
    module = tunnel_kind(name) if name else "geneve"
    yield _finding(
        view,
        mesh,
        FaultCode.OVERLAY_DEVICE_MISSING,
        name or gateway.name,
        f"the switch has no tunnel device{f' {name}' if name else ''}{told}, and pods of other nodes are routed to it",
        f"Open vSwitch makes it by the kernel's module {module} and goes on without: modprobe {module}, ovs-vsctl show",
    )


def _is_sent_there(view: View, gateway: Link, node: Node) -> bool:
    """Whether packets to a node's pods leave by the port: without encapsulation Antrea routes past it."""
    routes = (each for each in view.snapshot.device_routes if each.dev == gateway.name and each.table == MAIN_TABLE)
    return any(covers(route.dst, node.pod_cidr) for route in routes if ":" not in route.dst)


def _usual_tunnel(view: View) -> tuple[str, int]:
    """The tunnel device that most peers have, and how many have one; empty, 0 where none tells."""
    starts = tuple(TUNNELS)
    layers = (layer for hello in view.hellos.values() for layer in hello.view.layers)
    names = sorted(layer.device for layer in layers if layer.device.startswith(starts))
    return max(names, key=names.count, default=""), len(names)


def _lost_routes(view: View, mesh: SwitchMesh) -> Iterator[AuditFinding]:
    """Routes to pods of other nodes that were there while all was well; that to several nodes' is one loss."""
    good, device = view.good, view.mesh.overlay_device
    link = view.snapshot.link(device)
    if good is None or good.device != device or link is None or good.index not in (0, link.index):
        return
    present = {each.dst for each in view.snapshot.device_routes if each.dev == device and each.table == MAIN_TABLE}
    for route in good.entries.routes:
        nodes = [node for node in _others(view) if covers(route.dst, node.pod_cidr)]
        if route.dst in present or not nodes:
            continue
        way = f" via {route.via}" if route.via else ""
        because = f"there is no route to {route.dst}{way} into {device}, which was there while all was well"
        if [node.pod_cidr for node in nodes] == [route.dst]:
            code = FaultCode.POD_ROUTE_MISSING
            yield _finding(view, mesh, code, device, because, subject=route.dst, peer=nodes[0].name)
        else:
            yield _finding(view, mesh, FaultCode.CLUSTER_ROUTE_MISSING, device, because)


def _others(view: View) -> list[Node]:
    return [each for each in view.mesh.node if each.name != view.node and each.pod_cidr and ":" not in each.pod_cidr]


def _finding(
    view: View, mesh: SwitchMesh, code: FaultCode, device: str, *because: str, subject: str = "", peer: str = ""
) -> AuditFinding:
    return AuditFinding(
        code=code,
        device=device,
        subject=subject or device,
        peer=peer,
        culprit=view.node,
        because=(*because, mesh.words.format(view.node)),
    )
