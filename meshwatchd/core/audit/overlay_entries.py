"""Compares what an overlay device holds with what it should hold.

`audit` looks once, and `confirmation` waits until a finding has stood for its time.

    FDB entry gone                    -> fdb-entry-missing
    device taken down and up          -> overlay-emptied          (not one finding for each route and neighbour)
    own MAC changed, neighbours gone  -> vtep-mac-changed          (the kernel flushes them with the MAC)
    neighbour and FDB agree, and the  -> vtep-mac-changed          at the peer: it has another MAC than flannel wrote
      peer says something else
    MTU less than flannel made it     -> mtu-misconfigured         peers send what its answers do not fit into
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network

import msgspec

from meshwatchd.core.audit.daemon_routes import audit_hops
from meshwatchd.core.audit.device_sizes import shrunk_devices
from meshwatchd.core.audit.expected_entries import Expected, is_understood
from meshwatchd.core.audit.native_route import audit_native
from meshwatchd.core.audit.overlay_setup import audit_setup
from meshwatchd.core.audit.route_loops import looped_routes
from meshwatchd.core.audit.switch_ports import audit_switch
from meshwatchd.core.audit.view import View
from meshwatchd.core.audit.wireguard_losses import has_lost_tunnel
from meshwatchd.model.audit import MAIN_TABLE, AuditFinding, Entries
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.snapshot import DeviceRoute, Forwarding, Link, Neighbour, Snapshot


def audit(view: View) -> tuple[AuditFinding, ...]:
    """Everything about the overlay device that is not as it should be, consequences included."""
    device = view.mesh.overlay_device
    link = view.snapshot.link(device)
    setup = [*audit_setup(link, view.mesh, view.node, view.hellos)] if link is not None and link.is_up else []
    if not is_understood(link, device):
        return (*setup, *audit_native(view), *audit_hops(view), *audit_switch(view))
    expectations = view.expectations()
    present, peers = expectations.present, expectations.peers()
    wanted = _everything(peers, expectations.remembered(), device)
    index = _Index(present, view.snapshot)
    if link is None:
        if has_lost_tunnel(view.snapshot, view.mesh, view.good):
            return ()  # it went with the device below it, which is told (core.audit.wireguard_losses)
        return _device_finding(view, FaultCode.OVERLAY_DEVICE_MISSING, f"there is no device {device}", Entries())
    if not link.is_up:
        (down,) = _device_finding(view, FaultCode.OVERLAY_DEVICE_DOWN, f"{device} is administratively down", wanted)
        return (_with_dead_ends(down, index),)
    own_mac, emptied = [*_own_mac(view, link.lladdr, present, wanted)], [*_emptied(view, index, peers, wanted)]
    if bare := [*_without_address(view, link)]:
        told = (*bare[0].because, *(each for finding in emptied for each in finding.because))
        emptied = [msgspec.structs.replace((emptied or bare)[0], because=told)]
    if own_mac and emptied:
        return (_made_anew(own_mac[0], emptied[0]), *setup)
    found = [*own_mac, *emptied, *shrunk_devices(view, link), *setup]
    for peer in peers:
        found += _audit_peer(view, index, peer)
    return (*found, *looped_routes(view))


class _Index:
    """What is there, by what it is looked up by: a large mesh has ten thousand peers.

    Attributes:
        entries: of the device.
        neighbours: by address.
        forwarding: by MAC.
        rivals: IPv4 routes of the main table into any device of the mesh, by prefix.
        dead_ends: IPv4 routes of the main table at which packets end, by prefix.
    """

    def __init__(self, entries: Entries, snapshot: Snapshot) -> None:
        self.entries = entries
        self.neighbours = {each.address: each for each in reversed(entries.neighbours)}
        self.forwarding = {each.lladdr: each for each in reversed(entries.forwarding)}
        self.rivals: dict[str, list[DeviceRoute]] = {}
        for route in snapshot.device_routes:
            if route.table == MAIN_TABLE and ":" not in route.dst:
                self.rivals.setdefault(route.dst, []).append(route)
        self.dead_ends: dict[str, list[DeviceRoute]] = {}
        for route in snapshot.dead_ends:
            self.dead_ends.setdefault(route.dst, []).append(route)

    def in_the_way(self, wanted: Iterable[DeviceRoute]) -> Entries:
        """Dead ends that have the place of a wanted route, or are taken before it."""
        found = (end for each in wanted for end in self.dead_ends.get(each.dst, ()) if end.metric <= each.metric)
        return Entries(routes=tuple(found))


def _everything(peers: Iterable[Expected], remembered: Entries, device: str) -> Entries:
    """What the device should hold in all: flannel's entries of peers that no route leads to are among it."""
    every = [peer.entries(device) for peer in peers]
    return remembered.joined(
        Entries(
            neighbours=tuple(each for entries in every for each in entries.neighbours),
            forwarding=tuple(each for entries in every for each in entries.forwarding),
            routes=tuple(each for entries in every for each in entries.routes),
        )
    )


def _device_finding(view: View, code: FaultCode, because: str, wanted: Entries) -> tuple[AuditFinding, ...]:
    """A device that was never there is nobody's loss."""
    device = view.mesh.overlay_device
    was_there = device in (view.seen_device, view.good.device if view.good is not None else "")
    if code is FaultCode.OVERLAY_DEVICE_MISSING and not was_there:
        return ()
    return (
        AuditFinding(code=code, device=device, subject=device, culprit=view.node, because=(because,), wanted=wanted),
    )


def _own_mac(view: View, lladdr: str, present: Entries, wanted: Entries) -> Iterator[AuditFinding]:
    """The own MAC, where the change has flushed neighbours: flannel itself would have written them again."""
    good, device = view.good, view.mesh.overlay_device
    if good is None or good.device != device or not good.lladdr or good.lladdr == lladdr:
        return
    if not wanted.without(present).neighbours:
        return
    yield AuditFinding(
        code=FaultCode.VTEP_MAC_CHANGED,
        device=device,
        subject=device,
        culprit=view.node,
        because=(
            f"{device} has the MAC {lladdr}, while all was well it was {good.lladdr}",
            "its permanent neighbours are gone, as the kernel flushes them with a change of the MAC",
        ),
        found=present.at(wanted),
        wanted=Entries(neighbours=wanted.neighbours),
    )


def _made_anew(own_mac: AuditFinding, emptied: AuditFinding) -> AuditFinding:
    """Another MAC and no entries: one finding, for half of a repair would look like many faults of single peers.

    Its name is that of the MAC, which is what the others find wrong as well.
    """
    changed = own_mac.because[0]
    return msgspec.structs.replace(emptied, code=own_mac.code, because=(changed, *emptied.because))


def _with_dead_ends(finding: AuditFinding, index: _Index) -> AuditFinding:
    """The finding with the dead ends in the place of routes that are to be put; the inverse brings them back."""
    unwanted = index.in_the_way(finding.wanted.routes)
    return msgspec.structs.replace(finding, found=finding.found.joined(unwanted), unwanted=unwanted)


def _emptied(view: View, index: _Index, peers: tuple[Expected, ...], wanted: Entries) -> Iterator[AuditFinding]:
    """Not one of several peers has its neighbour or its route; of a lone peer its FDB entry is gone as well."""
    device = view.mesh.overlay_device
    kept = index.entries.at(wanted)
    # Peers that still know this node ask it by ARP, and the kernel learns them: such entries are nobody's doing.
    is_neighbourless = not any(each.is_permanent for each in kept.neighbours)
    is_empty = bool(wanted.neighbours and wanted.routes) and is_neighbourless and not kept.routes
    if not is_empty or (len(peers) < 2 and kept.forwarding):
        return
    emptied = AuditFinding(
        code=FaultCode.OVERLAY_EMPTIED,
        device=device,
        subject=device,
        culprit=view.node,
        because=(
            f"{device} is up and has neither route nor neighbour of any of {len(peers)} peers",
            f"its FDB has {len(kept.forwarding)} of {len(wanted.forwarding)} entries",
        ),
        found=kept,
        wanted=wanted,
    )
    yield _with_dead_ends(emptied, index)


def _without_address(view: View, link: Link) -> Iterator[AuditFinding]:
    """With its last address a device loses routes and neighbours; put back alone, nobody answers for the address."""
    good = view.good
    if good is None or good.index != link.index or link.addresses or not good.addresses:
        return
    because = (
        f"{link.name} has lost its address {good.addresses[0]}, and what the kernel takes away with it",
        f"run: ip address add {good.addresses[0]}/32 dev {link.name}; it is not put back by itself",
    )
    yield AuditFinding(
        code=FaultCode.OVERLAY_EMPTIED, device=link.name, subject=link.name, culprit=view.node, because=because
    )


def _audit_peer(view: View, present: _Index, peer: Expected) -> Iterator[AuditFinding]:
    yield from _audit_link_layer(view, present, peer)
    if peer.route is not None:
        yield from _audit_route(view, present, peer, peer.route)


def _audit_link_layer(view: View, present: _Index, peer: Expected) -> Iterator[AuditFinding]:
    entries = peer.entries(view.mesh.overlay_device)
    if not entries.neighbours:
        return
    (wanted,) = entries.neighbours
    neighbour = present.neighbours.get(peer.gateway)
    if neighbour is not None and _is_followed(neighbour, present, peer):
        yield _peer_mac(view, present.entries, peer, neighbour)
        return
    code, because = _judge_neighbour(neighbour, wanted, peer)
    if code is not None:
        yield _finding(
            view,
            code,
            peer,
            subject=peer.gateway,
            because=(because, peer.mac_source),
            found=Entries(neighbours=(neighbour,) if neighbour is not None and neighbour.lladdr else ()),
            wanted=Entries(neighbours=(wanted,)),
        )
    for forwarding in entries.forwarding:
        yield from _audit_forwarding(view, present, peer, forwarding)


def _is_followed(neighbour: Neighbour, present: _Index, peer: Expected) -> bool:
    """Whether neighbour and FDB agree with each other on a MAC that the peer itself denies."""
    if not peer.is_mac_told or neighbour.lladdr in ("", peer.mac):
        return False
    found = (each for each in present.entries.forwarding if each.lladdr == neighbour.lladdr)
    return any(each.dst == peer.vtep for each in found)


def _peer_mac(view: View, present: Entries, peer: Expected, neighbour: Neighbour) -> AuditFinding:
    entries = peer.entries(view.mesh.overlay_device)
    wanted = Entries(neighbours=entries.neighbours, forwarding=entries.forwarding)
    return _finding(
        view,
        FaultCode.VTEP_MAC_CHANGED,
        peer,
        subject=peer.gateway,
        because=(f"neighbour and FDB of {peer.gateway} have {neighbour.lladdr}", peer.mac_source),
        found=present.at(wanted),
        wanted=wanted,
        culprit=peer.node,
    )


def _judge_neighbour(neighbour: Neighbour | None, wanted: Neighbour, peer: Expected) -> tuple[FaultCode | None, str]:
    if neighbour is None or not neighbour.lladdr:
        return FaultCode.NEIGHBOUR_MISSING, f"{peer.gateway} has no link-layer address on {wanted.dev}"
    if neighbour.lladdr != wanted.lladdr:
        return FaultCode.NEIGHBOUR_WRONG_MAC, f"{peer.gateway} has {neighbour.lladdr} on {wanted.dev}"
    if not neighbour.is_permanent:
        return FaultCode.NEIGHBOUR_NOT_PERMANENT, f"{peer.gateway} has the right MAC, which is not permanent"
    return None, ""


def _audit_forwarding(view: View, present: _Index, peer: Expected, wanted: Forwarding) -> Iterator[AuditFinding]:
    there = present.forwarding.get(wanted.lladdr)
    if there == wanted:
        return
    code = FaultCode.FDB_ENTRY_MISSING if there is None else FaultCode.FDB_ENTRY_WRONG
    claim = "reports that it is at" if peer.is_moved else "is at"
    say = f"{wanted.dev} has no entry of {wanted.lladdr}"
    if there is not None:
        say = f"{wanted.dev} has {wanted.lladdr} behind {there.dst}"
    found = _finding(
        view,
        code,
        peer,
        subject=wanted.lladdr,
        because=(say, f"{peer.node or peer.gateway} {claim} {wanted.dst}", peer.mac_source),
        found=Entries(forwarding=(there,) if there is not None else ()),
        wanted=Entries(forwarding=(wanted,)),
    )
    yield msgspec.structs.replace(found, is_move=peer.is_moved)


def _audit_route(view: View, present: _Index, peer: Expected, wanted: DeviceRoute) -> Iterator[AuditFinding]:
    dead_ends = present.dead_ends.get(wanted.dst, ())
    exact = sorted((*present.rivals.get(wanted.dst, ()), *dead_ends), key=lambda each: each.metric)
    if exact and exact[0].dev == wanted.dev:
        first = {each.via for each in exact if (each.dev, each.metric) == (wanted.dev, exact[0].metric)}
        if peer.node and wanted.via not in first:
            yield _misled(view, peer, exact[0], wanted)
        return
    if exact and exact[0].kind:
        # Nobody's traffic follows such a route, so that it can be taken out of the way.
        missing = _finding(
            view,
            FaultCode.POD_ROUTE_MISSING,
            peer,
            subject=wanted.dst,
            because=(f"packets to {wanted.dst} end at a {exact[0].kind} route, which stands before {wanted.dev}",),
            found=Entries(routes=tuple(each for each in exact if each == wanted)),
            wanted=Entries(routes=(wanted,)),
        )
        yield _with_dead_ends(missing, present)
        return
    if exact:
        because = f"{wanted.dst} leads into {exact[0].dev}, not into {wanted.dev}"
        # Whoever made that route has the say over it: two writers of one route never agree.
        yield _finding(
            view,
            FaultCode.POD_ROUTE_ESCAPED,
            peer,
            subject=wanted.dst,
            because=(because,),
            found=Entries(routes=(exact[0],)),
            wanted=Entries(),
        )
        return
    rivals = (each for listed in present.rivals.values() for each in listed)
    wider = [each for each in rivals if each.dev != wanted.dev and _covers(each.dst, wanted.dst)]
    code = FaultCode.POD_ROUTE_ESCAPED if wider else FaultCode.POD_ROUTE_MISSING
    tail = tuple(f"packets to it follow {each.dst} into {each.dev}" for each in wider[:1])
    yield _finding(
        view,
        code,
        peer,
        subject=wanted.dst,
        because=(f"there is no route to {wanted.dst} into {wanted.dev}", *tail),
        found=Entries(),
        wanted=Entries(routes=(wanted,)),
    )


def _misled(view: View, peer: Expected, there: DeviceRoute, wanted: DeviceRoute) -> AuditFinding:
    """A route to somebody else's gateway: packets arrive where that node forwards them, and at its mercy.

    Somebody made it, and nobody's route is fought over.
    """
    way = f"via {there.via}" if there.via else "without a gateway"
    return _finding(
        view,
        FaultCode.POD_ROUTE_MISSING,
        peer,
        subject=wanted.dst,
        because=(f"{wanted.dst} leads {way} into {wanted.dev}, the gateway of {peer.node} is {wanted.via}",),
        found=Entries(routes=(there,)),
        wanted=Entries(),
    )


def _covers(wide: str, narrow: str) -> bool:
    """Whether a prefix holds another; the default route is nobody's escape into the mesh."""
    outer, inner = ip_network(wide), ip_network(narrow)
    return outer.prefixlen > 0 and outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _finding(
    view: View,
    code: FaultCode,
    peer: Expected,
    *,
    subject: str,
    because: tuple[str, ...],
    found: Entries,
    wanted: Entries,
    culprit: str = "",
) -> AuditFinding:
    return AuditFinding(
        code=code,
        device=view.mesh.overlay_device,
        subject=subject,
        peer=peer.node,
        culprit=culprit or view.node,
        because=tuple(each for each in because if each),
        found=found,
        wanted=wanted,
    )
