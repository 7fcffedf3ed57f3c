"""Which sessions a node holds: the probes that exercise every layer of every path it could use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

import msgspec

from meshwatchd.core.probing.cluster_hosts import hosts_asked
from meshwatchd.core.probing.scouts import close
from meshwatchd.core.routes.planner import Planner
from meshwatchd.core.session.witnesses import MIN_ACCUSERS
from meshwatchd.model import ids
from meshwatchd.model.canary import Canary, CanaryExpect, CanaryKind
from meshwatchd.model.digest import blake2b
from meshwatchd.model.ids import FlowClass, Layer, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.port_map import STRANGE_PORT, routed_port
from meshwatchd.model.topology import Mesh, Node, Path

NO_PATH = ids.NO_PATH

BIG_LOCATION = 64
"""Up to so many nodes of a location are all probed by every node."""

SUBSET = 16
"""Members of a bigger location that one node probes, beside the relays: each member is watched by several nodes."""

REMOTE_NODES = 192
"""Nodes that one node probes in all other locations together. Where there are more locations each has less to itself,
but for MIN_ACCUSERS members, without which no leg could be condemned on anybody's word."""

REMOTE_BIG = SUBSET
"""Up to so many nodes of another location are all probed, and of a bigger one so many beside its relays: a path is
judged by a few nodes behind it, and every one of them has several that ask."""


def lay_out(planner: Planner, *, has_standby: bool) -> tuple[SessionPlan, ...]:
    """Every session of this node, ids counting up.

    Args:
        planner: knows the topology and the ports.
        has_standby: False leaves out the standby paths, whose links and selectors do not exist.
    """
    chosen = cache(partial(watched, planner.topology.mesh, planner.local.name))
    plans = [
        *_relay_plans(planner, chosen, has_standby=has_standby),
        *_segment_plans(planner, chosen),
        *_self_plans(planner),
        *_ipip_plans(planner),
        *_ip6_plans(planner, chosen),
    ]
    devices = {Layer.IPIP: planner.settings.mesh.ipip_device, Layer.WIREGUARD: planner.topology.wireguard_device}
    own = tuple(
        SessionPlan(
            session=SessionId(index),
            peer=peer.name,
            layer=layer,
            path=path,
            flow=flow,
            source=source,
            destination=destination,
            port=port,
            device="" if ":" in destination else devices.get(layer, ""),
        )
        for index, (peer, layer, path, flow, source, destination, port) in enumerate(plans)
    )
    beyond = (*own, *_pod_network_plans(planner, chosen, first=len(own)))
    known = (*beyond, *_canary_plans(planner, first=len(beyond)))
    return (*known, *_stranger_plans(planner, chosen, first=len(known)))


def watched(mesh: Mesh, observer: str, location: str) -> frozenset[str]:
    """The nodes of a location that one node probes: its relays, and of the members as many as it can look after.

    A scout probes the scouts of the other location whatever their weight.

    The members with the highest random weight (rendezvous hashing, Thaler and Ravishankar 1998): every node knows
    who watches whom without a word, and a member that comes or goes changes the duties of few.
    """
    found = mesh.members(location)
    members = [node.name for node in found if node.name != observer]
    most = big_location(len(mesh.locations)) if len(members) == len(found) else BIG_LOCATION
    if len(members) <= most:
        return frozenset(members)
    relays = mesh.location(location).relays()
    others = sorted((name for name in members if name not in relays), key=lambda name: _weight(observer, name))
    chosen = (*others[-min(SUBSET, most) :], *(name for name in relays if name != observer))
    home = mesh.node(observer).location
    if home != location and observer in close(mesh, home, location):
        # Or those who decide about two large locations would hardly know each other.
        return frozenset((*chosen, *close(mesh, location, home)))
    return frozenset(chosen)


def big_location(locations: int) -> int:
    """Up to so many nodes of another location are all probed by every node, where there are so many locations."""
    return min(REMOTE_BIG, max(MIN_ACCUSERS, REMOTE_NODES // max(1, locations - 1)))


def _weight(observer: str, member: str) -> bytes:
    return blake2b(f"{observer}/{member}".encode(), digest_size=8).digest()


_Row = tuple[Node, Layer, int, FlowClass, str, str, int]

_Chosen = Callable[[str], frozenset[str]]
"""The nodes of a location that this one probes: ranking a whole location once for each of its paths would be dear."""


def _relay_plans(planner: Planner, chosen: _Chosen, *, has_standby: bool) -> Iterator[_Row]:
    for path in planner.paths:
        if not path.is_primary and not (has_standby and planner.probes_path(path)):
            continue
        port = planner.probe_port(path)
        for node in _reached(planner, chosen, path):
            for flow in FlowClass:
                is_between_pods = not path.is_primary and flow is FlowClass.FRESH
                ends = _ends(planner, node, is_between_pods=is_between_pods)
                yield node, Layer.RELAY, path.number, flow, *ends, port
    for path in planner.paths:
        if path.is_primary:
            port = routed_port(planner.settings.probe.port)
            for node in _reached(planner, chosen, path):
                yield node, Layer.EFFECTIVE, path.number, FlowClass.FRESH, *_ends(planner, node), port


def _ends(planner: Planner, node: Node, *, is_between_pods: bool = False) -> tuple[str, str]:
    """Between which addresses a path is probed: what pods' packets cross on the way, the probes cross as well.

    A standby has to prove that it carries both, before traffic moves there: its relays may forward packets of nodes and
    drop those of pods. So its fresh probes go between addresses among the pods and its established flows between nodes.
    Where eBPF wraps what pods send (IPIP to the leader), only packets of nodes ever reach a table of ours.
    """
    local = planner.topology.local
    is_wrapped = bool(planner.settings.mesh.ipip_device)
    if is_between_pods and not is_wrapped and local.has_pod_address() and node.has_pod_address():
        return local.overlay_ip, node.overlay_ip
    if planner.topology.is_overlay_direct:
        return local.overlay_ip, node.overlay_ip
    return local.node_ip, node.node_ip


def _reached(planner: Planner, chosen: _Chosen, path: Path) -> Iterator[Node]:
    probed = chosen(path.other_location(planner.local.location))
    return (node for node in planner.reached_over(path) if node.name in probed)


def _segment_plans(planner: Planner, chosen: _Chosen) -> Iterator[_Row]:
    topology, port = planner.topology, planner.settings.probe.port
    local = topology.local
    leader = topology.mesh.location(local.location).leader
    for node in topology.mesh.members(local.location):
        if node.name not in chosen(local.location):
            continue
        yield node, Layer.UNDERLAY, NO_PATH, FlowClass.FRESH, local.node_ip, node.node_ip, port
        if topology.is_overlay_star and leader not in {local.name, node.name}:
            continue  # members have no overlay between them
        for flow in FlowClass:
            yield node, Layer.OVERLAY, NO_PATH, flow, local.overlay_ip, node.overlay_ip, port
    for path in planner.paths:
        if path.is_primary and (topology.is_relay(path) or topology.is_clustered):
            yield from _carrier_plans(planner, path)


def _carrier_plans(planner: Planner, path: Path) -> Iterator[_Row]:
    """A relay to the far end of what carries the path.

    That is its tunnel, out of the WireGuard device whatever the routes say; or, where the overlay stands on the nodes'
    own network, the host of the other node, as neighbours are asked elsewhere. Of clusters each node asks for itself.

    Real traffic between locations follows routes of its own prefixes. To the far end itself there may be another one:
    Kilo's agent, killed and started again, forgets the routes that a member has to it by way of its leader, and leaves
    them when the member leads.
    """
    topology, port = planner.topology, planner.settings.probe.port
    local = topology.local
    peer = topology.mesh.node(path.relay_in(path.other_location(local.location)))
    if topology.is_on_underlay:
        for host in hosts_asked(topology.mesh, local.name, peer.location) if topology.is_clustered else (peer,):
            yield host, Layer.UNDERLAY, path.number, FlowClass.FRESH, local.node_ip, host.node_ip, port
    elif local.wireguard_ip and peer.wireguard_ip:
        for flow in FlowClass:
            yield peer, Layer.WIREGUARD, path.number, flow, local.wireguard_ip, peer.wireguard_ip, port


def _self_plans(planner: Planner) -> Iterator[_Row]:
    """This node's own reflector, over loopback: who does not hear himself accuses nobody."""
    local = planner.topology.local
    yield local, Layer.SELF, NO_PATH, FlowClass.FRESH, local.node_ip, local.node_ip, planner.settings.probe.port


def _ipip_plans(planner: Planner) -> Iterator[_Row]:
    """A member to its leader's overlay address, out of the IPIP device whatever the routes say.

    None of the leader's addresses is routed through IPIP but its WireGuard address, and that one is often local: a
    member's kilo0 is down and mostly keeps the address of its location, which the kernel then answers itself. Out of
    the device and without a route the kernel takes the destination for the next hop, hence for the outer destination:
    the gateway of Kilo's own routes, so that the outer packets are those of real traffic. The reflector answers out of
    the device the request came in by, in the same way.
    """
    topology = planner.topology
    local = topology.local
    leader = topology.mesh.node(topology.mesh.location(local.location).leader)
    if planner.settings.mesh.ipip_device and leader.name != local.name:
        port = planner.settings.probe.port
        yield leader, Layer.IPIP, NO_PATH, FlowClass.FRESH, local.overlay_ip, leader.overlay_ip, port


def _ip6_plans(planner: Planner, chosen: _Chosen) -> Iterator[_Row]:
    """The IPv6 twins of the fresh sessions that need no tables of ours, where both ends have an address."""
    for node, layer, path, (source, destination), port in _ip6_candidates(planner, chosen):
        if source and destination:
            yield node, layer, path, FlowClass.FRESH, source, destination, port


def _ip6_candidates(
    planner: Planner, chosen: _Chosen
) -> Iterator[tuple[Node, Layer, int, tuple[str | None, str | None], int]]:
    topology, port = planner.topology, planner.settings.probe.port
    local = topology.local
    primary = [path for path in planner.paths if path.is_primary]
    for path in primary:
        for node in _reached(planner, chosen, path):
            yield node, Layer.RELAY, path.number, (local.node_ip6, node.node_ip6), planner.probe_port(path)
    for node in topology.mesh.members(local.location):
        if node.name in chosen(local.location):
            yield node, Layer.UNDERLAY, NO_PATH, (local.node_ip6, node.node_ip6), port
            yield node, Layer.OVERLAY, NO_PATH, (local.overlay_ip6, node.overlay_ip6), port
    for path in primary:
        if topology.is_relay(path):
            peer = topology.mesh.node(path.relay_in(path.other_location(local.location)))
            yield peer, Layer.WIREGUARD, path.number, (local.wireguard_ip6, peer.wireguard_ip6), port


def _pod_network_plans(planner: Planner, chosen: _Chosen, *, first: int) -> Iterator[SessionPlan]:
    """From this node's address among its pods to those of others: an established flow, and one SYN after the other.

    The port of our reflectors is nobody's in TCP: its refusal proves the way there and back. Where the overlay stands
    on the tunnel the paths themselves are probed between these addresses, and so is the overlay to neighbours: there
    only closed ports are new.
    """
    home, port = planner.topology.local.location, planner.settings.probe.port
    peers = _with_pods(planner, chosen)
    beyond = [] if planner.topology.is_overlay_direct else [node for node in peers if node.location != home]
    asked: list[tuple[Node, Canary | None]] = [(node, None) for node in beyond]
    asked += [(node, _question(node, CanaryKind.TCP, port)) for node in peers]
    yield from _between_pods(planner, asked, port, first=first)


def _stranger_plans(planner: Planner, chosen: _Chosen, *, first: int) -> Iterator[SessionPlan]:
    """The same by UDP as others send it: the kernel's word that the port is closed proves the way there and back.

    They come last: a journal from before there were any has numbered all other sessions as it is done today.
    """
    peers = _with_pods(planner, chosen)
    asked = [(node, _question(node, CanaryKind.UDP, STRANGE_PORT)) for node in peers]
    yield from _between_pods(planner, asked, STRANGE_PORT, first=first)


def _with_pods(planner: Planner, chosen: _Chosen) -> list[Node]:
    """Whom this node asks at an address among pods: nobody where it has none itself."""
    mesh = planner.topology.mesh
    if not planner.topology.local.has_pod_address():
        return []
    members = ((location.name, node) for location in mesh.locations for node in mesh.members(location.name))
    return [node for location, node in members if node.name in chosen(location) and node.has_pod_address()]


def _between_pods(
    planner: Planner, asked: Iterable[tuple[Node, Canary | None]], port: int, *, first: int
) -> Iterator[SessionPlan]:
    for session, (node, canary) in enumerate(asked, first):
        yield SessionPlan(
            session=SessionId(session),
            peer=node.name,
            layer=Layer.POD_NETWORK,
            path=NO_PATH,
            flow=FlowClass.PINNED if canary is None else FlowClass.FRESH,
            source=planner.topology.local.overlay_ip,
            destination=node.overlay_ip,
            port=port,
            canary=canary,
        )


def _question(node: Node, kind: CanaryKind, port: int) -> Canary:
    return Canary(name=f"{kind}-{node.name}", address=node.overlay_ip, port=port, node=node.name, kind=kind)


def _canary_plans(planner: Planner, *, first: int) -> Iterator[SessionPlan]:
    """The canaries of the other locations; the mesh is not on the way to those of the own, nor to unknown nodes'."""
    home = planner.topology.local.location
    homes = {node.name: node.location for node in planner.topology.mesh.nodes}
    remote = [canary for canary in planner.settings.probe.canary if homes.get(canary.node, home) != home]
    handshakes = (_handshake(canary) if canary.kind is CanaryKind.BULK else canary for canary in remote)
    in_bulk = (canary for canary in remote if canary.kind is CanaryKind.BULK)
    for session, canary in enumerate((*handshakes, *in_bulk), first):
        yield SessionPlan(
            session=SessionId(session),
            peer=canary.node,
            layer=Layer.POD,
            path=NO_PATH,
            flow=FlowClass.FRESH,
            source="",
            destination=canary.address,
            port=canary.port,
            canary=canary,
        )


def _handshake(canary: Canary) -> Canary:
    """What a canary in bulk is measured by: the same service, and no more than a connection."""
    return msgspec.structs.replace(canary, kind=CanaryKind.TCP, expect=CanaryExpect.SERVICE)
