"""Whether packets to pods and to nodes are routed into the mesh: asked of the kernel, with selectors of real packets.

Routes of the main table say what the mesh's agent wants; a policy rule above them, or a route that leads nowhere,
decides otherwise for some packets, while those of probes are routed as before:

    sent here      from this node's address among its pods, to an address among another's
    from a pod     the same, coming in by the bridge of this node's pods
    relayed        on a leader: from a member's pods out of the overlay, and from other locations out of the tunnel
    to own pods    from this node's address among its pods to another one there, by the bridge that once led there
    to a dead end  of somebody's, a part of another node's pods (core.audit.pod_dead_ends)
    by protocol    each of these again, of a protocol that somebody's rule singles out: whether it goes nowhere
    to nodes       of other locations, to neighbours and to the ends of tunnels (core.audit.node_routes)

Of what leaves by a device that is not the mesh's the kernel is asked for the route as well. One for the very pods is
somebody's, who has put it in the place of the mesh's or before it: `pod-route-escaped`, and it is left alone. In a
mesh whose one route is for the pods of all it takes nobody's place, and what loses the pods of a node loses the tunnel
to it: that is `pod-route-diverted`, as it is by a rule.

Only the kernel knows what comes of rules and tables together, so it is asked. All questions are asked when a rule or a
route has changed and every REST_NS besides, ROUND of them every PAUSE_NS at most: whatever storm of changes there is, a
node asks 1 920 times a minute at most, and a leader of six nodes at rest 52 times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address, ip_network
from itertools import cycle, islice

import msgspec

from meshwatchd.core.audit.daemon_routes import escape_finding, escape_questions, is_rerouted
from meshwatchd.core.audit.expected_entries import GoodState, is_understood
from meshwatchd.core.audit.gateway_routes import gateway_finding, gateway_questions, is_gateway_mesh
from meshwatchd.core.audit.native_route import is_native
from meshwatchd.core.audit.node_routes import host_questions, node_questions
from meshwatchd.core.audit.pod_dead_ends import NOWHERE, UDP, dead_parts, goes_nowhere, say_end, say_way
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import MAIN_TABLE, AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.prefixes import holds
from meshwatchd.model.route_lookup import RouteAnswer, RouteQuestion
from meshwatchd.model.settings import SECOND, MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.topology import Node

ROUND = 64
PAUSE_NS = 2 * SECOND
"""Less than the catalogue's confirm time: what was wrong for a moment is asked again before it is told."""

REST_NS = 30 * SECOND

MAX_FOUND = 16
"""Prefixes that are told; where all routes are gone, more say nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodQuestion:
    """A question, and what it is about.

    Attributes:
        peer: the node whom, or whose pods, the packet is for.
        devices: it may leave by.
        prefix: that a routing daemon routes to the peer, where the question is about that.
        part: of the peer's pods that somebody's dead end has, where the question is about that.
        is_former: the mesh routed these pods, or this node, while all was well, and does not now: somebody else's route
            for them is the one thing that tells a loss from a peer that was taken out of the mesh.
        host: an address of the node itself that the packet is for; empty where it is for its pods.
        needed_by: who sends such packets below the mesh, by whatever device; empty where `devices` are the mesh's.
    """

    peer: Node
    question: RouteQuestion
    devices: frozenset[str]
    prefix: str = ""
    part: str = ""
    is_former: bool = False
    host: str = ""
    needed_by: str = ""

    @property
    def subject(self) -> str:
        """The prefix that the question is about."""
        return self.prefix or self.part or (f"{self.host}/32" if self.host else self.peer.pod_cidr)


class PodRouteAudit:
    """Asks in rounds and remembers the answers.

    Args:
        standby_prefix: of the names of our own devices, which a failover leads into.
        ask: the kernel.
        protocols: numbers of those that rules single out.

    Attributes:
        bridge: the device of this node's pods, if it is up.
    """

    def __init__(
        self,
        standby_prefix: str,
        ask: Callable[[RouteQuestion], RouteAnswer],
        protocols: Callable[[], tuple[int, ...]] = tuple,
    ) -> None:
        self._prefix, self._ask, self._protocols = standby_prefix, ask, protocols
        self._questions: tuple[PodQuestion, ...] = ()
        self._wrong: dict[RouteQuestion, RouteAnswer] = {}
        self._seen: tuple[Snapshot, MeshSettings, GoodState | None, bool] | None = None
        self.bridge: Link | None = None
        # A node without pods may have no bridge, and one that had a bridge misses it.
        self._latest_bridge: tuple[Link, str] | None = None
        self._version: object = None
        self._next, self._left = 0, 0
        self._round_at, self._all_at = 0, 0

    def look(self, view: View, version: object, now: int, *, is_forwarding: bool) -> Iterator[AuditFinding]:
        """Ask what is due, and tell what is wrong by the latest answers.

        Args:
            view: links, routes, the mesh.
            version: another value after each change of a rule or a route.
            now: nanoseconds.
            is_forwarding: without which nothing that comes in is routed, wherever it should go.
        """
        is_new = self._prepare(view, is_forwarding=is_forwarding)
        if is_new or version != self._version or now >= self._all_at:
            self._version, self._left, self._all_at = version, len(self._questions), now + REST_NS
        if self._left and now >= self._round_at:
            self._round_at = now + PAUSE_NS
            self._ask_round()
        yield from self._findings(view)

    def _prepare(self, view: View, *, is_forwarding: bool) -> bool:
        """Whether there are other questions than before; with a thousand nodes they are made anew only if need be."""
        seen = view.snapshot, view.mesh, view.good, is_forwarding
        if self._seen is not None and all(one is other for one, other in zip(seen, self._seen, strict=True)):
            return False
        self._seen, self.bridge = seen, pod_bridge(view)
        found = (*questions(view, self._prefix, self.bridge, is_forwarding=is_forwarding), *self._to_own_pods(view))
        if found == self._questions:
            return False
        self._questions = found
        known = {each.question for each in found}
        self._wrong = {question: answer for question, answer in self._wrong.items() if question in known}
        return True

    def _to_own_pods(self, view: View) -> Iterator[PodQuestion]:
        local = _local(view)
        holder = _holder(view, local)
        if local is None or holder is None:
            return
        place = f"{local.pod_cidr} beside {holder.name}"
        if self.bridge is not None:
            self._latest_bridge = self.bridge, place
        if self._latest_bridge is not None and self._latest_bridge[1] == place:
            known = self._latest_bridge[0]
            question = RouteQuestion(source=local.overlay_ip, destination=_pod_address(local, known))
            yield PodQuestion(peer=local, devices=frozenset((known.name,)), question=question)

    def _ask_round(self) -> None:
        count = min(ROUND, self._left)
        start = self._next % len(self._questions)
        self._next, self._left = start + count, self._left - count
        for each in islice(cycle(self._questions), start, start + count):
            wrong = self._judge(each, self._ask(each.question)) or self._lost_by_protocol(each)
            self._wrong.pop(each.question, None)
            if wrong is not None:
                self._wrong[each.question] = wrong

    def _judge(self, asked: PodQuestion, answer: RouteAnswer) -> RouteAnswer | None:
        """The answer, with the route that was taken, where it is wrong; else None."""
        if not answer.device or answer.device in asked.devices or asked.needed_by or asked.part:
            return answer if goes_nowhere(asked.question, answer) and not asked.is_former else None
        entry = self._ask(msgspec.structs.replace(asked.question, is_for_entry=True)).prefix
        is_wrong = entry == asked.subject if asked.is_former else not self._is_rerouted(asked, answer)
        return msgspec.structs.replace(answer, prefix=entry) if is_wrong else None

    def _lost_by_protocol(self, asked: PodQuestion) -> RouteAnswer | None:
        """What goes nowhere; somewhere else a proxy may rightly take all of a protocol. Below the mesh all is UDP."""
        for number in () if asked.is_former or asked.question.dport else self._protocols():
            if asked.needed_by and number != UDP:
                continue
            question = msgspec.structs.replace(asked.question, protocol=number)
            answer = self._ask(question)
            if goes_nowhere(question, answer):
                return msgspec.structs.replace(answer, protocol=number)
        return None

    def _is_rerouted(self, asked: PodQuestion, answer: RouteAnswer) -> bool:
        return bool(asked.prefix) and self._seen is not None and is_rerouted(answer, self._seen[1])

    def _findings(self, view: View) -> Iterator[AuditFinding]:
        if is_gateway_mesh(view):
            yield from self._gateway_findings(view)
            return
        told: set[str] = set()
        for each in self._questions:
            answer, prefix = self._wrong.get(each.question), each.subject
            if answer is not None and prefix not in told and len(told) < MAX_FOUND:
                told.add(prefix)
                tell = _escape if each.prefix else _blocked if each.needed_by else _finding
                finding = tell(view, each, answer)
                yield from (finding,) if finding is not None else ()

    def _gateway_findings(self, view: View) -> Iterator[AuditFinding]:
        lost = [(each, self._wrong[each.question]) for each in self._questions if each.question in self._wrong]
        if lost:
            (device,) = lost[0][0].devices
            because = ((each.peer, each.question, answer) for each, answer in lost)
            yield gateway_finding(view, because, device, NOWHERE.get(lost[0][1].errno, ""))


def questions(view: View, standby_prefix: str, bridge: Link | None, *, is_forwarding: bool) -> Iterator[PodQuestion]:
    """What is to be asked on this node, whose pods are behind a bridge; nothing without an address among its pods."""
    if is_gateway_mesh(view):
        for peer, question, device in gateway_questions(view, is_forwarding=is_forwarding):
            yield PodQuestion(peer=peer, devices=frozenset((device,)), question=question)
        return
    for peer, prefix, question in escape_questions(view):
        devices = _devices(view, None, standby_prefix)
        yield PodQuestion(peer=peer, devices=devices, question=question, prefix=prefix)
    local = _local(view)
    holder = _holder(view, local)
    if local is None or holder is None:
        return
    devices = _devices(view, holder, standby_prefix)
    peers = [each for each in _routed(view, devices) if each.name != view.node]
    for peer in _formerly_routed(view, peers):
        sent = RouteQuestion(source=local.overlay_ip, destination=_address(peer))
        yield PodQuestion(peer=peer, devices=devices, question=sent, is_former=True)
    for peer in peers:
        destination = _address(peer)
        sent = RouteQuestion(source=local.overlay_ip, destination=destination)
        yield PodQuestion(peer=peer, devices=devices, question=sent)
        if bridge is not None and is_forwarding:
            of_pod = RouteQuestion(source=_pod_address(local, bridge), destination=destination, iif=bridge.name)
            yield PodQuestion(peer=peer, devices=devices, question=of_pod)
    if is_forwarding:
        yield from _relayed(view, local, peers, devices)
    for peer, to_node, is_former in node_questions(view, local, devices, is_forwarding=is_forwarding):
        yield PodQuestion(peer=peer, devices=devices, question=to_node, host=peer.node_ip, is_former=is_former)
    for peer, to_host, why in host_questions(view, local):
        yield PodQuestion(peer=peer, devices=frozenset(), question=to_host, host=to_host.destination, needed_by=why)
    # Somebody may have locked out more pods than findings are told: what loses a whole node comes before.
    for peer, part in dead_parts(view, peers, _prefixes(view, devices)):
        sent = RouteQuestion(source=local.overlay_ip, destination=part.partition("/")[0])
        yield PodQuestion(peer=peer, devices=devices, question=sent, part=part)


def _relayed(view: View, local: Node, peers: list[Node], devices: frozenset[str]) -> Iterator[PodQuestion]:
    """What a leader passes on, each member and each node of other locations once in either direction.

    Only out of devices where the stack sees packets of pods: Cilium passes them on in eBPF.
    """
    overlay, tunnel = view.snapshot.link(view.mesh.overlay_device), view.snapshot.link(view.mesh.wireguard_device)
    members = [each for each in peers if each.location == local.location]
    others = [each for each in peers if each.location != local.location]
    if overlay is None or tunnel is None or not tunnel.is_up or not members or not others:
        return
    if not is_understood(overlay, overlay.name):
        return
    for member, other in islice(zip(cycle(members), cycle(others), strict=False), max(len(members), len(others))):
        here, there = _address(member), _address(other)
        out = RouteQuestion(source=here, destination=there, iif=overlay.name)
        back = RouteQuestion(source=there, destination=here, iif=tunnel.name)
        yield PodQuestion(peer=other, devices=devices, question=out)
        yield PodQuestion(peer=member, devices=devices, question=back)


def _local(view: View) -> Node | None:
    return next((each for each in view.mesh.node if each.name == view.node), None)


def _holder(view: View, local: Node | None) -> Link | None:
    """The device that has this node's address among its pods: flannel.1, cilium_host."""
    if local is None or not _has_pod_address(local):
        return None
    return next((link for link in view.snapshot.links if local.overlay_ip in link.addresses and link.is_up), None)


def _devices(view: View, holder: Link | None, standby_prefix: str) -> frozenset[str]:
    """All that packets of pods may leave by: a failover's devices too, and the way to a neighbour's pods."""
    mesh = view.mesh
    standby = (link.name for link in view.snapshot.links if link.name.startswith(standby_prefix))
    named = (mesh.wireguard_device, mesh.overlay_device, mesh.ipip_device, holder.name if holder is not None else "")
    return frozenset(each for each in (*named, *standby) if each)


def _routed(view: View, devices: frozenset[str]) -> Iterator[Node]:
    """The nodes that the mesh's routes name: whom its agent has dropped it routes nowhere, and rightly so.

    Where one route leads to all pods, those that a WireGuard peer may carry.
    """
    routes = _prefixes(view, devices)
    for node in view.mesh.node:
        if node.pod_cidr in routes or f"{node.node_ip}/32" in routes:
            yield node


def _prefixes(view: View, devices: frozenset[str]) -> set[str]:
    return view.routed_into(devices) | (view.carried() if is_native(view.mesh) else set[str]())


def _formerly_routed(view: View, routed: list[Node]) -> Iterator[Node]:
    """The nodes whose pods the overlay device had a route to while all was well, and that no route names now."""
    former = view.routed_while_well()
    named = {each.name for each in routed}
    yield from (node for node in view.mesh.node if node.pod_cidr in former and node.name not in (view.node, *named))


def pod_bridge(view: View) -> Link | None:
    """The device of this node's pods, where they are on a network of its own (cni0)."""
    local = _local(view)
    if local is None:
        return None
    for link in view.snapshot.links:
        for address, length in zip(link.addresses, link.prefix_lengths, strict=False):
            if link.is_up and str(IPv4Network(f"{address}/{length}", strict=False)) == local.pod_cidr:
                return link
    return None


def _pod_address(local: Node, bridge: Link) -> str:
    """An address that a pod may have: the kernel refuses to be asked for packets from its own."""
    last = int(IPv4Network(local.pod_cidr).broadcast_address) - 1
    own = {*bridge.addresses, local.overlay_ip}
    return next(text for number in range(last, last - len(own) - 1, -1) if (text := str(ip_address(number))) not in own)


def _address(node: Node) -> str:
    """Of a node, the address among its pods that is the host's; else the first of them, or the only one."""
    if _has_pod_address(node):
        return node.overlay_ip
    pods = ip_network(node.pod_cidr, strict=False)
    return str(pods[min(1, pods.num_addresses - 1)])


def _finding(view: View, asked: PodQuestion, answer: RouteAnswer) -> AuditFinding:
    peer, prefix, snapshot, mesh = asked.peer, asked.subject, view.snapshot, view.mesh
    routed = peer.pod_cidr if asked.part else prefix
    routes = (each for each in snapshot.device_routes if each.dst == routed and each.table == MAIN_TABLE)
    wanted = next((each.dev for each in routes if each.dev in asked.devices), "")
    as_routed = f"the mesh routes {routed} of {peer.name} into {wanted}"
    if peer.name == view.node:
        (wanted,) = asked.devices
        as_routed = f"this node's own pods in {peer.pod_cidr} are behind {wanted}: look at its state and its address"
    elif not wanted and asked.host:
        as_routed = f"the mesh has no route to {peer.node_ip} of {peer.name} any more"
    elif not wanted and is_native(mesh):
        as_routed = f"a peer of {mesh.wireguard_device} may carry {peer.pod_cidr} of {peer.name}"
    elif not wanted:
        as_routed = f"there is a route to {peer.node_ip} of {peer.name}, and none to its pods in {peer.pod_cidr}"
    is_anothers = answer.prefix == prefix and not wanted
    is_escape = is_anothers and not asked.host and not is_native(mesh)
    if is_anothers:
        by = f" by {answer.via}" if answer.via else ""
        as_routed = f"the main table has a route of {prefix}{by} into {answer.device}, and none of the mesh's"
    return AuditFinding(
        code=FaultCode.POD_ROUTE_ESCAPED if is_escape else FaultCode.POD_ROUTE_DIVERTED,
        # A fault of the device itself explains this one where it is the same device.
        device=wanted or mesh.overlay_device,
        subject=prefix,
        peer=peer.name,
        culprit=view.node,
        because=(*_what_happens(view, asked, answer), as_routed),
        is_of_few=bool(asked.part) and not holds(asked.part, _address(peer)),
    )


def _blocked(view: View, asked: PodQuestion, answer: RouteAnswer) -> AuditFinding:
    """What is lost below the mesh, whatever device it should leave by."""
    own = (link.name for link in view.snapshot.links if asked.question.source in link.addresses)
    return AuditFinding(
        code=FaultCode.NODE_ROUTE_BLOCKED,
        device=next(own, ""),
        subject=asked.subject,
        peer=asked.peer.name,
        culprit=view.node,
        because=(*_what_happens(view, asked, answer), asked.needed_by),
    )


def _what_happens(view: View, asked: PodQuestion, answer: RouteAnswer) -> Iterator[str]:
    """What becomes of the packet, and the rule and the dead ends that make it so."""
    yield say_way(asked.question, answer)
    if answer.rule:
        yield f"ip rule {answer.rule} decides"
    ends = (each for each in view.snapshot.dead_ends if each.dst == asked.subject)
    yield from (f"the main table has {each.kind} {each.dst}" for each in ends)


def _escape(view: View, asked: PodQuestion, answer: RouteAnswer) -> AuditFinding | None:
    return escape_finding(view, asked.peer, asked.prefix, end=say_end(answer), rule=answer.rule)


def _has_pod_address(node: Node) -> bool:
    return ":" not in node.pod_cidr and node.has_pod_address()
