"""Flannel: its VXLAN or WireGuard device in the kernel, and the files it leaves for its CNI plugin.

With the vxlan backend a node is three entries to each other one: a route to its pods, a neighbour for its device's
address, and an FDB entry that leads to the node. The device's own address is the first of the node's pod CIDR. With the
wireguard backend it is a device flannel-wg with a peer for each node, and no neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.host_mesh import host_mesh
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import FLANNEL_WIREGUARD
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import reading

PREFIX = "flannel."
"""Followed by the VNI; IPv6 has flannel-v6. in front of it."""


def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
    """What flannel's device, entries and files say of this node; see `profiles.compose`."""
    device = _device(snapshot, declared)
    if device is None:
        text = f"there is neither {PREFIX}1 nor {FLANNEL_WIREGUARD}: flannel does not run here"
        return LocalView(profiles=(), node=node, why=(Finding(source="links", text=text),))
    is_tunnel = device.vxlan is None
    address = next(iter(device.addresses), "")
    lower = reading.by_index(snapshot, device.vxlan.lower) if device.vxlan is not None else ""
    # Bound to a host mesh's device it needs no tunnel of its own: that of every node leads to every other one.
    carrier_ip = device.vxlan.local if device.vxlan is not None and host_mesh(snapshot.link(lower)) else ""
    return LocalView(
        profiles=("flannel",),
        node=node,
        node_ip=device.vxlan.local if device.vxlan is not None else "",
        pod_cidr=_pods(snapshot, sources, device, address),
        overlay_ip=address,
        overlay_ip6=next(iter(device.addresses_v6), ""),
        vtep_mac="" if is_tunnel else device.lladdr,
        vtep_port=device.vxlan.port if device.vxlan is not None else 0,
        vtep_vni=device.vxlan.vni if device.vxlan is not None else 0,
        wireguard_ip=address if is_tunnel else carrier_ip,
        wireguard_device=device.name if is_tunnel else "",
        wireguard_mtu_bytes=device.mtu_bytes if is_tunnel else 0,
        overlay_device=device.name,
        layers=tuple(_layers(snapshot, device, lower)),
        candidates=tuple(_candidates(snapshot, device, lower)),
        why=(*_reasons(snapshot, device, lower), *_contradictions(sources, device, address)),
    )


def _device(snapshot: Snapshot, declared: MeshSettings) -> Link | None:
    """The one that is declared, if it is flannel's; else the first."""
    found = [link for link in snapshot.links if _is_flannels(link)]
    return next((link for link in found if link.name == declared.overlay_device), None) or next(iter(found), None)


def _is_flannels(link: Link) -> bool:
    if link.name == FLANNEL_WIREGUARD:
        return link.kind in reading.WIREGUARD_KINDS
    return link.name.startswith(PREFIX) and link.kind == "vxlan" and link.vxlan is not None


def _pods(snapshot: Snapshot, sources: Sources, device: Link, address: str) -> str:
    """The prefix of this node's pods: that of the bridge they are on, or what subnet.env says."""
    for link in snapshot.links:
        for _, network in reading.networks_of(link):
            if link.name != device.name and str(network.network_address) == address and network.prefixlen < 32:
                return str(network)
    told = sources.flannel.pod_cidr if sources.flannel is not None else ""
    return told if not address or reading.is_in(address, told) else ""


def _layers(snapshot: Snapshot, device: Link, lower: str) -> Iterator[DeviceLayer]:
    below = snapshot.underlay(device.name)
    over = lower or (below.name if below is not None else "")
    kind = "vxlan" if device.vxlan is not None else "wireguard"
    yield DeviceLayer(kind=kind, device=device.name, mtu_bytes=device.mtu_bytes, over=over)


def _candidates(snapshot: Snapshot, device: Link, lower: str) -> Iterator[Candidate]:
    """Where other nodes are. Those behind WireGuard, or to which Kilo has routes, are elsewhere."""
    if device.vxlan is None:
        for peer in reading.peers_of(snapshot, device.name):
            yield Candidate(address=peer.host)
        return
    beyond = reading.hosts_beyond(snapshot)
    below = snapshot.link(lower)
    is_tunnelled = below is not None and (reading.is_wireguard(snapshot, below) or host_mesh(below) is not None)
    for entry in snapshot.forwarding:
        if entry.dev == device.name:
            yield Candidate(address=entry.dst, is_local=not is_tunnelled and entry.dst not in beyond)


def _reasons(snapshot: Snapshot, device: Link, lower: str) -> Iterator[Finding]:
    source = f"link {device.name}"
    if device.vxlan is None:
        yield Finding(source=source, text=f"{device.name} is flannel's device: its backend is wireguard")
    else:
        place = f" over {lower}" if lower else ""
        text = f"{device.name} is flannel's device: its backend is vxlan, VNI {device.vxlan.vni}{place}"
        yield Finding(source=source, text=text)
        if device.vxlan.local:
            yield Finding(
                source=source, text=f"its packets leave from {device.vxlan.local}: that is this node's address"
            )
        count = len({entry.lladdr for entry in snapshot.forwarding if entry.dev == device.name})
        more = " or more" if snapshot.is_bounded else ""
        yield Finding(source=f"FDB of {device.name}", text=f"other nodes: {count}{more}")


def _contradictions(sources: Sources, device: Link, address: str) -> Iterator[Finding]:
    subnet = sources.flannel
    if subnet is None:
        yield Finding(source="subnet.env", text="not read: the kernel alone tells this node's pods")
    elif address and str(ip_network(subnet.pod_cidr).network_address) != address:
        text = f"it says that this node's pods are in {subnet.pod_cidr}, while {device.name} has {address}"
        yield Finding(source=subnet.path, text=text)
    elif subnet.mtu_bytes != device.mtu_bytes:
        text = f"it says that pods have an MTU of {subnet.mtu_bytes}, while {device.name} has {device.mtu_bytes}"
        yield Finding(source=subnet.path, text=text)
    else:
        yield Finding(source=subnet.path, text=f"this node's pods are in {subnet.pod_cidr}, of {subnet.network}")
    backend = sources.flannel_backend
    if backend is not None:
        yield Finding(source=backend.path, text=f"the backend is {backend.backend}")
