"""Which of the kernel's routes to nodes are asked for: the mesh's own to other locations, and those below the mesh.

    10.1.0.12 dev kilo0         a leader, for itself and for its members (Kilo: one route for each node)
    10.1.0.12 dev flannel.1     a member, by way of its leader

An agent that looks at deletions alone does not see that `ip route replace unreachable 10.1.0.12/32`, or a policy rule,
has taken the place of such a route, or is asked before it. A node that the agent has dropped is in no route. It is
asked for where a WireGuard peer may still carry it, or a route led to it while all was well: then a route of its own
that leads out of the mesh (`ip route replace 10.1.0.12/32 dev eth0`) is somebody's, who has taken the agent's away.

Neighbours, and the endpoints that WireGuard sends to, are reached below the mesh by whatever device: there a packet
that goes nowhere is all that is wrong. Tools that lock an address out write such a route (`ip route add unreachable
203.0.113.11`), and no filter and no counter shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

from meshwatchd.core.audit.allowed_prefixes import tunnel_prefixes
from meshwatchd.core.audit.expected_entries import is_understood
from meshwatchd.core.audit.view import View
from meshwatchd.model.route_lookup import RouteQuestion
from meshwatchd.model.topology import Node


def node_questions(
    view: View, local: Node, devices: frozenset[str], *, is_forwarding: bool
) -> Iterator[tuple[Node, RouteQuestion, bool]]:
    """Each node of another location once from this node's own address, and on a leader once from a member's.

    The last of each three is whether the mesh has no route to the node any more, and only one of somebody else's for it
    alone is wrong.

    Args:
        view: routes and dead ends; the mesh.
        local: this node.
        devices: of the mesh.
        is_forwarding: without which a leader routes nothing that comes in.
    """
    overlay, tunnel = view.snapshot.link(view.mesh.overlay_device), view.snapshot.link(view.mesh.wireguard_device)
    if not _has_its_address(view, local):
        return
    leads = tunnel is not None and tunnel.is_up
    named = view.routed_into(devices) | {each.dst for each in view.snapshot.dead_ends}
    abroad = [each for each in view.mesh.node if each.location != local.location]
    others = [each for each in abroad if f"{each.node_ip}/32" in named]
    # What a leader's peers may carry, and a member's overlay had routes to. Where the mesh routes no node (Cilium
    # encrypts to their own addresses), routes to nodes are the network's.
    former = view.carried() | view.routed_while_well() if others else set[str]()
    for other in abroad:
        prefix = f"{other.node_ip}/32"
        if prefix in named or prefix in former:
            yield other, RouteQuestion(source=local.node_ip, destination=other.node_ip), prefix not in named
    members = [each for each in view.mesh.node if each.location == local.location and each.name != local.name]
    if leads and members and is_forwarding and overlay is not None and is_understood(overlay, overlay.name):
        for other, member in zip(others, cycle(members), strict=False):
            yield other, RouteQuestion(source=member.node_ip, destination=other.node_ip, iif=overlay.name), False


def host_questions(view: View, local: Node) -> Iterator[tuple[Node, RouteQuestion, str]]:
    """Each neighbour and each end of a tunnel, once from this node's own address, and who needs it."""
    if not _has_its_address(view, local):
        return
    for each in view.mesh.node:
        if each.location == local.location and each.name != local.name:
            yield each, RouteQuestion(source=local.node_ip, destination=each.node_ip), f"{each.name} is a neighbour"
    device = view.mesh.wireguard_device
    nodes = {prefix: each for each in view.mesh.node if each.name != local.name for prefix in tunnel_prefixes(each)}
    for peer in (each for state in view.snapshot.wireguard if state.device == device for each in state.peers):
        node = next((nodes[prefix] for prefix in peer.allowed_ips if prefix in nodes), None)
        if node is not None and peer.host and ":" not in peer.host:
            question = RouteQuestion(source=local.node_ip, destination=peer.host)
            yield node, question, f"{device} sends there what is for {node.name}: {peer.endpoint}"


def _has_its_address(view: View, local: Node) -> bool:
    """The kernel takes no question from an address that is not its own."""
    return any(local.node_ip in link.addresses for link in view.snapshot.links)
