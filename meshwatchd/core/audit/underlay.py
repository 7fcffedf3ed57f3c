"""Compares what the LAN says about addresses of nodes with what the nodes advertise in their hellos.

    permanent entry, another MAC than advertised       neighbour-wrong     at this node
    permanent entry of the gateway; another answers    neighbour-wrong     at this node
    the node answers ARP, and another MAC does too,    duplicate-address   of the node that the mesh knows there
      is in the neighbour table, or is this node's
    it answers what everybody hears, and not what      mac-moved           the switch delivers its frames elsewhere
      is sent to its MAC alone

A node that does not answer at all is accused of nothing here: it may be dead, and clouds answer for the dead. A MAC
that answers for several nodes is a proxy's, and one that the node has advertised earlier is on its way out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address

from meshwatchd.core.audit.peer_faults import EXPLAINS
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import Hello
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Neighbour, Snapshot
from meshwatchd.model.status import PairStatus, Status
from meshwatchd.model.topology import Node
from meshwatchd.model.underlay import ArpAnswers

MAX_LAN_PREFIX = 31
"""A network that is smaller holds no neighbour: clouds give their machines /32 and route everything."""

LOST_ALONE = 4
"""Of probes to one MAC alone, where none to everybody is lost. Of 12 and 12 on a LAN that loses a fifth of all frames
that is one round in 70."""

_MAY_BE_THE_LANS = EXPLAINS[FaultCode.DUPLICATE_ADDRESS] | {
    *(FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED, FaultCode.NEIGHBOUR_WRONG, FaultCode.UNDETERMINED)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderlayView:
    """What an audit of the underlay rests on.

    Attributes:
        node: this node's name.
        hellos: what peers advertise, by their name.
        neighbours: those on devices that are not the mesh's.
        former: MACs that nodes have advertised at any time, by name.
        answers: to the last rounds of ARP probes, the latest at the end, by address; empty at rest.
        suspects: nodes that a verdict of this node names, and this node while there are any; empty at rest.
    """

    snapshot: Snapshot
    mesh: MeshSettings
    node: str
    hellos: Mapping[str, Hello]
    neighbours: tuple[Neighbour, ...] = ()
    former: Mapping[str, Collection[str]]
    answers: Mapping[str, tuple[ArpAnswers, ...]]
    suspects: Container[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArpQuestion:
    """An address to ask for.

    Attributes:
        link: the LAN's device.
        expected: the MACs that should answer; empty where none is to be asked alone.
    """

    link: Link
    address: str
    expected: tuple[str, ...] = ()


def suspects_of(status: Status) -> tuple[str, ...]:
    """The nodes that verdicts name for what the LAN may have done; this node first, empty where there is none."""
    pairs = [pair for pair in status.pairs if pair.verdict.fault in _MAY_BE_THE_LANS]
    named = (name for pair in pairs for name in (pair.verdict.culprit, *_hidden(pair, status.node)) if name)
    return tuple(dict.fromkeys((status.node, *named))) if pairs else ()


def _hidden(pair: PairStatus, node: str) -> Iterator[str]:
    """The relays that the LAN may hide from a node that names itself as out of reach; far ones are on no LAN of it."""
    if pair.verdict.fault is FaultCode.NODE_UNREACHABLE and pair.verdict.culprit == node:
        yield from (name for path in pair.paths if path.rank == 0 for name in path.relays)


def questions(view: UnderlayView) -> Iterator[ArpQuestion]:
    """What to ask the LAN for: this node, suspected ones, one other, which shows proxies, and a permanent gateway."""
    macs = advertised(view.mesh, view.hellos)
    own = own_address(view)
    if own is not None:
        yield ArpQuestion(link=own[0], address=own[1])
    claimed = _addresses(view.snapshot)
    is_compared = False
    for node in view.mesh.node:
        link = lan_device(view.snapshot, node.node_ip) if node.name in macs and node.name != view.node else None
        if link is not None and _is_asked_for(view, node, claimed):
            yield ArpQuestion(link=link, address=node.node_ip, expected=macs[node.name])
        elif link is not None and not is_compared:
            is_compared = True
            yield ArpQuestion(link=link, address=node.node_ip)
    for entry in _gateways(view):
        link = view.snapshot.link(entry.dev)
        if entry.is_permanent and link is not None and link.is_up and link.lladdr:
            yield ArpQuestion(link=link, address=entry.address, expected=(entry.lladdr,))


def audit_underlay(view: UnderlayView) -> Iterator[AuditFinding]:
    """Everything about the addresses of nodes that is not as they advertise it."""
    macs = advertised(view.mesh, view.hellos)
    foreign = _foreign(view, macs)
    claimed = _addresses(view.snapshot)
    entries = {each.address: each for each in view.neighbours if each.lladdr}
    yield from _own(view, foreign, macs)
    for node in view.mesh.node:
        if node.name == view.node or node.name not in macs:
            continue
        entry = entries.get(node.node_ip)
        if entry is not None and _is_wrong(view, node, entry, macs[node.name]):
            because = f"{entry.dev} of {view.node} has {node.node_ip} at {entry.lladdr} for good"
            claim = f"{node.name} advertises that its MAC is {macs[node.name][0]}"
            yield _finding(FaultCode.NEIGHBOUR_WRONG, node, entry.dev, because, claim, culprit=view.node)
        elif _is_asked_for(view, node, claimed):
            claims = (f"{claimed[node.node_ip]} of {view.node}",) if node.node_ip in claimed else ()
            yield from _judge(view, node, (*foreign.get(node.node_ip, ()), *claims), macs)
    yield from _wrong_gateways(view)


def advertised(mesh: MeshSettings, hellos: Mapping[str, Hello]) -> dict[str, tuple[str, ...]]:
    """The MACs of nodes by name, as far as a hello advertises any for the address that the mesh knows."""
    found = ((node, hellos[node.name].view) for node in mesh.node if node.name in hellos)
    return {node.name: view.node_macs for node, view in found if view.node_macs and view.node_ip == node.node_ip}


def lan_device(snapshot: Snapshot, address: str) -> Link | None:
    """The Ethernet device whose network holds an address; None where that is behind a router."""
    for link in snapshot.links:
        for own, length in zip(link.addresses, link.prefix_lengths, strict=False):
            is_lan = link.is_up and bool(link.lladdr) and link.vxlan is None and length < MAX_LAN_PREFIX
            if is_lan and address and ip_address(address) in IPv4Network(f"{own}/{length}", strict=False):
                return link
    return None


def own_address(view: UnderlayView) -> tuple[Link, str] | None:
    """The device of this node's LAN with its address; what is below the tunnel of a node that goes by that one's."""
    node_ip = next((node.node_ip for node in view.mesh.node if node.name == view.node), "")
    link = lan_device(view.snapshot, node_ip)
    if link is not None and node_ip in link.addresses:
        return link, node_ip
    below = view.snapshot.underlay(view.mesh.wireguard_device)
    if below is None or not below.addresses or not below.lladdr:
        return None
    return below, below.addresses[0]


def _all(view: UnderlayView, address: str) -> ArpAnswers:
    """Several rounds of probes for one address as one: which frames are lost while a MAC flaps is chance."""
    rounds = view.answers.get(address, ())
    return ArpAnswers(
        macs=tuple(sorted({mac for each in rounds for mac in each.macs})),
        asked=sum(each.asked for each in rounds),
        heard=sum(each.heard for each in rounds),
        heard_alone=sum(each.heard_alone for each in rounds),
    )


def _addresses(snapshot: Snapshot) -> dict[str, str]:
    """This node's own addresses, each with its device."""
    return {address: link.name for link in snapshot.links for address in link.addresses}


def _is_asked_for(view: UnderlayView, node: Node, claimed: Container[str]) -> bool:
    """Whether a verdict names a peer, or this node misses somebody and has the peer's address."""
    return node.name in view.suspects or (node.node_ip in claimed and view.node in view.suspects)


def _foreign(view: UnderlayView, macs: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """For each address of a node the MACs that are said to have it and are not its own; without those of proxies."""
    found: dict[str, dict[str, None]] = {}
    own, own_macs = own_address(view), {link.lladdr for link in view.snapshot.links}
    if own is not None and own[1] in view.answers:
        found[own[1]] = dict.fromkeys(mac for mac in _all(view, own[1]).macs if mac not in own_macs)
    entries = {each.address: (each.lladdr,) for each in view.neighbours if each.lladdr and not each.is_permanent}
    for node in view.mesh.node:
        if node.name in macs and node.name != view.node:
            known = (*macs[node.name], *view.former.get(node.name, ()))
            said = (*_all(view, node.node_ip).macs, *entries.get(node.node_ip, ()))
            found[node.node_ip] = dict.fromkeys(mac for mac in said if mac not in known)
    times = Counter(mac for each in found.values() for mac in each)
    return {address: tuple(mac for mac in each if times[mac] == 1) for address, each in found.items()}


def _own(
    view: UnderlayView, foreign: Mapping[str, tuple[str, ...]], macs: Mapping[str, tuple[str, ...]]
) -> Iterator[AuditFinding]:
    """A device does not answer its own node, so others that do are too many (RFC 5227)."""
    own = own_address(view)
    others = foreign.get(own[1], ()) if own is not None else ()
    if own is None or not others:
        return
    # Whatever this node misses, it may be that its answers went to the other machine: a fault of the whole device.
    yield AuditFinding(
        code=FaultCode.DUPLICATE_ADDRESS,
        device=own[0].name,
        subject=own[0].name,
        peer=view.node,
        culprit=view.node,
        because=(f"{own[1]} of {view.node} is answered for by {_named(others, macs)} as well",),
    )


def _judge(
    view: UnderlayView, node: Node, others: tuple[str, ...], macs: Mapping[str, tuple[str, ...]]
) -> Iterator[AuditFinding]:
    """A suspected node that answers ARP, and so lives."""
    answers = _all(view, node.node_ip)
    if not answers.heard:
        return
    link = lan_device(view.snapshot, node.node_ip)
    device = link.name if link is not None else ""
    moved = next((each for each in (answers, *view.answers[node.node_ip][-1:]) if _has_moved(each)), None)
    if others:
        because = f"{node.node_ip} is at {macs[node.name][0]}, as {node.name} advertises, and at {_named(others, macs)}"
        yield _finding(FaultCode.DUPLICATE_ADDRESS, node, device, because)
    elif moved is not None:
        lost = f"{moved.asked - moved.heard_alone} of {moved.asked}"
        because = f"{node.name} answers all ARP probes to everybody, and not {lost} to its MAC alone"
        elsewhere = f"the switch delivers frames for {macs[node.name][0]} to another port"
        yield _finding(FaultCode.MAC_MOVED, node, device, because, elsewhere)


def _has_moved(answers: ArpAnswers) -> bool:
    return answers.heard == answers.asked and answers.asked - answers.heard_alone >= LOST_ALONE


def _is_wrong(view: UnderlayView, node: Node, entry: Neighbour, macs: tuple[str, ...]) -> bool:
    """A permanent entry with a MAC that the node does not advertise; a router's may be meant while it works."""
    link = view.snapshot.link(entry.dev)
    # A device without ARP (ipvlan in L3 mode) has its own MAC for everybody.
    is_made = link is not None and entry.lladdr == link.lladdr
    if not entry.is_permanent or is_made or entry.lladdr in macs:
        return False
    is_routers = any(each.lladdr == entry.lladdr for each in _gateways(view))
    return node.name in view.suspects or not is_routers


def _gateways(view: UnderlayView) -> Iterator[Neighbour]:
    ways = {(route.dev, route.via) for route in view.snapshot.default_routes if route.via}
    yield from (each for each in view.neighbours if each.lladdr and (each.dev, each.address) in ways)


def _wrong_gateways(view: UnderlayView) -> Iterator[AuditFinding]:
    """A gateway advertises nothing: ARP tells where it is, and whether anybody knows its address at the entry's MAC."""
    for entry in _gateways(view):
        answers = _all(view, entry.address)
        is_elsewhere = bool(answers.macs) and entry.lladdr not in answers.macs
        if entry.is_permanent and is_elsewhere and not answers.heard_alone:
            # As a fault of the whole device: all other LANs are behind it.
            yield AuditFinding(
                code=FaultCode.NEIGHBOUR_WRONG,
                device=entry.dev,
                subject=entry.dev,
                culprit=view.node,
                because=(
                    f"{entry.dev} of {view.node} has the gateway {entry.address} at {entry.lladdr} for good",
                    f"ARP is answered by {', '.join(answers.macs)}",
                ),
            )


def _finding(code: FaultCode, node: Node, device: str, *because: str, culprit: str = "") -> AuditFinding:
    return AuditFinding(
        code=code,
        device=device,
        subject=node.node_ip,
        peer=node.name,
        culprit=culprit or node.name,
        because=because,
    )


def _named(macs: Iterable[str], advertised_by: Mapping[str, tuple[str, ...]]) -> str:
    """MACs, each with the node that advertises it."""
    holders = {mac: name for name, own in advertised_by.items() for mac in own}
    return ", ".join(f"{mac} ({holders[mac]})" if mac in holders else mac for mac in macs)
