"""What a node has lost of its WireGuard: the device of the mesh, or a peer of it that is a node of the mesh.

    wg-quick down wg0            -> wireguard-device-missing    (flannel.1, bound to wg0, is gone with it)
    ip link set wg0 down         -> wireguard-device-missing
    ip addr del 10.4.0.1/16 dev wg0 -> wireguard-device-missing (the kernel deletes all routes into wg0 with it)
    wg set wg0 peer KEY remove   -> wireguard-peer-missing
    wg set wg0 peer KEY allowed-ips ""   the same: WireGuard sends nothing to it, and takes nothing from it

Both show only against what was there while all was well. A peer whose prefixes another one has is no loss: its key was
exchanged, or its prefixes were taken (core.audit.wireguard). Neither is one whose node has left the mesh, nor one that
the mesh's own agent has taken away: Kilo drops a node that was silent for a minute, with all routes to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from meshwatchd.core.audit.allowed_prefixes import MAX_TOLD, is_peer_of
from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.native_peers import Known, advice
from meshwatchd.core.audit.native_route import is_native
from meshwatchd.model.audit import MAIN_TABLE, AuditFinding
from meshwatchd.model.discovery import Hello
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.mesh_profile import FLANNEL_WIREGUARD, Trait, traits_of
from meshwatchd.model.prefixes import covers
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, WireGuardPeer, WireGuardState
from meshwatchd.model.topology import Node


def has_lost_tunnel(snapshot: Snapshot, mesh: MeshSettings, good: GoodState | None) -> bool:
    """Whether the overlay device has lost the WireGuard device that it was bound to."""
    return good is not None and good.is_over_tunnel and snapshot.link(mesh.wireguard_device) is None


def with_unread(state: GoodState, good: GoodState | None, device: str) -> GoodState:
    """What is there, and how the mesh's WireGuard device was while all was well where it gives no answer at present.

    It would be forgotten else, and a peer that it loses meanwhile be missed by nobody once it is read again.
    """
    is_same = good is not None and good.tunnel_index == state.tunnel_index != 0
    if good is None or not is_same or any(each.device == device for each in state.wireguard):
        return state
    was = (each for each in good.wireguard if each.device == device)
    known = sorted((*state.wireguard, *was), key=attrgetter("device"))
    return msgspec.structs.replace(state, wireguard=tuple(known))


def look_for_losses(
    snapshot: Snapshot,
    running: Iterable[WireGuardState],
    *,
    mesh: MeshSettings,
    node: str,
    good: GoodState | None,
    hellos: Mapping[str, Hello] = MappingProxyType({}),
    unheard: Collection[str] = (),
) -> Iterator[AuditFinding]:
    """What is gone of the mesh's WireGuard device; nothing where it is not known how it was.

    Args:
        snapshot: of the kernel.
        running: WireGuard devices that are up.
        mesh: names the device and the nodes.
        node: this node.
        good: how all was while it was well, or None.
        hellos: what nodes say of themselves, by name.
        unheard: names of nodes that are taken for dead (`View.unheard`).
    """
    device = mesh.wireguard_device
    was = next((each for each in good.wireguard if each.device == device), None) if good is not None else None
    if was is None or good is None:
        return
    # On a node that leads no location Kilo's device is down, and carries nothing.
    is_needed = good.is_over_tunnel or node in {location.leader for location in mesh.location}
    if is_needed and snapshot.link(device) is None:
        because = (
            f"there is no device {device}, which was there while all was well, with {len(was.peers)} peers",
            *((f"{good.device} was bound to it and is gone with it",) if _is_gone(snapshot, good) else ()),
        )
        yield AuditFinding(
            code=FaultCode.WIREGUARD_DEVICE_MISSING, device=device, subject=device, culprit=node, because=because
        )
    elif good.is_over_tunnel or (good.device == device != FLANNEL_WIREGUARD):
        # Who may be down is Kilo's device, on members; flannel's own is `overlay-device-down`.
        yield from _down(snapshot.link(device), node)
    yield from _bare(snapshot, snapshot.link(device), good, node)
    for state in running:
        if state.device == device:
            known = Known(state=state, was=was, mesh=mesh, node=node, hellos=hellos)
            yield from _lost_peers(known, was, _Around(_routed(snapshot, mesh), unheard))


def _down(link: Link | None, node: str) -> Iterator[AuditFinding]:
    if link is not None and not link.is_up:
        because = (
            f"{link.name} is administratively down, and no route into it is left",
            f"run: ip link set dev {link.name} up; then put the routes into it back, as wg-quick or its owner does",
        )
        yield AuditFinding(
            code=FaultCode.WIREGUARD_DEVICE_MISSING, device=link.name, subject=link.name, culprit=node, because=because
        )


def _bare(snapshot: Snapshot, link: Link | None, good: GoodState, node: str) -> Iterator[AuditFinding]:
    """The device is up as it was, and neither an address of it nor a route into it is left.

    With the last IPv4 address the kernel deletes all routes into the device, in every table, and reports none of them.
    A device that never had an address, one that was made anew, and one that routes lead into without any address are
    somebody's decision; so is an address that is on another device now, and a mesh that goes on with IPv6 alone. Where
    not all routes are known, none is missed. The loss of the address of flannel's own device is told by its route.
    """
    if link is None or not link.is_up or link.index != good.tunnel_index or snapshot.is_bounded:
        return
    if link.addresses or link.addresses_v6:
        return
    held = {address for each in snapshot.links for address in each.addresses}
    is_routed = any(each.dev == link.name and not _is_kernels(each) for each in snapshot.device_routes)
    if not good.tunnel_addresses or is_routed or link.name == FLANNEL_WIREGUARD or held & {*good.tunnel_addresses}:
        return
    remedy = f"restart Kilo's agent there, or run wg-quick down {link.name}, then wg-quick up {link.name}"
    because = (
        f"{link.name} has no IPv4 address, and while all was well it had {', '.join(good.tunnel_addresses)}",
        f"no route into {link.name} is left: the kernel deletes them with the last address",
        f"have the owner of {link.name} write address and routes anew: {remedy}",
    )
    yield AuditFinding(
        code=FaultCode.WIREGUARD_DEVICE_MISSING, device=link.name, subject=link.name, culprit=node, because=because
    )


def _is_kernels(route: DeviceRoute) -> bool:
    """Whether each device that is up has such a route, whoever uses it: link-local and multicast prefixes of IPv6."""
    return route.dst.startswith(("fe80:", "ff00:"))


def _is_gone(snapshot: Snapshot, good: GoodState) -> bool:
    return good.is_over_tunnel and snapshot.link(good.device) is None


def _routed(snapshot: Snapshot, mesh: MeshSettings) -> frozenset[str] | None:
    """What is routed into the device where the mesh's agent takes routes away with a peer; else None."""
    if Trait.REPLACES_ROUTES not in traits_of((mesh.profile,), mesh.traits):
        return None
    routes = (each for each in snapshot.device_routes if each.dev == mesh.wireguard_device)
    return frozenset(each.dst for each in routes if each.table == MAIN_TABLE and ":" not in each.dst)


class _Around(NamedTuple):
    """What is routed into the device, None where no agent takes peers away; and who is taken for dead."""

    routed: frozenset[str] | None
    unheard: Collection[str]


def _is_dropped(peer: WireGuardPeer, lost: Node, known: Known, around: _Around) -> bool:
    """Whether no route leads to a peer any more; the one to all tunnel addresses is the device's own, and stays.

    A device without any peer was emptied, unless all of that location are taken for dead.
    """
    if around.routed is None:
        return False
    tunnel = f"{lost.wireguard_ip}/32" if lost.wireguard_ip != lost.node_ip else ""
    prefixes = [each for each in peer.allowed_ips if ":" not in each and each != tunnel]
    has_others = any(each.allowed_ips for each in known.state.peers)
    are_dead = all(each.name in around.unheard for each in known.mesh.node if each.location == lost.location)
    return (has_others or are_dead) and not any(covers(dst, each) for dst in around.routed for each in prefixes)


def _lost_peers(known: Known, was: WireGuardState, around: _Around) -> Iterator[AuditFinding]:
    state, node = known.state, known.node
    # Where pods are routed straight into the tunnel each prefix is looked for (core.audit.native_peers).
    present = {peer.public_key for peer in state.peers if peer.allowed_ips or is_native(known.mesh)}
    bare = {peer.public_key for peer in state.peers} - present
    taken = {prefix for peer in state.peers for prefix in peer.allowed_ips}
    for peer in was.peers:
        if peer.public_key in present or not taken.isdisjoint(peer.allowed_ips):
            continue
        lost = next((each for each in known.mesh.node if is_peer_of(each, peer)), None)
        if lost is not None and lost.name != node and not _is_dropped(peer, lost, known, around):
            yield AuditFinding(
                code=FaultCode.WIREGUARD_PEER_MISSING,
                device=state.device,
                subject=peer.public_key,
                peer=lost.name,
                culprit=node,
                because=(
                    f"peer {peer.public_key} of {state.device}, which is {lost.name}, has lost all its AllowedIPs"
                    if peer.public_key in bare
                    else f"{state.device} has no peer {peer.public_key}, which was {lost.name} while all was well",
                    f"no other peer has its prefixes: {', '.join(peer.allowed_ips[:MAX_TOLD])}",
                    *advice(known, peer.public_key, lost),
                ),
            )
