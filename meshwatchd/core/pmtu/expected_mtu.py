"""What the devices promise: the size each layer should carry, and devices that promise more than they can hold.

    overlay   inner frame + VXLAN + UDP + IP     50 bytes, 70 over IPv6
    WireGuard header, tag, UDP and IP            60 bytes, 80 over IPv6
    IPIP      IP                                 20 bytes
    Open vSwitch  by the tunnel of the switch    `model.open_vswitch`

WireGuard pads to 16 bytes, but never beyond its device's MTU: a packet of full size is not padded, and every shorter
one stays below it (encrypt_packet() in drivers/net/wireguard/send.c). So the overhead of the largest is that of all.

A relay's far side cannot be seen from here: its devices are taken to be like the own ones. Where they are smaller, the
measurement says so.
"""

from __future__ import annotations

import msgspec

from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.cluster_mesh import ENCRYPTION
from meshwatchd.model.ids import Layer
from meshwatchd.model.mtu import MAX_BYTES, SizePlan
from meshwatchd.model.open_vswitch import outer_bytes
from meshwatchd.model.snapshot import Link, Snapshot

VXLAN_BYTES, WIREGUARD_BYTES, IPIP_BYTES = 50, 60, 20
IP6_EXTRA_BYTES = 20
"""IPv6's header is that much longer than IPv4's."""


class Misfit(msgspec.Struct, frozen=True):
    """A device whose MTU is more than what is below it carries in one piece.

    Attributes:
        layer: of the device.
        carries_bytes: the number to configure.
    """

    layer: Layer
    device: str
    mtu_bytes: int
    carries_bytes: int


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of one node's layers; 0 where nothing tells.

    Attributes:
        underlay, wireguard, overlay, ipip, standby: what each carries in one piece.
        wireguard_device, overlay_device: what the devices let through, which may be more.
        misfits: the devices for which it is.
    """

    underlay: int = 0
    wireguard: int = 0
    overlay: int = 0
    ipip: int = 0
    standby: int = 0
    wireguard_device: int = 0
    overlay_device: int = 0
    misfits: tuple[Misfit, ...] = ()

    def expected(self, plan: SizePlan, planner: Planner) -> tuple[int, int]:
        """What a path should carry in one piece, and what may be sent over it; 0, 0 where nothing tells."""
        if plan.may_fragment:
            # Two fragments: longer than the underlay takes, and short enough for every reflector.
            size = self.underlay + FRAGMENT_BYTES if self.underlay else 0
            return min(size, MAX_BYTES), min(size, MAX_BYTES)
        steps = self._steps(plan, planner)
        sizes = [fits for fits, _ in steps if fits], [may for _, may in steps if may]
        return min((*sizes[0], MAX_BYTES)) if sizes[0] else 0, min((*sizes[1], MAX_BYTES)) if sizes[1] else 0

    def _steps(self, plan: SizePlan, planner: Planner) -> list[tuple[int, int]]:
        """(carried, let through) of each device on the way."""
        overlay = self.overlay, self.overlay_device or self.overlay
        match plan.layer:
            case Layer.UNDERLAY:
                return [(self.underlay, self.underlay)]
            case Layer.OVERLAY:
                return [overlay]
            case Layer.IPIP:
                return [(self.ipip, self.ipip)]
            case Layer.WIREGUARD:
                return [(self.wireguard, self.wireguard_device)]
            case _:
                return self._way(plan, planner, overlay)

    def _way(self, plan: SizePlan, planner: Planner, overlay: tuple[int, int]) -> list[tuple[int, int]]:
        topology = planner.topology
        path = planner.path(plan.path)
        here, there = topology.local.location, path.other_location(topology.local.location)
        is_crossing = path.relay_in(here) != topology.local_node, path.relay_in(there) != plan.peer
        tunnel = (self.wireguard, self.wireguard_device) if path.is_primary else (self.standby, self.standby)
        inside = [overlay, (self.ipip, self.ipip)]
        below = [] if topology.is_on_underlay else [tunnel]
        return [*below, *(inside if any(is_crossing) or topology.is_overlay_direct else ())]


FRAGMENT_BYTES = 300
"""By how much a probe that tests fragments exceeds the underlay's MTU."""


def read_stack(snapshot: Snapshot, planner: Planner) -> Stack:
    """The sizes as this node's devices have them."""
    topology, settings = planner.topology, planner.settings
    wireguard, overlay = snapshot.link(topology.wireguard_device), snapshot.link(topology.overlay_device)
    underlay = _mtu(_with_address(snapshot, topology.local.node_ip))
    carrier = _mtu(_below_tunnel(snapshot, planner))
    below_tunnel = carrier - WIREGUARD_BYTES - _extra(snapshot, topology.wireguard_device) if carrier else 0
    tunnel_mtu = _mtu(wireguard) or settings.standby.mtu
    tunnel = _least(tunnel_mtu, below_tunnel)
    if topology.carrier and not topology.wireguard_device:
        tunnel_mtu = tunnel = underlay  # the host mesh is what joins the nodes
    is_over_tunnel = _is_over_tunnel(snapshot, planner)
    lower = _least(underlay, _encryption(snapshot)) if topology.is_clustered else tunnel if is_over_tunnel else underlay
    # The port of a switch is no tunnel itself: what leaves by it goes to other nodes by the tunnel of the switch.
    switch = outer_bytes(snapshot, topology.overlay_device)
    below_overlay = lower - (switch or VXLAN_BYTES) if lower else 0
    own_overlay = _with_address(snapshot, topology.local.overlay_ip)
    overlay_mtu = _least(_mtu(own_overlay) or _mtu(overlay), below_overlay)
    # A device without the overlay's address is no tunnel to one peer: Cilium's MTU is that of its routes.
    is_plain = overlay is not None and (overlay.kind == "vxlan" or switch > 0) and overlay == own_overlay
    ipip = snapshot.link(settings.mesh.ipip_device) if settings.mesh.ipip_device else None
    misfits = (
        *_misfit(Layer.WIREGUARD, wireguard, below_tunnel, is_used=wireguard is not None and wireguard.is_up),
        *_misfit(Layer.OVERLAY, overlay, below_overlay, is_used=is_plain),
    )
    return Stack(
        underlay=underlay,
        wireguard=tunnel,
        overlay=overlay_mtu,
        ipip=_least(_mtu(ipip), overlay_mtu - IPIP_BYTES if overlay_mtu else 0) if ipip is not None else 0,
        standby=_least(settings.standby.mtu, below_tunnel),
        wireguard_device=tunnel_mtu,
        overlay_device=_mtu(overlay) if is_plain else overlay_mtu,
        misfits=misfits,
    )


def _misfit(layer: Layer, link: Link | None, below: int, *, is_used: bool) -> tuple[Misfit, ...]:
    if link is None or not is_used or not below or link.mtu_bytes <= below:
        return ()
    return (Misfit(layer, link.name, link.mtu_bytes, below),)


def _below_tunnel(snapshot: Snapshot, planner: Planner) -> Link | None:
    """The device under the tunnel: what the routes to its peers say, else the one with the node's own address.

    Where the tunnel has that address, or nothing has it, the default route decides.
    """
    tunnel = planner.topology.wireguard_device
    found = _with_address(snapshot, planner.topology.local.node_ip)
    if snapshot.lookups or (found is not None and found.name == tunnel):
        return snapshot.underlay(tunnel)
    return found


def _with_address(snapshot: Snapshot, address: str) -> Link | None:
    return next((link for link in snapshot.links if address in link.addresses), None)


def _mtu(link: Link | None) -> int:
    return link.mtu_bytes if link is not None else 0


def _least(device: int, below: int) -> int:
    """The smaller of two sizes of which one may be unknown."""
    return min(device, below) if device and below else device or below


def _encryption(snapshot: Snapshot) -> int:
    """What Cilium's own WireGuard takes, which its VXLAN goes through where it encrypts; 0 where it does not."""
    link = snapshot.link(ENCRYPTION)
    return link.mtu_bytes if link is not None and link.is_up else 0


def _extra(snapshot: Snapshot, device: str) -> int:
    """What IPv6 endpoints cost beside IPv4 ones."""
    peers = [peer for state in snapshot.wireguard if state.device == device for peer in state.peers]
    return IP6_EXTRA_BYTES if any(peer.endpoint.startswith("[") for peer in peers) else 0


def _is_over_tunnel(snapshot: Snapshot, planner: Planner) -> bool:
    """Whether the overlay's packets cross the WireGuard device: its FDB points to addresses of that network."""
    tunnel = {node.wireguard_ip for node in planner.topology.mesh.nodes if node.wireguard_ip}
    device = planner.topology.overlay_device
    return any(entry.dst in tunnel for entry in snapshot.forwarding if entry.dev == device)
