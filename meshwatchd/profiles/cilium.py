"""Cilium: its devices and routes in the kernel, and what its agent says on its socket.

The address of cilium_host is inside the node's own pod CIDR, and Cilium's route to that CIDR leads to it; the other pod
CIDRs lead there as well, since eBPF and not the kernel knows which node each of them is on. So other nodes' addresses
are had from the agent alone, and a node without its socket hears of them from Kilo's routes or from other nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.model import cluster_mesh
from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import CiliumNode, Sources
from meshwatchd.profiles import reading

ROUTER = cluster_mesh.ROUTER
TUNNELS = {"cilium_vxlan": "vxlan", "cilium_geneve": "geneve"}
ENCRYPTION = cluster_mesh.ENCRYPTION

SOURCE = "cilium agent"


def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
    """What Cilium's devices, routes and agent say of this node; see `profiles.compose`."""
    del declared
    router = snapshot.link(ROUTER)
    if router is None:
        text = f"there is no {ROUTER}: Cilium does not run here"
        return LocalView(profiles=(), node=node, why=(Finding(source=f"link {ROUTER}", text=text),))
    tunnel = next((link for name in TUNNELS if (link := snapshot.link(name)) is not None), None)
    own = sources.cilium.own if sources.cilium is not None else None
    router_ip = next(iter(router.addresses), "")
    pods = _own_pods(snapshot, router_ip)
    return LocalView(
        profiles=("cilium",),
        node=node,
        node_ip=own.node_ip if own is not None else "",
        pod_cidr=pods or (own.pod_cidr if own is not None else ""),
        overlay_ip=router_ip or (own.router_ip if own is not None else ""),
        vtep_mac=tunnel.lladdr if tunnel is not None else "",
        vtep_port=tunnel.vxlan.port if tunnel is not None and tunnel.vxlan is not None else 0,
        overlay_device=tunnel.name if tunnel is not None else "",
        layers=tuple(_layers(snapshot, tunnel)),
        candidates=tuple(_candidates(snapshot, sources, own)),
        why=tuple(_reasons(snapshot, sources, tunnel, pods)),
    )


def _own_pods(snapshot: Snapshot, router_ip: str) -> str:
    routes = reading.main_routes(snapshot, reading.PROTOCOL_KERNEL)
    inside = [route.dst for route in routes if route.dev == ROUTER and reading.is_in(router_ip, route.dst)]
    return next((dst for dst in inside if not reading.host_address(dst)), "")


def _layers(snapshot: Snapshot, tunnel: Link | None) -> Iterator[DeviceLayer]:
    encryption = snapshot.link(ENCRYPTION)
    below = snapshot.underlay(encryption.name if encryption is not None else "")
    name = below.name if below is not None else ""
    if tunnel is not None:
        over = ENCRYPTION if encryption is not None else name
        yield DeviceLayer(kind=TUNNELS[tunnel.name], device=tunnel.name, mtu_bytes=tunnel.mtu_bytes, over=over)
    if encryption is not None:
        yield DeviceLayer(kind="wireguard", device=ENCRYPTION, mtu_bytes=encryption.mtu_bytes, over=name)


def _candidates(snapshot: Snapshot, sources: Sources, own: CiliumNode | None) -> Iterator[Candidate]:
    beyond = reading.hosts_beyond(snapshot)
    for each in sources.cilium.nodes if sources.cilium is not None else ():
        if each is not own:
            is_near = own is None or each.cluster == own.cluster
            yield Candidate(address=each.node_ip, is_local=is_near and each.node_ip not in beyond)


def _reasons(snapshot: Snapshot, sources: Sources, tunnel: Link | None, pods: str) -> Iterator[Finding]:
    if tunnel is not None:
        kind = "takes each packet's destination from eBPF" if _is_external(tunnel) else "has a destination of its own"
        text = f"{tunnel.name} is Cilium's tunnel and {kind}"
        yield Finding(source=f"link {tunnel.name}", text=text)
    else:
        text = f"there is {ROUTER} and no tunnel: Cilium routes natively"
        yield Finding(source=f"link {ROUTER}", text=text)
    if pods:
        yield Finding(source=f"routes into {ROUTER}", text=f"{pods} is this node's: {ROUTER}'s address is inside it")
    if snapshot.link(ENCRYPTION) is not None:
        yield Finding(source=f"link {ENCRYPTION}", text="Cilium encrypts between nodes by WireGuard of its own")
    if sources.cilium is None:
        text = "the agent's socket does not answer: other nodes' addresses are not known from here"
        yield Finding(source=SOURCE, text=text)
        return
    own = sources.cilium.own
    name = (
        f"this node is {own.name}" if own is not None else f"it calls this node {sources.cilium.own_name or 'nothing'}"
    )
    yield Finding(source=SOURCE, text=f"it knows {len(sources.cilium.nodes)} nodes; {name}")
    if own is not None and own.health_ip:
        yield Finding(source=SOURCE, text=f"its health endpoint is at {own.health_ip}")
    if own is not None and pods and own.pod_cidr and own.pod_cidr != pods:
        text = f"it says that this node's pods are in {own.pod_cidr}, the kernel routes {pods}"
        yield Finding(source=SOURCE, text=text)


def _is_external(tunnel: Link) -> bool:
    return tunnel.vxlan is None or tunnel.vxlan.is_external
