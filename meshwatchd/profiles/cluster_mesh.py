"""Cilium Cluster Mesh: clusters whose nodes send to each other by themselves, which one agent tells of another.

    east/e1 --cilium_vxlan--> west/w1, west/w2, west/w3        to the nodes' own addresses, in WireGuard where encrypted

The kernel shows nothing of it: other clusters are entries of a map that eBPF reads. The agent's socket tells, which
lists nodes as CLUSTER/NODE; without it a node cannot say in which mesh it is. A cluster is a location, and since
nobody relays each node leads itself. Where Kilo or Submariner joins clusters, the locations are theirs.

No standby of ours can carry traffic here: which node a packet goes to is decided in eBPF, past every rule and route.
The outer packet that comes of it is an ordinary one of the host's to the address of that node, and is routed as such.

Source: cilium pkg/clustermesh, Documentation/network/clustermesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meshwatchd.model.cluster_mesh import CLUSTER_MESH, ENCRYPTION, ENCRYPTION_PORT, TUNNELS
from meshwatchd.model.discovery import Finding, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import CiliumNode, Sources
from meshwatchd.profiles import reading
from meshwatchd.profiles.cilium import ROUTER, SOURCE

MAX_NAMED = 8
"""Clusters in one sentence."""

VXLAN_PORT, GENEVE_PORT = 8472, 6081
"""Cilium's `tunnel-port` where a device does not say."""


def outer_ports(snapshot: Snapshot, overlay_device: str = "") -> tuple[int, ...]:
    """The UDP ports that outer packets to other nodes go to: of Cilium's tunnel and encryption, and of the mesh's
    overlay device where that is a tunnel, as a third party's may be.
    """
    names = dict.fromkeys((*TUNNELS, ENCRYPTION, overlay_device))
    links = [link for name in names if (link := snapshot.link(name)) is not None and link.is_up]
    return tuple(dict.fromkeys(port for link in links if (port := _outer_port(link))))


def _outer_port(link: Link) -> int:
    """Of a device; 0 for one that is no tunnel."""
    if link.name == ENCRYPTION:
        return ENCRYPTION_PORT
    if link.kind == "geneve":
        return (link.geneve.port if link.geneve is not None else 0) or GENEVE_PORT
    if link.kind == "vxlan":
        return (link.vxlan.port if link.vxlan is not None else 0) or VXLAN_PORT
    return 0


def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
    """What Cilium's agent says of this cluster and others; see `profiles.compose`."""
    del declared
    router = snapshot.link(ROUTER)
    own = sources.cilium.own if sources.cilium is not None else None
    others = _other_clusters(sources, own)
    if router is None or own is None or not others:
        reason = _absence(sources, own, has_router=router is not None)
        return LocalView(profiles=(), node=node, why=(reason,))
    address = next(iter(router.addresses), "")
    return LocalView(
        profiles=(CLUSTER_MESH,),
        node=node,
        location=LocationName(own.cluster),
        node_ip=own.node_ip,
        pod_cidr=own.pod_cidr if reading.is_in(address, own.pod_cidr) else "",
        overlay_ip=address,
        overlay_device=ROUTER,
        why=tuple(_reasons(own, others)),
    )


def _other_clusters(sources: Sources, own: CiliumNode | None) -> Mapping[str, int]:
    """How many nodes the agent lists of each other cluster; one that it was told of and has not reached has none."""
    if own is None or not own.cluster or sources.cilium is None:
        return {}
    configured = sources.cilium_clusters.clusters if sources.cilium_clusters is not None else ()
    counts = dict.fromkeys((each.name for each in configured), 0)
    for each in sources.cilium.nodes:
        if each.cluster:
            counts[each.cluster] = counts.get(each.cluster, 0) + 1
    return {name: counts[name] for name in sorted(counts) if name != own.cluster}


def _absence(sources: Sources, own: CiliumNode | None, *, has_router: bool) -> Finding:
    if not has_router:
        return Finding(source=f"link {ROUTER}", text=f"there is no {ROUTER}: Cilium does not run here")
    if sources.cilium is None:
        text = "the agent's socket does not answer: whether Cluster Mesh joins this cluster with others is not known"
        return Finding(source=SOURCE, text=text)
    if own is None or not own.cluster:
        return Finding(source=SOURCE, text="it does not say in which cluster this node is: there is no Cluster Mesh")
    return Finding(source=SOURCE, text=f"it knows of no cluster but {own.cluster}: there is no Cluster Mesh")


def _reasons(own: CiliumNode, others: Mapping[str, int]) -> Iterator[Finding]:
    told = [f"{name} ({count} nodes)" for name, count in others.items()]
    more = f" and {len(told) - MAX_NAMED} more" if len(told) > MAX_NAMED else ""
    text = f"this node is in cluster {own.cluster}; Cluster Mesh joins it with {', '.join(told[:MAX_NAMED])}{more}"
    yield Finding(source=SOURCE, text=text)
    text = (
        "this mesh has no standby: faults are named and reported; outer packets to one node may go through a neighbour"
        " where [cilium] outer_reroute is on"
    )
    yield Finding(source=f"link {ROUTER}", text=text)
