"""Nodes that flannel has taken out of its mesh, while the roster keeps them for days (`discovery.forget`).

    kubectl delete node n2, an autoscaler    n2's route, neighbour and FDB entry go from every other node
    the same with the wireguard backend      n2's peer goes from `flannel-wg` of every other node

A dead node is a fault and no missing node, so n2 stays in the mesh. Its entries, however, are nobody's loss: no audit
misses them, and no repair puts them back. Two things together say so: n2 is taken for dead (`View.unheard`), and
nothing of it is left. A part that is left is a loss, and so is all that is lost of a node that lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec

from meshwatchd.core.audit.expected_entries import is_understood
from meshwatchd.core.audit.native_route import is_native
from meshwatchd.core.audit.view import View
from meshwatchd.model.discovery import Hello
from meshwatchd.model.mesh_profile import FLANNEL_WIREGUARD
from meshwatchd.model.prefixes import covers
from meshwatchd.model.snapshot import WireGuardState
from meshwatchd.model.topology import Node


def without_removed(view: View) -> View:
    """The same view of a mesh without its removed nodes."""
    gone = removed_nodes(view)
    if not gone:
        return view
    nodes = tuple(each for each in view.mesh.node if each.name not in gone)
    return replace(view, mesh=msgspec.structs.replace(view.mesh, node=nodes))


def removed_nodes(view: View) -> frozenset[str]:
    """The nodes that flannel has removed here; of other meshes none is known to be."""
    device = view.mesh.overlay_device
    link = view.snapshot.link(device)
    if not view.unheard or link is None or not link.is_up:
        return frozenset()
    if is_native(view.mesh) and device == FLANNEL_WIREGUARD:
        return _removed_from_tunnel(view)
    return view.expectations().removed_nodes() if is_understood(link, device) else frozenset()


def _removed_from_tunnel(view: View) -> frozenset[str]:
    """The dead nodes of which no peer is left, while another peer has its pods: else the device was emptied."""
    state = next((each for each in view.snapshot.wireguard if each.device == view.mesh.wireguard_device), None)
    if state is None or not any(peer.allowed_ips for peer in state.peers):
        return frozenset()
    left = _left_in(view, state)
    return frozenset(
        node.name
        for node in view.mesh.node
        if node.name in view.unheard and ":" not in node.pod_cidr and not left.has(node, view.hellos.get(node.name))
    )


class _Left(NamedTuple):
    """What peers have: keys, prefixes, those of them that are no node's pods; and whose key had which pods before."""

    keys: frozenset[str]
    held: frozenset[str]
    odd: frozenset[str]
    former: Mapping[str, str]

    def has(self, node: Node, hello: Hello | None) -> bool:
        """Whether a peer has a node's key, or a prefix that is, holds or is a part of its pods."""
        told = hello.tunnel_public_key if hello is not None else ""
        if node.pod_cidr in self.held or not self.keys.isdisjoint((told, self.former.get(node.pod_cidr, ""))):
            return True
        return any(covers(each, node.pod_cidr) or covers(node.pod_cidr, each) for each in self.odd)


def _left_in(view: View, state: WireGuardState) -> _Left:
    """Gathered once: a mesh of a thousand nodes may have lost a hundred in the days for which they are remembered."""
    held = frozenset(each for peer in state.peers for each in peer.allowed_ips if ":" not in each)
    was = (each for each in (view.good.wireguard if view.good is not None else ()) if each.device == state.device)
    return _Left(
        keys=frozenset(peer.public_key for peer in state.peers),
        held=held,
        odd=held - {node.pod_cidr for node in view.mesh.node},
        former={prefix: peer.public_key for each in was for peer in each.peers for prefix in peer.allowed_ips},
    )
