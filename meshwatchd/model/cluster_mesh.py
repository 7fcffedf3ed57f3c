"""Cilium Cluster Mesh: what its devices are called, and what one agent says of the control planes of other clusters.

    clustermesh-apiserver of another cluster (etcd, 2379) --nodes, identities, backends--> agent --eBPF maps--> packets

The agent learns whom to send to from there, and sends by itself: nobody relays. What it was told last stays in force
while it hears nothing, for ever by default (`clustermesh-cache-ttl` 0).
Source: cilium pkg/clustermesh/common, api/v1/models RemoteCluster.
"""

from __future__ import annotations

from typing import Final

import msgspec

CLUSTER_MESH: Final = "cilium-clustermesh"
"""The kind of mesh, and the name of its profile."""

ROUTER: Final = "cilium_host"
"""The device that has the node's address among its pods, and by which the host reaches pods of all clusters."""
TUNNELS: Final = ("cilium_vxlan", "cilium_geneve")
ENCRYPTION: Final = "cilium_wg0"
ENCRYPTION_PORT: Final = 51871

RESTART: Final = "kubectl -n kube-system delete pod -l k8s-app=cilium --field-selector spec.nodeName={}"
"""Has a node's agent write its peers and its maps again."""


class ClusterControl(msgspec.Struct, frozen=True, kw_only=True):
    """How this node's agent sees the control plane of another cluster.

    Attributes:
        name: the cluster's.
        is_connected: the agent has a connection, and has read all that is there.
        nodes: how many nodes of it the agent lists, dead or not.
    """

    name: str
    is_connected: bool
    nodes: int = 0
