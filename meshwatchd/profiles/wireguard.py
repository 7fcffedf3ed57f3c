"""Plain WireGuard: a device that no mesh's agent made, by hand or by wg-quick, with or without an overlay on it.

A node may have such a device for its administrators only. It counts where the operator names it, where an overlay
runs over it, where the CNI's node address is on it, or where there is no other mesh. Where a routing daemon (FRR,
BIRD) has routes into it, pods are routed straight into it, and it is overlay and tunnel in one. What a node told of
itself then lasts in the roster when the routes are gone: a device without them may be one that flannel is to come to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.host_mesh import host_mesh
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import FLANNEL_WIREGUARD
from meshwatchd.model.open_vswitch import ANTREA_MULTICLUSTER, ANTREA_WIREGUARD, GATEWAYS
from meshwatchd.model.routing_daemons import ROUTING_DAEMONS, routed_by_daemon
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot
from meshwatchd.model.sources import QuickFile, Sources
from meshwatchd.profiles import cilium, flannel, kilo, reading, submariner

OTHERS = frozenset(
    (
        *(kilo.DEVICE, submariner.WIREGUARD, cilium.ENCRYPTION, FLANNEL_WIREGUARD, f"{FLANNEL_WIREGUARD}-v6"),
        *(ANTREA_WIREGUARD, ANTREA_MULTICLUSTER),
    )
)
"""Made by agents of other meshes."""

STANDBY = re.compile(r"mw\d+")
"""Ours."""

POD_BRIDGES = ("cni0", "kube-bridge", "cbr0")
"""Of the bridge plugin, of kube-router, of kubenet."""


def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
    """What a plain WireGuard device, its peers and its file say of this node; see `profiles.compose`."""
    found, reason = _device(snapshot, sources, declared)
    if found is None:
        return LocalView(profiles=(), node=node, why=(reason, *_absentees(snapshot, sources)))
    file = next((each for each in sources.quick if each.device == found.name), None)
    below = snapshot.underlay(found.name)
    over = below.name if below is not None and below.name != found.name else ""
    address = next(iter(found.addresses), "")
    routes = routed_by_daemon(snapshot.device_routes, found.name)
    is_native = bool(address and routes) and not _is_below(snapshot, sources, found)
    pods = _pods(snapshot) if is_native else ""
    return LocalView(
        profiles=("wireguard",),
        node=node,
        # A node without pods has what the others route to it: itself.
        pod_cidr=(pods or f"{address}/32") if is_native else "",
        overlay_ip=address if is_native else "",
        overlay_device=found.name if is_native else "",
        wireguard_ip=address,
        wireguard_ip6=next(iter(found.addresses_v6), ""),
        wireguard_device=found.name,
        wireguard_mtu_bytes=found.mtu_bytes,
        layers=(DeviceLayer(kind="wireguard", device=found.name, mtu_bytes=found.mtu_bytes, over=over),),
        candidates=tuple(_candidates(snapshot, found, file)),
        why=(
            reason,
            *_reasons(snapshot, found, file),
            *(_routing(routes, found, pods) if is_native else ()),
            *_absentees(snapshot, sources),
        ),
    )


def _device(snapshot: Snapshot, sources: Sources, declared: MeshSettings) -> tuple[Link | None, Finding]:
    """The device that carries a mesh, and why; a host mesh's is a layer below, unless the operator names it."""
    named = declared.wireguard_device
    plain = [
        each for each in snapshot.links if _is_plain(snapshot, each) and (not host_mesh(each) or each.name == named)
    ]
    if not plain:
        return None, Finding(
            source="links", text="there is no WireGuard device beside those that agents of other meshes make"
        )
    for link in plain:
        if link.name == named:
            return link, Finding(source="[mesh] wireguard_device", text=f"the operator names {link.name}")
    for link in plain:
        overlay = next((each for each in snapshot.links if each.vxlan and each.vxlan.lower == link.index), None)
        if overlay is not None:
            return link, Finding(source=f"link {overlay.name}", text=f"{overlay.name} runs over {link.name}")
    own = sources.cilium.own if sources.cilium is not None else None
    for link in plain:
        if own is not None and own.node_ip in link.addresses:
            return link, Finding(source=cilium.SOURCE, text=f"this node's address is on {link.name}")
    return _only_mesh(snapshot, plain)


def _only_mesh(snapshot: Snapshot, plain: list[Link]) -> tuple[Link | None, Finding]:
    other = _other_mesh(snapshot)
    routed = (link for link in plain if link.is_up and routed_by_daemon(snapshot.device_routes, link.name))
    first = next(routed, None) or next((link for link in plain if link.is_up), plain[0])
    source = f"link {first.name}"
    if other:
        text = f"{first.name} carries nothing of the mesh that {other} belongs to: it is left alone"
        return None, Finding(source=source, text=text)
    if not first.is_up:
        return None, Finding(source=source, text=f"{first.name} is down")
    return first, Finding(source=source, text=f"{first.name} is a WireGuard device, and there is no other mesh")


def _other_mesh(snapshot: Snapshot) -> str:
    flannels = (link.name for link in snapshot.links if link.name.startswith(flannel.PREFIX))
    meshes = [*sorted(OTHERS), *sorted(GATEWAYS), cilium.ROUTER, *flannels]
    return next((name for name in meshes if snapshot.link(name) is not None), "")


def _is_below(snapshot: Snapshot, sources: Sources, found: Link) -> bool:
    """Whether something else than routes stands between pods and the device: an overlay on it, or another mesh."""
    is_below = any(link.vxlan and link.vxlan.lower == found.index for link in snapshot.links)
    return is_below or sources.cilium is not None or sources.flannel is not None or bool(_other_mesh(snapshot))


def _pods(snapshot: Snapshot) -> str:
    """The network of the bridge that pods are on; others, such as docker0's, are the same on every node."""
    bridges = (link for name in POD_BRIDGES if (link := snapshot.link(name)) is not None and link.kind == "bridge")
    return next((str(network) for link in bridges for _, network in reading.networks_of(link)), "")


def _routing(routes: Iterable[DeviceRoute], found: Link, pods: str) -> Iterator[Finding]:
    """Who routes the pods of other nodes into the device, and which pods are here."""
    for number, count in sorted(Counter(route.protocol for route in routes).items()):
        daemon = ROUTING_DAEMONS[number]
        text = f"routes of {daemon.name} (proto {daemon.proto}): {count}; it alone changes them"
        yield Finding(source=f"routes into {found.name}", text=text)
    if pods:
        text = f"this node's pods are in {pods}, routed by others into their {found.name}"
    else:
        text = f"there is none of {', '.join(POD_BRIDGES)}: this node is taken to have no pods"
    yield Finding(source="bridges", text=text)


def _is_plain(snapshot: Snapshot, link: Link) -> bool:
    return reading.is_wireguard(snapshot, link) and link.name not in OTHERS and not STANDBY.fullmatch(link.name)


def _candidates(snapshot: Snapshot, link: Link, file: QuickFile | None) -> Iterator[Candidate]:
    peers = reading.peers_of(snapshot, link.name)
    for peer in peers or (file.peers if file is not None else ()):
        for address in reading.hosts_in(peer.allowed_ips):
            yield Candidate(address=address)


def _reasons(snapshot: Snapshot, link: Link, file: QuickFile | None) -> Iterator[Finding]:
    peers = reading.peers_of(snapshot, link.name)
    yield Finding(source=f"peers of {link.name}", text=f"peers: {len(peers)}")
    if file is None:
        return
    yield Finding(source=file.path, text=f"wg-quick made {link.name}; peers in its file: {len(file.peers)}")
    strangers = {peer.public_key for peer in peers} ^ {peer.public_key for peer in file.peers}
    if peers and strangers:
        text = f"peers that are either in the file or on the device, not both: {len(strangers)}"
        yield Finding(source=file.path, text=text)


def _absentees(snapshot: Snapshot, sources: Sources) -> Iterator[Finding]:
    for file in sources.quick:
        if snapshot.link(file.device) is None:
            text = f"there is no device {file.device}: wg-quick has not brought it up"
            yield Finding(source=file.path, text=text)
