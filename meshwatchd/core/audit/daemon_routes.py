"""A mesh whose routes a routing daemon makes: BIRD or FRR with BGP over plain WireGuard.

    route   10.42.2.0/24 via 10.8.0.3 dev wg0 proto bird     stands as long as the daemon's session does
    peer    10.8.0.3/32, 10.42.2.0/24                        WireGuard goes by the destination, whatever `via` says

    nothing passes to the node behind `via`, the route stands    -> next-hop-dead       (core.audit.next_hops)
    the kernel sends such packets elsewhere, or nowhere          -> bgp-route-escaped
    the peer behind `via` may not carry them                     -> allowed-ips-missing

A session may stand by another way than packets go, and says nothing of either. None of these routes is ever changed
here: their owner is named, with its own commands. What it routes by way of another node of the mesh is its decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Network

from meshwatchd.core.audit.next_hops import nodes_by_address
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.prefixes import covers, holds
from meshwatchd.model.route_lookup import RouteAnswer, RouteQuestion
from meshwatchd.model.routing_daemons import ROUTING_DAEMONS, render_route, routed_by_daemon
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, WireGuardPeer
from meshwatchd.model.topology import Node

DEFAULT = "0.0.0.0/0"


def escape_questions(view: View) -> Iterator[tuple[Node, str, RouteQuestion]]:
    """The node that a prefix leads to, the prefix, and a packet for it that this node sends.

    Prefixes are those that are routed, and the pods of nodes that were while all was well: these nodes still have them.
    """
    local = next((each for each in view.mesh.node if each.name == view.node), None)
    names = nodes_by_address(view.mesh)
    if local is None:
        return
    asked = {each.dst: names[each.via] for each in _routes(view) if each.via in names and each.dst != DEFAULT}
    routed = tuple(dict.fromkeys(each.dst for each in _routes_before(view)))
    for node in view.mesh.node if routed else ():
        if ":" not in node.pod_cidr and node.pod_cidr not in asked and _is_in_any(node.pod_cidr, routed):
            asked[node.pod_cidr] = node
    for prefix, node in asked.items():
        if node.name != view.node and local.pod_cidr != prefix:
            yield node, prefix, RouteQuestion(source=local.overlay_ip, destination=_address_in(prefix))


def is_rerouted(answer: RouteAnswer, mesh: MeshSettings) -> bool:
    """Whether packets leave by way of another node of the mesh: the daemon's own second choice."""
    return any(answer.via in (node.node_ip, node.overlay_ip) for node in mesh.node if answer.via)


def escape_finding(view: View, node: Node, prefix: str, *, end: str, rule: str) -> AuditFinding | None:
    """What takes the packets, and whether the daemon's route is there beside it.

    None where it has withdrawn the route, and rightly so: nothing comes from the node.

    Args:
        view: links, routes, the mesh.
        node: that the prefix leads to.
        prefix: that is lost.
        end: what becomes of a packet, as the end of a sentence.
        rule: that decides; empty for the usual ones.
    """
    present = next((each for each in _routes(view) if covers(each.dst, prefix)), None)
    known = present or next((each for each in _routes_before(view) if covers(each.dst, prefix)), None)
    assert known is not None, "only what a daemon routes, or has routed, is asked for"
    daemon = ROUTING_DAEMONS[known.protocol]
    was = f"{daemon.name}'s route is there, and another one is taken before it: {render_route(known)}"
    if present is None:
        peer = _Carriers(view).of(node.overlay_ip)
        if peer is not None and peer.public_key in view.silent:
            return None
        gone = f"{daemon.name}'s route is gone, withdrawn by it or deleted by somebody"
        was = f"{gone}, while {node.name} still has that prefix: {render_route(known)}"
    return AuditFinding(
        code=FaultCode.BGP_ROUTE_ESCAPED,
        device=view.mesh.wireguard_device,
        subject=prefix,
        peer=node.name,
        culprit=view.node,
        because=(
            f"packets to {prefix} of {node.name} {end}",
            *((f"ip rule {rule} decides",) if rule else ()),
            was,
            f"{daemon.name} and the kernel about it: {daemon.show.format(prefix)}; ip route get {_address_in(prefix)}",
        ),
    )


def audit_hops(view: View) -> Iterator[AuditFinding]:
    """Routes whose next hop WireGuard does not send them to: it goes by AllowedIPs alone, and the longest counts."""
    routes = _routes(view)
    if not routes:
        return
    names, carriers = nodes_by_address(view.mesh), _Carriers(view)
    for route in dict.fromkeys(routes):
        node, right = names.get(route.via), carriers.of(route.via)
        taker = carriers.of(_address_in(route.dst))
        if node is None or right is None or taker is right:
            continue
        daemon = ROUTING_DAEMONS[route.protocol]
        end = f"sends them to peer {taker.public_key}" if taker is not None else "drops them (ENOKEY)"
        yield AuditFinding(
            code=FaultCode.ALLOWED_IPS_MISSING,
            device=route.dev,
            subject=route.dst,
            peer=node.name,
            culprit=view.node,
            because=(
                f"{daemon.name} routes {route.dst} to {node.name}: {render_route(route)}",
                f"WireGuard {end}: AllowedIPs of {node.name} are {', '.join(right.allowed_ips)}",
                f"{_give(route, right, taker)} puts it right; write it into the device's file as well",
            ),
        )


def _give(route: DeviceRoute, right: WireGuardPeer, taker: WireGuardPeer | None) -> str:
    """The command by which a prefix goes to the right peer: given to it, or, where it has it, taken from the other."""
    has_it = any(":" not in each and covers(each, route.dst) for each in right.allowed_ips)
    if taker is None or not has_it:
        return f"wg set {route.dev} peer {right.public_key} allowed-ips {','.join((*right.allowed_ips, route.dst))}"
    rest = (each for each in taker.allowed_ips if ":" in each or not holds(each, _address_in(route.dst)))
    return f"wg set {route.dev} peer {taker.public_key} allowed-ips {','.join(rest) or repr('')}"


def _routes(view: View) -> tuple[DeviceRoute, ...]:
    return routed_by_daemon(view.snapshot.device_routes, view.mesh.wireguard_device)


def _routes_before(view: View) -> tuple[DeviceRoute, ...]:
    return routed_by_daemon(view.good.entries.routes if view.good is not None else (), view.mesh.wireguard_device)


class _Carriers:
    """The peers of the mesh's WireGuard device by what they may carry."""

    def __init__(self, view: View) -> None:
        states = (each for each in view.snapshot.wireguard if each.device == view.mesh.wireguard_device)
        peers = (peer for state in states for peer in state.peers)
        held = ((prefix, peer) for peer in peers for prefix in peer.allowed_ips if ":" not in prefix)
        self._peers = {str(IPv4Network(prefix, strict=False)): peer for prefix, peer in held}
        self._lengths = sorted({int(prefix.rpartition("/")[2]) for prefix in self._peers}, reverse=True)

    def of(self, address: str) -> WireGuardPeer | None:
        """The peer that WireGuard sends an address to: that of the longest prefix which holds it."""
        prefixes = (str(IPv4Network(f"{address}/{length}", strict=False)) for length in self._lengths)
        return next((self._peers[prefix] for prefix in prefixes if prefix in self._peers), None)


def _is_in_any(prefix: str, wider: Collection[str]) -> bool:
    return prefix in wider or any(covers(each, prefix) for each in wider)


def _address_in(prefix: str) -> str:
    """The first address of a prefix that a host may have."""
    address, _, length = prefix.partition("/")
    if int(length or 32) >= 31:
        return address
    return f"{address.rpartition('.')[0]}.{int(address.rpartition('.')[2]) + 1}"
