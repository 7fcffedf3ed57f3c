"""Whether silence is death, where hellos may come by nothing but what is being judged.

With flannel's wireguard backend the address of a node is among its pods, and behind NAT it is had by the tunnel alone.
A node that has lost its peer hears it no more, and would take it for dead: so others are asked. They report which
nodes do not answer their probes, in each hello.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_status import NodeStatus


def corroborated(unheard: Collection[NodeName], nodes: Sequence[NodeStatus], node: str) -> frozenset[NodeName]:
    """Those of the unheard nodes that answer most living nodes as little as this one.

    A daemon that began after a node's end reports no silence of it, so that not all of them need to. A report that has
    no room for all silent nodes does not count for those that it does not name.

    Args:
        unheard: whom this node has not heard for too long.
        nodes: all that are known, with what they report.
        node: this one.
    """
    living = [
        (frozenset(each.peer for each in other.silent), other.is_cut)
        for other in nodes
        if other.name != node and other.name not in unheard and other.severity and other.is_report_fresh
    ]
    found = set[NodeName]()
    for name in sorted(unheard):
        missing = sum(name in silent for silent, _ in living)
        answered = sum(name not in silent and not is_cut for silent, is_cut in living)
        if missing > answered:
            found.add(name)
    return frozenset(found)
