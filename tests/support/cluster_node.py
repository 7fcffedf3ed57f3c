"""Two clusters of three nodes with Cilium, joined by Cluster Mesh: e1 to e3 in east, w1 to w3 in west."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from meshwatchd.model.cluster_mesh import CLUSTER_MESH, ENCRYPTION, ROUTER, ClusterControl
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import DaemonSettings, MeshSettings, Settings
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, Vxlan, WireGuardPeer, WireGuardState
from meshwatchd.model.sources import CiliumCluster, CiliumClusters, CiliumNode, CiliumNodes, Sources
from meshwatchd.model.topology import Location, Node, Topology
from meshwatchd.profiles import OVERLAY_MESH

EAST, WEST = ("e1", "e2", "e3"), ("w1", "w2", "w3")
NAMES = (*EAST, *WEST)
PORT = 51871


def cluster_of(name: str) -> str:
    """East or west."""
    return "east" if name.startswith("e") else "west"


def _number(name: str) -> int:
    return int(name[1:])


def node_ip(name: str) -> str:
    """On the network of its cluster."""
    return f"10.{81 if name in EAST else 82}.0.{10 + _number(name)}"


def pods(name: str, last: str = "0/24") -> str:
    """Its pods' prefix, or an address among them."""
    return f"10.{10 if name in EAST else 11}.{_number(name)}.{last}"


def router_ip(name: str) -> str:
    """Of its cilium_host."""
    return pods(name, f"7{_number(name)}")


def health_ip(name: str) -> str:
    """Of its health endpoint."""
    return pods(name, "200")


def cilium_node(name: str) -> CiliumNode:
    """As agents list it."""
    return CiliumNode(
        name=name,
        cluster=cluster_of(name),
        node_ip=node_ip(name),
        pod_cidr=pods(name),
        router_ip=router_ip(name),
        health_ip=health_ip(name),
    )


def clusters(*lost: str, names: Collection[str] = ("west",)) -> CiliumClusters:
    """Other clusters, as the agent of e1 has them."""
    return CiliumClusters(
        clusters=tuple(
            CiliumCluster(
                name=name,
                is_connected=name not in lost,
                is_ready=name not in lost,
                status="etcd: not connected" if name in lost else "etcd: 1/1 connected",
                failures=7 if name in lost else 0,
            )
            for name in names
        )
    )


def sources(own: str = "e1", *, lost: Collection[str] = (), names: Iterable[str] = NAMES) -> Sources:
    """What the agent of a node says."""
    return Sources(
        cilium=CiliumNodes(own_name=f"{cluster_of(own)}/{own}", nodes=tuple(cilium_node(name) for name in names)),
        cilium_clusters=clusters(*lost),
    )


def snapshot(name: str = "e1", *, control: ClusterControl | None = None) -> Snapshot:
    """The kernel of a node."""
    router = router_ip(name)
    others = [each for each in NAMES if each != name]
    links = (
        _link("eth0", 2, "", node_ip(name), length=24),
        _link(ROUTER, 3, "veth", router),
        Link(
            name="cilium_vxlan",
            index=4,
            kind="vxlan",
            is_up=True,
            mtu_bytes=1500,
            vxlan=Vxlan(vni=0, port=8472, is_external=True),
        ),
        Link(name=ENCRYPTION, index=5, kind="wireguard", is_up=True, mtu_bytes=1405),
    )
    own = DeviceRoute(dst=pods(name), dev=ROUTER, table=254, protocol=2, via=router, src=router)
    ways = (DeviceRoute(dst=pods(each), dev=ROUTER, table=254, protocol=2, via=router, src=router) for each in others)
    gateway = f"{node_ip(name).rpartition('.')[0]}.1"
    return Snapshot(
        links=links,
        device_routes=(own, *ways),
        default_routes=(DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via=gateway),),
        wireguard=(wireguard(name),),
        clusters=(control,) if control is not None else (),
    )


def peer(name: str, *, key: str = "") -> WireGuardPeer:
    """As Cilium's agent configures it."""
    addresses = (node_ip(name), router_ip(name), health_ip(name))
    return WireGuardPeer(
        public_key=key or f"key-of-{name}",
        endpoint=f"{node_ip(name)}:{PORT}",
        allowed_ips=tuple(f"{each}/32" for each in addresses),
    )


def wireguard(name: str = "e1") -> WireGuardState:
    """Its cilium_wg0."""
    peers = tuple(peer(each) for each in NAMES if each != name)
    return WireGuardState(device=ENCRYPTION, public_key=f"key-of-{name}", listen_port=PORT, at_ns=1, peers=peers)


def mesh(*names: str) -> MeshSettings:
    """What all of them are together."""
    chosen = names or NAMES
    nodes = tuple(
        Node(
            name=NodeName(name),
            location=LocationName(cluster_of(name)),
            node_ip=node_ip(name),
            pod_cidr=pods(name),
            overlay_ip=router_ip(name),
        )
        for name in chosen
    )
    homes = dict.fromkeys(node.location for node in nodes)
    return MeshSettings(
        profile=CLUSTER_MESH,
        wireguard_device="",
        overlay_device=ROUTER,
        location=tuple(
            Location(name=home, leader=min(node.name for node in nodes if node.location == home)) for home in homes
        ),
        node=nodes,
    )


def settings(name: str = "e1") -> Settings:
    """Of a node that is told the mesh."""
    return Settings(daemon=DaemonSettings(node=name), mesh=mesh())


def topology(name: str = "e1") -> Topology:
    """The mesh as a node recognises it."""
    found = OVERLAY_MESH.recognise(snapshot(name), mesh(), NodeName(name))
    assert isinstance(found, Topology), found
    return found


def _link(name: str, index: int, kind: str, address: str, *, length: int = 32) -> Link:
    return Link(
        name=name,
        index=index,
        kind=kind,
        is_up=True,
        mtu_bytes=1500,
        addresses=(address,),
        prefix_lengths=(length,),
    )
