"""How crafted packets enter the stack: raw IP through netfilter and routing, frames past both."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Final

from meshwatchd.adapters.tap.decode import ETH_P_IP
from meshwatchd.bisect import craft
from meshwatchd.bisect.craft import Inner, Outer
from meshwatchd.bisect.leg import Leg
from meshwatchd.bisect.probes import Probe
from meshwatchd.bisect.stack import Stack, render_address, render_mac
from meshwatchd.model.bisection import SeriesName

FIRST_OUTER_PORT: Final = 61_000
"""Above ip_local_port_range, from which overlay devices draw theirs: an outer flow from there is new to the network."""

CILIUM_VNI: Final = 6
"""Cilium's identity of remote nodes, where an overlay device has no VNI of its own."""


class Senders:
    """The ways in which a stack allows crafted packets."""

    def __init__(self, leg: Leg, stack: Stack, random: Random) -> None:
        self._leg, self._stack = leg, stack
        self._ports = random.sample(range(FIRST_OUTER_PORT, 1 << 16), k=64)
        self._exits = ExitStack()

    def available(self) -> Iterator[tuple[SeriesName, Callable[[Probe], None]]]:
        """Each series that can be sent here, with what sends one probe of it; that raises OSError.

        A frame for a device that takes its packets' destination from elsewhere would be freed without a word, so
        nothing is put into one.
        """
        stack = self._stack
        if not self._leg.is_wrapped or stack.overlay is None:
            return
        if stack.ipip is not None:
            yield SeriesName.CRAFTED, self._send_ipip
            return
        mac = self._mac()
        if stack.has_tables and mac:
            yield SeriesName.INJECTED, self._inject
        if mac and stack.overlay.kind == "vxlan":
            yield SeriesName.CRAFTED, self._send_packet
            if self._lower_mac() and stack.lower is not None and stack.lower.is_ethernet:
                yield SeriesName.FRAMED, self._send_frame

    def close(self) -> None:
        """Close what was opened for them."""
        self._exits.close()

    def _inject(self, probe: Probe) -> None:
        assert self._stack.overlay is not None
        self._put(self._stack.overlay.name, craft.inner_frame(self._inner(probe)))

    def _send_packet(self, probe: Probe) -> None:
        packet = craft.vxlan_packet(self._outer(), self._inner(probe))
        self._raw().sendto(packet, (self._leg.underlay_destination, 0))

    def _send_frame(self, probe: Probe) -> None:
        lower = self._stack.lower
        assert lower is not None
        frame = craft.vxlan_frame(
            self._outer(),
            self._inner(probe),
            source_mac=render_mac(lower.mac),
            destination_mac=render_mac(self._lower_mac()),
        )
        self._put(lower.name, frame)

    def _send_ipip(self, probe: Probe) -> None:
        """To the next hop of the IPIP route, as its device would, but not by it."""
        gateway = render_address(self._stack.gateway)
        source = self._source_towards(gateway)
        self._raw().sendto(craft.ipip_packet(source, gateway, self._inner(probe)), (gateway, 0))

    def _inner(self, probe: Probe) -> Inner:
        assert self._stack.overlay is not None
        return Inner(
            source=probe.source,
            destination=probe.destination,
            source_port=probe.source_port,
            destination_port=probe.port,
            payload=probe.payload,
            source_mac=render_mac(self._stack.overlay.mac),
            destination_mac=render_mac(self._mac()),
        )

    def _outer(self) -> Outer:
        overlay = self._stack.overlay
        assert overlay is not None
        source = render_address(overlay.local) if overlay.local else self._leg.underlay_source
        return Outer(
            source=source,
            destination=self._leg.underlay_destination,
            source_port=self._ports.pop(),
            port=self._stack.vxlan_port,
            vni=CILIUM_VNI if overlay.collects_metadata else overlay.vni,
        )

    def _mac(self) -> bytes:
        """Of the far overlay device; one that collects metadata takes any."""
        stack = self._stack
        if stack.overlay is not None and stack.overlay.collects_metadata:
            return stack.overlay.mac
        return stack.believed_mac or (stack.neighbour.mac if stack.neighbour is not None else b"")

    def _lower_mac(self) -> bytes:
        neighbour = self._stack.lower_neighbour
        return neighbour.mac if neighbour is not None and neighbour.is_resolved else b""

    def _raw(self) -> socket.socket:
        opened = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        return self._exits.enter_context(opened)

    def _put(self, device: str, frame: bytes) -> None:
        opened = self._exits.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        opened.sendto(frame, (device, ETH_P_IP))

    @staticmethod
    def _source_towards(address: str) -> str:
        """Which address of ours the routes choose."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect((address, 9))
            return str(asked.getsockname()[0])
