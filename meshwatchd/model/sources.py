"""What a node's own programs and files say of its mesh, beside the kernel.

`adapters.sources` reads them, `profiles` uses them.

Each value is complete or absent. What was rejected is told beside it, and what was good before stays.
"""

from __future__ import annotations

import msgspec


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be used.

    Attributes:
        source: where it came from: "kilo graph", "/run/flannel/subnet.env".
        reason: the first thing found wrong with it.
    """

    source: str
    reason: str


class KiloNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node of Kilo's graph.

    Attributes:
        location: as the graph labels it, without the prefix "location:".
        node_ip: empty for a node without an internal address.
        is_leader: it leads its segment; only then it has wireguard_ip and endpoint.
        endpoint: host and port where other leaders reach it.
    """

    name: str
    location: str
    pod_cidr: str
    node_ip: str = ""
    is_leader: bool = False
    wireguard_ip: str = ""
    endpoint: str = ""


class KiloGraph(msgspec.Struct, frozen=True, kw_only=True):
    """Kilo's own picture of the mesh, from http://127.0.0.1:1107/graph?format=dot.

    Attributes:
        wireguard_cidr: the prefix that leaders' WireGuard addresses are from.
        nodes: by name.
    """

    wireguard_cidr: str
    nodes: tuple[KiloNode, ...]

    def node(self, name: str) -> KiloNode | None:
        """The node of that name, or None."""
        return next((node for node in self.nodes if node.name == name), None)


class KiloMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What Kilo counts, from http://127.0.0.1:1107/metrics.

    Attributes:
        is_leader: kilo_leader.
        nodes: kilo_nodes, those of the whole mesh.
        reconciles: kilo_reconciles_total; it grows every 30 s while the agent lives.
    """

    is_leader: bool
    nodes: int
    reconciles: int


class CiliumNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node as Cilium's agent knows it; addresses are IPv4, empty where it has none.

    Attributes:
        cluster: empty where the agent names none.
        router_ip: of its cilium_host.
        health_ip: of its health endpoint.
    """

    name: str
    cluster: str = ""
    node_ip: str = ""
    pod_cidr: str = ""
    router_ip: str = ""
    health_ip: str = ""


class CiliumNodes(msgspec.Struct, frozen=True, kw_only=True):
    """GET /v1/cluster/nodes of Cilium's agent: this node's name there, and all nodes by name."""

    own_name: str
    nodes: tuple[CiliumNode, ...]

    @property
    def own(self) -> CiliumNode | None:
        """This node."""
        return next((node for node in self.nodes if self.own_name in {node.name, f"{node.cluster}/{node.name}"}), None)


class CiliumCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Another cluster, as Cilium's agent sees its control plane.

    Attributes:
        is_connected: to its etcd, or to the copy of it that kvstoremesh keeps here.
        is_ready: all that is there was read since.
        status: in the agent's words.
        failures: attempts in vain since the agent began.
    """

    name: str
    is_connected: bool = False
    is_ready: bool = False
    status: str = ""
    failures: int = 0


class CiliumClusters(msgspec.Struct, frozen=True, kw_only=True):
    """`cluster-mesh` of GET /v1/healthz of Cilium's agent: the other clusters by name; empty without Cluster Mesh."""

    clusters: tuple[CiliumCluster, ...] = ()

    def cluster(self, name: str) -> CiliumCluster | None:
        """The cluster of that name, or None."""
        return next((each for each in self.clusters if each.name == name), None)


class FlannelSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """What flannel leaves for its CNI plugin: subnet.env.

    Attributes:
        path: where it was found.
        network: of all pods of the mesh.
        pod_cidr: of this node's pods.
        mtu_bytes: for pods.
    """

    path: str
    network: str
    pod_cidr: str
    mtu_bytes: int


class FlannelBackend(msgspec.Struct, frozen=True, kw_only=True):
    """Flannel's net-conf.json: which backend carries pods."""

    path: str
    network: str
    backend: str


class QuickPeer(msgspec.Struct, frozen=True, kw_only=True):
    """A peer in a wg-quick file."""

    public_key: str
    endpoint: str = ""
    allowed_ips: tuple[str, ...] = ()
    keepalive_s: int = 0


class QuickFile(msgspec.Struct, frozen=True, kw_only=True):
    """A wg-quick file, without its private key.

    Attributes:
        device: the file's name without ".conf".
        addresses: with prefix length.
        mtu_bytes: 0 where wg-quick chooses.
        has_routes: wg-quick makes routes of AllowedIPs (Table is not "off").
    """

    path: str
    device: str
    addresses: tuple[str, ...] = ()
    listen_port: int = 0
    mtu_bytes: int = 0
    has_routes: bool = True
    peers: tuple[QuickPeer, ...] = ()


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, as last read.

    Attributes:
        rejected: what could not be used at the last attempt; a value of the same source is an older one.
    """

    kilo: KiloGraph | None = None
    kilo_metrics: KiloMetrics | None = None
    cilium: CiliumNodes | None = None
    cilium_clusters: CiliumClusters | None = None
    flannel: FlannelSubnet | None = None
    flannel_backend: FlannelBackend | None = None
    quick: tuple[QuickFile, ...] = ()
    rejected: tuple[Rejection, ...] = ()
