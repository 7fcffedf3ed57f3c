"""Nodes that are here known by another address than they know themselves by: Liqo gives a cluster another prefix where
its own is taken here.

What such a node says of itself, its address and its pods, leads nowhere from this side, or to somebody else. The mesh
rests on one address for each node, so it is no part of it, and nothing is moved for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.model.discovery import LocalView
from meshwatchd.model.prefixes import holds

REMEDY = (
    "nothing can be enforced between clusters whose addresses Liqo remaps: leave it out of discovery.peers, and give"
    " each cluster a mesh key of its own"
)


def tell_translation(view: LocalView, source: str, beyond: Iterable[str]) -> str:
    """Why a node is no part of the mesh, as a sentence; empty where its address is its own.

    Args:
        view: what it says of itself.
        source: where that came from.
        beyond: prefixes of other clusters, as this one sees them.
    """
    is_beyond = any(holds(prefix, source) for prefix in beyond)
    is_own = source in (view.node_ip, view.overlay_ip, view.wireguard_ip) or (
        bool(view.pod_cidr) and holds(view.pod_cidr, source)
    )
    if not is_beyond or is_own:
        return ""
    return f"it is reached at {source} by way of Liqo, and goes by {view.node_ip or 'no address'} itself; {REMEDY}"
