"""What can be asked about the nodes of the mesh: the reply, and its part of the interface's description."""

from __future__ import annotations

import msgspec

from meshwatchd.model.node_status import NodeStatus


class NodesReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Nodes; `node` is the one that answers."""

    node: str
    nodes: tuple[NodeStatus, ...]


NODES = """\

# A node as this one knows it. Roles: leader, standby, member; no age where it was never heard.
type Node (
  name: string,
  location: string,
  role: string,
  version: string,
  mode: string,
  node_ip: string,
  pod_cidr: string,
  overlay_ip: string,
  wireguard_ip: string,
  heard_ago_ns: ?int
)

# Every node of the mesh that is known here.
method Nodes() -> (node: string, nodes: []Node)
"""
