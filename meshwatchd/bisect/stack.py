"""What this node's kernel would do with a packet to the peer: its way through devices and tables, one question each.

    route ----> neighbour ----> FDB --------> route of the outer packet --> neighbour
    (overlay)   (overlay)       (overlay)     (underlay)                    (lower device)

What each table should say follows from the mesh: packets for `via` go into the overlay device, to the link layer
address that the frames of `via` come from, and in an outer packet to its node address.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Protocol

import msgspec

from meshwatchd.adapters.tap.questions import NUD_PERMANENT, Device, Forwarding, Hop, Neighbour
from meshwatchd.bisect.leg import Leg
from meshwatchd.bisect.observation import DeviceState, Entry, Finding

CILIUM_HOST = "cilium_host"
"""Where Cilium's routes lead; from there a program hands packets to the overlay device."""
FALLBACK_VXLAN_PORT = 8472


class Questions(Protocol):
    """What is asked of a kernel."""

    def devices(self) -> dict[int, Device]:
        """All devices by index."""

    def hop(self, destination: bytes, source: bytes = b"") -> Hop:
        """Where a packet goes next."""

    def neighbours(self, index: int) -> tuple[Neighbour, ...]:
        """The IPv4 neighbours of a device."""

    def forwarding(self, index: int) -> tuple[Forwarding, ...]:
        """The FDB entries of a VXLAN device."""

    def queue_drops(self, index: int) -> int:
        """Packets that the queues of a device have dropped."""


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """The way of a packet, as far as the kernel knows one.

    Attributes:
        overlay: None where there is no such device.
        ipip: the device that wraps in IPIP before the overlay does, if the route leads into one.
        lower: where outer packets leave; None where they cannot be recognised or nothing tells.
        gateway: next hop on the overlay, packed; the destination itself where there is no gateway.
        neighbour: of the gateway.
        believed_mac: the address that frames to `via` should carry, empty where nothing tells.
        forwarding: where the overlay sends frames with the neighbour's address.
        lower_gateway, lower_mac: next hop of outer packets, and its link layer address if that is known.
    """

    overlay: Device | None = None
    ipip: Device | None = None
    lower: Device | None = None
    route: Hop = Hop()
    gateway: bytes = b""
    neighbour: Neighbour | None = None
    believed_mac: bytes = b""
    forwarding: tuple[bytes, ...] = ()
    underlay_route: Hop = Hop()
    lower_gateway: bytes = b""
    lower_neighbour: Neighbour | None = None

    @property
    def has_tables(self) -> bool:
        """Whether the overlay goes by neighbours and FDB entries, and by no program's word."""
        return self.overlay is not None and self.overlay.kind == "vxlan" and not self.overlay.collects_metadata

    @property
    def vxlan_port(self) -> int:
        """The overlay's UDP port."""
        return (self.overlay.port if self.overlay is not None else 0) or FALLBACK_VXLAN_PORT


def read_stack(kernel: Questions, leg: Leg, *, heard_mac: bytes = b"") -> Stack:
    """Ask the kernel about a leg; the MAC that frames of `via` came from is better than what a table says.

    Raises:
        KernelError: it does not answer.
    """
    devices = kernel.devices()
    overlay = next((device for device in devices.values() if device.name == leg.device), None)
    route = kernel.hop(pack(leg.destination), pack(leg.source))
    first = devices.get(route.index)
    ipip = first if first is not None and first.kind == "ipip" else None
    stack = Stack(overlay=overlay, ipip=ipip, route=route, gateway=route.gateway or pack(leg.destination))
    if overlay is None or not leg.is_wrapped:
        return stack
    stack = _read_underlay(kernel, leg, stack, devices)
    return _read_tables(kernel, leg, stack, heard_mac) if stack.has_tables else stack


def _read_underlay(kernel: Questions, leg: Leg, stack: Stack, devices: Mapping[int, Device]) -> Stack:
    """How outer packets leave."""
    assert stack.overlay is not None
    vtep = pack(leg.underlay_destination)
    hop = kernel.hop(vtep, stack.overlay.local)
    lower = devices.get(hop.index) or devices.get(stack.overlay.lower)
    if lower is None:
        return msgspec.structs.replace(stack, underlay_route=hop)
    gateway = hop.gateway or vtep
    neighbours = kernel.neighbours(lower.index) if lower.is_ethernet else ()
    return msgspec.structs.replace(
        stack,
        lower=lower,
        underlay_route=hop,
        lower_gateway=gateway,
        lower_neighbour=next((each for each in neighbours if each.address == gateway), None),
    )


def _read_tables(kernel: Questions, leg: Leg, stack: Stack, heard_mac: bytes) -> Stack:
    """The overlay's own tables."""
    assert stack.overlay is not None
    neighbours, entries = kernel.neighbours(stack.overlay.index), kernel.forwarding(stack.overlay.index)
    neighbour = next((each for each in neighbours if each.address == stack.gateway), None)
    vtep = pack(leg.underlay_destination)
    macs = [entry.mac for entry in entries if entry.destination == vtep]
    held = neighbour.mac if neighbour is not None else b""
    # An address that a device gave up long ago may stay in the FDB: the neighbour's is preferred where both fit.
    by_table = held if held in macs else macs[0] if macs else b""
    return msgspec.structs.replace(
        stack,
        neighbour=neighbour,
        believed_mac=heard_mac or by_table,
        forwarding=tuple(entry.destination for entry in entries if entry.mac == held),
    )


# --- what of it is right ---


def judge_device(device: Device | None) -> DeviceState:
    """Whether a device can carry packets."""
    if device is None:
        return DeviceState.MISSING
    if not device.is_up:
        return DeviceState.DOWN
    return DeviceState.READY if device.has_carrier else DeviceState.NO_CARRIER


def judge_route(stack: Stack, leg: Leg, names: Mapping[int, str]) -> Finding:
    """Whether packets enter the overlay device, or another that leads there."""
    if stack.route.error:
        return Finding(entry=Entry.MISSING, text=f"{leg.destination}: {stack.route.error}")
    device = names.get(stack.route.index, f"device {stack.route.index}")
    by = f" via {render_address(stack.route.gateway)}" if stack.route.gateway else ""
    text = f"{leg.destination}{by} dev {device}"
    expected = {leg.device, stack.ipip.name if stack.ipip is not None else leg.device}
    if stack.overlay is not None and stack.overlay.collects_metadata:
        expected.add(CILIUM_HOST)
    if device in expected:
        return Finding(entry=Entry.RIGHT, text=text)
    return Finding(entry=Entry.WRONG, text=f"{text}, not {leg.device}")


def judge_neighbour(stack: Stack) -> Finding:
    """Whether the overlay's next hop is known, by the address from which frames of that node come."""
    if not stack.has_tables or stack.route.error:
        return Finding()
    address, neighbour = render_address(stack.gateway), stack.neighbour
    if neighbour is None or not neighbour.is_resolved:
        return Finding(entry=Entry.MISSING, text=f"{address} has no link layer address")
    kind = "permanent" if neighbour.state & NUD_PERMANENT else "not permanent"
    text = f"{address} is at {render_mac(neighbour.mac)} ({kind})"
    if stack.believed_mac and neighbour.mac != stack.believed_mac:
        return Finding(entry=Entry.WRONG, text=f"{text}, not {render_mac(stack.believed_mac)}")
    return Finding(entry=Entry.RIGHT, text=text)


def judge_forwarding(stack: Stack, leg: Leg) -> Finding:
    """Whether the overlay sends frames with the neighbour's address to the node address of `via`."""
    if not stack.has_tables or stack.neighbour is None or not stack.neighbour.mac:
        return Finding()
    mac = render_mac(stack.neighbour.mac)
    if not stack.forwarding:
        return Finding(entry=Entry.MISSING, text=f"no entry for {mac}")
    text = f"{mac} dst {' '.join(map(render_address, stack.forwarding))}"
    if pack(leg.underlay_destination) in stack.forwarding:
        return Finding(entry=Entry.RIGHT, text=text)
    return Finding(entry=Entry.WRONG, text=f"{text}, not {leg.underlay_destination}")


def judge_underlay_route(stack: Stack, leg: Leg, names: Mapping[int, str]) -> Finding:
    """Whether outer packets have a way that does not lead back into the overlay."""
    if not leg.is_wrapped or stack.overlay is None:
        return Finding()
    hop = stack.underlay_route
    if hop.error:
        return Finding(entry=Entry.MISSING, text=f"{leg.underlay_destination}: {hop.error}")
    device = names.get(hop.index, f"device {hop.index}")
    text = f"{leg.underlay_destination} dev {device}"
    if hop.index == stack.overlay.index:
        return Finding(entry=Entry.WRONG, text=f"{text}, which is the overlay itself")
    return Finding(entry=Entry.RIGHT, text=text)


def judge_underlay_neighbour(stack: Stack) -> Finding:
    """Whether the next hop of outer packets answers ARP; one that nobody has asked for yet is unknown."""
    if stack.lower is None or not stack.lower.is_ethernet or stack.lower_neighbour is None:
        return Finding()
    address, neighbour = render_address(stack.lower_gateway), stack.lower_neighbour
    if not neighbour.is_resolved:
        return Finding(entry=Entry.MISSING, text=f"{address} is not resolved")
    return Finding(entry=Entry.RIGHT, text=f"{address} is at {render_mac(neighbour.mac)}")


def render_mac(mac: bytes) -> str:
    """As "02:00:0a:f4:04:00"."""
    return mac.hex(":")


def render_address(address: bytes) -> str:
    """A packed IPv4 address as text."""
    return str(IPv4Address(address)) if len(address) == 4 else address.hex()


def pack(address: str) -> bytes:
    """An IPv4 address as four bytes; empty stays empty."""
    return IPv4Address(address).packed if address else b""
