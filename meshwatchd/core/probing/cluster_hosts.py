"""Which hosts of another cluster a node asks at their own addresses, where every node reaches all others by itself.

Pods of another cluster may be silent since the overlay is lost on the way, or since the way is. A few hosts tell which:
each node asks others of them, so that all of a cluster's are asked by somebody.
"""

from __future__ import annotations

from meshwatchd.model.digest import blake2b
from meshwatchd.model.topology import Mesh, Node

MOST_HOSTS = 3
"""One may be down, and another one be taken out of service."""


def hosts_asked(mesh: Mesh, observer: str, location: str) -> tuple[Node, ...]:
    """The nodes of another location whose hosts one node asks, by highest random weight (`session_plan.watched`)."""
    ranked = sorted(mesh.members(location), key=lambda node: _weight(observer, node.name))
    return tuple(sorted(ranked[-MOST_HOSTS:], key=lambda node: node.name))


def _weight(observer: str, member: str) -> bytes:
    return blake2b(f"{observer}/{member}".encode(), digest_size=8).digest()
