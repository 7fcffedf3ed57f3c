"""What an overlay device should hold, without asking Kubernetes.

The three entries of a peer are redundant, so that any one can be told from the others:

    route       PODS via GATEWAY           neighbour   GATEWAY -> MAC           FDB   MAC -> NODE

and beside the kernel there are three witnesses, believed in this order:

    1. the peer's own hello while it lives: its gateway, the MAC of its device, its pods, its address
    2. the kernel, where neighbour and FDB agree with each other: flannel writes both when a peer changes
    3. the last good state: what was there while probes were answered

A peer that none of them has ever seen here is expected nowhere: what was never good is not put back. Neither is a peer
that flannel itself has removed, with all three entries at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from meshwatchd.core.audit.peer_pairs import Pair, is_rewritten, pairs_of
from meshwatchd.model.audit import MAIN_TABLE, RTPROT_BOOT, Entries
from meshwatchd.model.discovery import Hello
from meshwatchd.model.host_mesh import carrier_of
from meshwatchd.model.mesh_profile import FLANNEL_WIREGUARD, Trait, traits_of
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Forwarding, Link, Neighbour, Snapshot, WireGuardState
from meshwatchd.model.topology import Node

UNDERSTOOD_PREFIX = "flannel"
"""VXLAN devices of other makers look alike and are not: collect-metadata devices have no neighbours, and a bridge
learns by itself."""


class GoodState(msgspec.Struct, frozen=True, kw_only=True):
    """What an overlay device and the WireGuard devices held while all was well.

    Attributes:
        boot: of the kernel it was seen in; after another boot everything may rightly be different.
        lladdr: the device's own MAC.
        index, mtu_bytes: of the device; 0 where an older daemon wrote none. One that was made anew has another index.
        tunnel_index, tunnel_mtu_bytes: the same of the mesh's WireGuard device.
        tunnel_addresses: IPv4, of that device while it was up; none where an older daemon wrote the state.
        is_over_tunnel: the overlay device was bound to the WireGuard device.
        addresses: IPv4, of the overlay device; none where an older daemon wrote the state.
        carrier, carrier_index, carrier_mtu_bytes: of the host mesh's device below; empty and 0 where none is.
    """

    boot: str = ""
    device: str = ""
    lladdr: str = ""
    index: int = 0
    mtu_bytes: int = 0
    tunnel_index: int = 0
    tunnel_mtu_bytes: int = 0
    tunnel_addresses: tuple[str, ...] = ()
    is_over_tunnel: bool = False
    addresses: tuple[str, ...] = ()
    carrier: str = ""
    carrier_index: int = 0
    carrier_mtu_bytes: int = 0
    entries: Entries = Entries()
    wireguard: tuple[WireGuardState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One peer as the device should know it.

    Attributes:
        node: its name, empty where no mesh tells one.
        mac, vtep: empty where nothing tells.
        route: to its pods; None where somebody else has the say over it, as Kilo has over those of other locations.
        mac_source: who says so, for the evidence.
        is_mac_told: the peer itself says so.
        is_moved: the peer itself says that it is at `vtep`, and the device sends to where it was while all was well.
    """

    node: str
    gateway: str
    mac: str
    vtep: str
    route: DeviceRoute | None
    mac_source: str = ""
    is_mac_told: bool = False
    is_moved: bool = False

    def entries(self, device: str) -> Entries:
        """Everything of this peer on the device, as far as it is known."""
        neighbours: tuple[Neighbour, ...] = ()
        forwarding: tuple[Forwarding, ...] = ()
        if self.mac:
            neighbours = (Neighbour(dev=device, address=self.gateway, lladdr=self.mac, is_permanent=True),)
        if self.mac and self.vtep:
            forwarding = (Forwarding(dev=device, lladdr=self.mac, dst=self.vtep),)
        return Entries(
            neighbours=neighbours, forwarding=forwarding, routes=(self.route,) if self.route is not None else ()
        )


def is_understood(link: Link | None, device: str) -> bool:
    """Whether the entries of a device are what this module says they are; nothing is judged or changed elsewhere."""
    is_flannels = device.startswith(UNDERSTOOD_PREFIX) and device != FLANNEL_WIREGUARD
    return is_flannels and (link is None or link.kind == "vxlan")


def home_of(node: str, mesh: MeshSettings) -> str:
    """The location of a node; empty where the mesh does not know it."""
    return next((each.location for each in mesh.node if each.name == node), "")


def is_reached_by_overlay(node: Node, mesh: MeshSettings, home: str) -> bool:
    """Whether overlay devices of a location send to a node; under Kilo only to those of the location itself.

    A node that goes by its WireGuard address is none of Kilo's: there flannel stands on the tunnel.
    """
    is_kept = Trait.REPLACES_ROUTES not in traits_of((mesh.profile,), mesh.traits)
    return is_kept or node.wireguard_ip == node.node_ip or node.location == home


def entries_of(snapshot: Snapshot, device: str) -> Entries:
    """What a device holds: IPv4 only, of routes those of the main table, of neighbours those that were resolved."""
    return Entries(
        neighbours=tuple(n for n in snapshot.neighbours if n.dev == device and n.lladdr and ":" not in n.address),
        forwarding=tuple(each for each in snapshot.forwarding if each.dev == device),
        routes=tuple(
            r for r in snapshot.device_routes if r.dev == device and r.table == MAIN_TABLE and ":" not in r.dst
        ),
    )


class Expectations:
    """The peers of one device.

    Args:
        device: the overlay device.
        present: what it holds.
        mesh: nodes by name and address, complete or not.
        node: this node's name.
        hellos: by name of the node that said it.
        good: what it held while all was well; None before that was known.
        unheard: names of nodes that are taken for dead (`View.unheard`).
        led: prefixes that have a route or a dead end of the main table, by whatever device.
    """

    def __init__(
        self,
        *,
        device: str,
        present: Entries,
        mesh: MeshSettings,
        node: str,
        hellos: Mapping[str, Hello],
        good: GoodState | None,
        unheard: Collection[str] = (),
        led: Collection[str] = (),
    ) -> None:
        self._device = device
        self._mesh = mesh
        self._home = home_of(node, mesh)
        self._local = node
        self._hellos, self._unheard, self._led = hellos, unheard, led
        self._was = good.entries if good is not None and good.device == device else Entries()
        self._nodes = {each.overlay_ip: each for each in mesh.node}
        self._lladdr = {each.address: each.lladdr for each in present.neighbours if each.lladdr}
        self._vtep = {each.lladdr: each.dst for each in present.forwarding}
        self._was_lladdr = {each.address: each.lladdr for each in self._was.neighbours}
        self._was_vtep = {each.lladdr: each.dst for each in self._was.forwarding}
        self._behind: dict[str, list[str]] = {}
        for lladdr, dst in self._vtep.items():
            self._behind.setdefault(dst, []).append(lladdr)
        self._holders: dict[str, list[str]] = {}
        for address, lladdr in self._lladdr.items():
            self._holders.setdefault(lladdr, []).append(address)
        self._routed = {each.via for each in present.routes}
        self.present = present

    def peers(self) -> tuple[Expected, ...]:
        """One for each peer that has or had anything here, by gateway."""
        return tuple(
            self._expect(gateway, self._nodes.get(gateway))
            for gateway in sorted(self._gateways())
            if self._nodes.get(gateway) is None or self._nodes[gateway].name != self._local
        )

    def remembered(self) -> Entries:
        """The permanent neighbours and the FDB of the last good state, without those of peers that were removed."""
        gone = {self._was_lladdr[gateway] for gateway in self._removed if gateway in self._was_lladdr}
        return Entries(
            neighbours=tuple(n for n in self._was.neighbours if n.is_permanent and n.address not in self._removed),
            forwarding=tuple(each for each in self._was.forwarding if each.lladdr not in gone - {*self._holders}),
        )

    def removed_nodes(self) -> frozenset[str]:
        """The nodes of the mesh that are taken for dead and that flannel has removed."""
        return frozenset(
            node.name
            for gateway, node in self._nodes.items()
            if node.name in self._unheard and self._is_ours(node) and self._is_removed(gateway)
        )

    def _gateways(self) -> dict[str, None]:
        return {gateway: None for gateway in self._traces if gateway not in self._removed}

    @cached_property
    def _removed(self) -> frozenset[str]:
        return frozenset(gateway for gateway in self._traces if self._is_removed(gateway))

    @cached_property
    def _traces(self) -> dict[str, None]:
        """Gateways of routes in use, and of pods that flannel itself routes: others carry nothing."""
        used = {each.via: None for each in (*self.present.routes, *self._was.routes) if each.via}
        traces = {*self._lladdr, *self._was_lladdr, *used}
        mine = {each.overlay_ip: None for each in self._mesh.node if each.overlay_ip in traces and self._is_ours(each)}
        return {**used, **mine}

    def _is_removed(self, gateway: str) -> bool:
        """Whether flannel itself has removed a peer: nothing is left of it, and no mesh knows it or it is dead.

        A living node, and one of the mesh that was never heard, is missed. So is a dead one while a single entry of it
        stands, since flannel deletes all three; where no other peer has its entries, since the device was emptied; and
        where its pods are led elsewhere. Not told apart from a removal is a node that lives and is not heard, all of
        whose entries somebody deletes: it is missed again as soon as it is heard.
        """
        node = self._nodes.get(gateway)
        if gateway in self._lladdr or gateway in self._routed or self._has_forwarding(gateway, node):
            return False
        if node is None:
            return bool(self._lladdr)
        return node.name in self._unheard and node.pod_cidr not in self._led and self._has_others

    @cached_property
    def _has_others(self) -> bool:
        """Whether a peer has its entries: the kernel may learn a neighbour by itself, and makes none permanent."""
        permanent = {each.address for each in self.present.neighbours if each.is_permanent}
        return not permanent.isdisjoint(self._routed)

    def _has_forwarding(self, gateway: str, node: Node | None) -> bool:
        """Whether the FDB has an entry of a former peer: by its MAC, else by its address."""
        lladdr = self._was_lladdr.get(gateway) or self._last_mac(gateway, node)
        behind = self._behind.get(node.node_ip, []) if node is not None else []
        found = ([lladdr] if lladdr in self._vtep else []) if lladdr else behind
        return any(not self._is_of_another(each, gateway) for each in found)

    def _last_mac(self, gateway: str, node: Node | None) -> str:
        """The MAC that a node has reported, dead or alive."""
        hello = self._hellos.get(node.name) if node is not None else None
        return hello.view.vtep_mac if hello is not None and hello.view.overlay_ip == gateway else ""

    def _is_of_another(self, lladdr: str, gateway: str) -> bool:
        """Whether a MAC is that of another gateway: a node that got other pods keeps its device, and so its MAC.

        A neighbour that had another MAC while all was well may be wrong, and takes nothing from anybody.
        """
        others = (each for each in self._holders.get(lladdr, ()) if each != gateway)
        return any(self._was_lladdr.get(each, lladdr) == lladdr for each in others)

    def _is_ours(self, node: Node) -> bool:
        """Whether flannel has the say over the route to a node's pods."""
        return is_reached_by_overlay(node, self._mesh, self._home)

    def _expect(self, gateway: str, node: Node | None) -> Expected:
        vtep = self._expected_vtep(gateway, node)
        moved = self._moved_to(gateway, node)
        # Where the entry leads tells the MAC, and the peer's new address is not yet in it.
        mac, source, is_told = self._expected_mac(gateway, node, vtep)
        return Expected(
            node=node.name if node is not None else "",
            gateway=gateway,
            mac=mac,
            vtep=moved or vtep,
            is_moved=bool(moved),
            route=self._expected_route(gateway, node),
            mac_source=source,
            is_mac_told=is_told,
        )

    def _expected_vtep(self, gateway: str, node: Node | None) -> str:
        now = self._vtep.get(self._lladdr.get(gateway, ""), "")
        was = self._was_vtep.get(self._was_lladdr.get(gateway, ""), "")
        told = node.node_ip if node is not None else ""
        if self._is_rewritten(gateway):
            return now
        if was:
            # flannel may have followed a peer to another address: what it wrote is what the peer says of itself.
            return told if told and now == told else was
        # Where a dead node was is no word against where flannel sends.
        is_dead = node is not None and node.name in self._unheard
        if now and now != told and (is_dead or not self._are_vteps_node_addresses(besides=gateway)):
            return now
        return told or now

    def _is_rewritten(self, gateway: str) -> bool:
        """Whether flannel has written another machine in the place of a peer."""
        now, was = self._lladdr.get(gateway), self._was_lladdr.get(gateway)
        if not now or not was or now == was:
            return False
        views = (hello.view for name, hello in self._hellos.items() if name not in self._unheard)
        return is_rewritten(gateway, *self._pairs, gone=self._removed, views=views)

    @cached_property
    def _pairs(self) -> tuple[dict[str, Pair], dict[str, Pair]]:
        return pairs_of(self.present), pairs_of(self._was)

    def _hello_of(self, node: Node | None) -> Hello | None:
        """The word of a living node."""
        return self._hellos.get(node.name) if node is not None and node.name not in self._unheard else None

    def _moved_to(self, gateway: str, node: Node | None) -> str:
        """Another address at which a peer says it is, and is: its hello came from there. Else nothing.

        flannel sends to the address in an annotation, which a node that has moved may not have renewed. Where the mesh
        sends to other addresses than those of nodes, nothing follows from a node's address. One without an overlay
        device, and so without a MAC, has nothing that could be sent to: what it tells is its uplink's address.
        """
        hello = self._hello_of(node)
        if hello is None or not hello.view.node_ip or not hello.view.vtep_mac or hello.view.overlay_ip != gateway:
            return ""
        now = self._vtep.get(self._lladdr.get(gateway, ""), "")
        was = self._was_vtep.get(self._was_lladdr.get(gateway, ""), "")
        is_as_it_was = bool(now) and now == was and now != hello.view.node_ip
        return hello.view.node_ip if is_as_it_was and self._are_vteps_node_addresses(besides=gateway) else ""

    def _are_vteps_node_addresses(self, *, besides: str) -> bool:
        """Whether this mesh sends VXLAN to the addresses that its nodes are known by, to judge by the other peers."""
        others = [node for address, node in self._nodes.items() if address != besides]
        return any(self._vtep.get(self._lladdr.get(node.overlay_ip, ""), "") == node.node_ip for node in others)

    def _expected_mac(self, gateway: str, node: Node | None, vtep: str) -> tuple[str, str, bool]:
        hello = self._hello_of(node)
        if hello is not None and hello.view.vtep_mac and hello.view.overlay_ip == gateway:
            return hello.view.vtep_mac, f"{hello.view.node} reports that its MAC is {hello.view.vtep_mac}", True
        now, was = self._lladdr.get(gateway, ""), self._was_lladdr.get(gateway, "")
        if now and self._vtep.get(now) == vtep:
            return now, f"neighbour and FDB agree on {now}", False
        if was:
            return was, f"while all was well it was {was}", False
        behind = self._behind.get(vtep, [])
        if len(behind) == 1:
            return behind[0], f"the FDB has {behind[0]} behind {vtep}", False
        if not now and (last := self._last_mac(gateway, node)):
            return last, f"{node.name if node is not None else gateway} reported {last} while it was heard", False
        return now, f"the neighbour entry has {now}" if now else "", False

    def _expected_route(self, gateway: str, node: Node | None) -> DeviceRoute | None:
        was = [each for each in self._was.routes if each.via == gateway]
        if node is None:
            return next((each for each in was if each.protocol == RTPROT_BOOT), None)
        if not self._is_ours(node):
            return None
        for each in was:
            if each.dst == node.pod_cidr:
                return each
        return DeviceRoute(
            dst=node.pod_cidr,
            dev=self._device,
            table=MAIN_TABLE,
            protocol=RTPROT_BOOT,
            via=gateway,
            is_onlink=True,
        )


def good_state(snapshot: Snapshot, mesh: MeshSettings, boot: str) -> GoodState:
    """What is there at this moment, to be kept as good."""
    link, tunnel = snapshot.link(mesh.overlay_device), snapshot.link(mesh.wireguard_device)
    carrier = carrier_of(snapshot, mesh.wireguard_device, mesh.overlay_device)
    return GoodState(
        boot=boot,
        device=mesh.overlay_device,
        lladdr=link.lladdr if link is not None else "",
        index=link.index if link is not None else 0,
        mtu_bytes=link.mtu_bytes if link is not None else 0,
        tunnel_index=tunnel.index if tunnel is not None else 0,
        tunnel_mtu_bytes=tunnel.mtu_bytes if tunnel is not None else 0,
        tunnel_addresses=tunnel.addresses if tunnel is not None and tunnel.is_up else (),
        is_over_tunnel=bool(link and tunnel and link.vxlan and link.vxlan.lower == tunnel.index),
        addresses=link.addresses if link is not None and link.vxlan is not None else (),
        carrier=carrier.name if carrier is not None else "",
        carrier_index=carrier.index if carrier is not None else 0,
        carrier_mtu_bytes=carrier.mtu_bytes if carrier is not None else 0,
        entries=entries_of(snapshot, mesh.overlay_device),
        wireguard=tuple(_settled(state) for state in snapshot.wireguard),
    )


def _settled(state: WireGuardState) -> WireGuardState:
    """A WireGuard device without what changes by itself."""
    peers = tuple(msgspec.structs.replace(peer, handshake_ns=0, rx_bytes=0, tx_bytes=0) for peer in state.peers)
    return msgspec.structs.replace(state, at_ns=0, peers=peers)
