"""What can be asked about the nodes of the mesh: the reply."""

from __future__ import annotations

import msgspec

from meshwatchd.model.node_status import NodeStatus


class NodesReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Nodes; `node` is the one that answers."""

    node: str
    nodes: tuple[NodeStatus, ...]
