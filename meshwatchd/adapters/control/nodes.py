"""What can be asked about the nodes of the mesh: the reply, and its part of the interface's description."""

from __future__ import annotations

import msgspec

from meshwatchd.model.node_status import NodeStatus


class NodesReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Nodes; `node` is the one that answers."""

    node: str
    nodes: tuple[NodeStatus, ...]


NODES = """\

# A verdict that a node has made itself; `towards`: the location whose traffic suffers, empty for its own kernel.
type ReportedFault (
  reported_by: string,
  location: string,
  age_ns: int,
  towards: string,
  fault: string,
  culprit: string,
  severity: string
)

# A peer that does not answer a node, and the lowest layer on which it does not.
type SilentPeer (peer: string, layer: string)

# A node as this one knows it. Roles: leader, standby, member; no age where it was never heard. Severity, faults and
# silent peers are its own words, `report_age_ns` old; is_cut: there was no room for all of them.
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
  heard_ago_ns: ?int,
  severity: string,
  report_age_ns: ?int,
  is_cut: bool,
  faults: []ReportedFault,
  silent: []SilentPeer
)

# Every node of the mesh that is known here.
method Nodes() -> (node: string, nodes: []Node)
"""
