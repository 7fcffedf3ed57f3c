"""What Cilium's agent says of other clusters: GET /v1/healthz on /var/run/cilium/cilium.sock, `cluster-mesh` of it.

    {"cluster-mesh": {"clusters": [{"name": "west", "connected": true, "ready": true, "status": "etcd: 1/1 ...",
                                    "num-nodes": 3, "num-failures": 0}]}}

Without Cluster Mesh there is no such member, or no cluster in it. All else of a long answer is skipped.

Source: StatusResponse, ClusterMeshStatus and RemoteCluster in api/v1/openapi.yaml of Cilium 1.19.
"""

from __future__ import annotations

from typing import Final

import msgspec

from meshwatchd.adapters.sources import check
from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import CiliumCluster, CiliumClusters

SOURCE: Final = "cilium agent's health"
TARGET: Final = "/v1/healthz"

MAX_CLUSTERS: Final = 511
"""Of one Cluster Mesh, with maxConnectedClusters as large as it may be; 255 by default."""

MAX_STATUS_CHARACTERS: Final = 200


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """RemoteCluster."""

    name: str
    connected: bool = False
    ready: bool = False
    status: str = ""
    num_failures: int = 0


class _ClusterMesh(msgspec.Struct, frozen=True, rename="kebab"):
    """ClusterMeshStatus."""

    clusters: tuple[_Cluster, ...] | None = None


class _Answer(msgspec.Struct, frozen=True, rename="kebab"):
    """StatusResponse."""

    cluster_mesh: _ClusterMesh | None = None


def parse(data: bytes) -> CiliumClusters:
    """Turn the answer into clusters.

    Raises:
        DecodeError: it is no JSON of that shape, or a name is none.
    """
    answer = decode_json(data, _Answer, Door(SOURCE))
    told = (answer.cluster_mesh.clusters if answer.cluster_mesh is not None else None) or ()
    if len(told) > MAX_CLUSTERS:
        raise DecodeError(SOURCE, f"there are more than {MAX_CLUSTERS} clusters")
    return CiliumClusters(clusters=tuple(sorted(map(_cluster, told), key=lambda each: each.name)))


def _cluster(told: _Cluster) -> CiliumCluster:
    place = f"cluster {check.shown(told.name)}"
    return CiliumCluster(
        name=check.name(told.name, SOURCE, place),
        is_connected=told.connected,
        is_ready=told.ready,
        # A text of a foreign program that people will read in a terminal.
        status="".join(each if each.isprintable() else " " for each in told.status[:MAX_STATUS_CHARACTERS]).strip(),
        failures=max(0, told.num_failures),
    )
