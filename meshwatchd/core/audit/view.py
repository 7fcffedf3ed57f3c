"""What every audit of this node's kernel is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meshwatchd.core.audit.expected_entries import Expectations, GoodState, entries_of
from meshwatchd.model.audit import MAIN_TABLE
from meshwatchd.model.discovery import Hello
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What an audit rests on.

    Attributes:
        mesh: complete or not; names the devices.
        node: this node's name.
        hellos: what peers say of themselves, by their name.
        good: the last good state, or None.
        seen_device: the overlay device, if it was there at some time since this daemon started; empty if not.
        silent: public keys of peers of the mesh's WireGuard device that are sent to and deliver nothing.
        unheard: names of nodes that were heard once and have been silent for longer than one that lives can be
            (`membership.unheard`); a node that was never heard is not among them.
    """

    snapshot: Snapshot
    mesh: MeshSettings
    node: str
    hellos: Mapping[str, Hello]
    good: GoodState | None
    seen_device: str = ""
    silent: frozenset[str] = frozenset()
    unheard: frozenset[str] = frozenset()

    def expectations(self) -> Expectations:
        """What the overlay device should hold."""
        routes = (*self.snapshot.device_routes, *self.snapshot.dead_ends) if self.unheard else ()
        return Expectations(
            device=self.mesh.overlay_device,
            present=entries_of(self.snapshot, self.mesh.overlay_device),
            mesh=self.mesh,
            node=self.node,
            hellos=self.hellos,
            good=self.good,
            unheard=self.unheard,
            led={each.dst for each in routes if each.table == MAIN_TABLE},
        )

    def routed_into(self, devices: frozenset[str]) -> set[str]:
        """The prefixes that the main table routes into any of these devices."""
        return {each.dst for each in self.snapshot.device_routes if each.table == MAIN_TABLE and each.dev in devices}

    def carried(self) -> set[str]:
        """The prefixes that peers of the mesh's WireGuard device may carry."""
        states = (each for each in self.snapshot.wireguard if each.device == self.mesh.wireguard_device)
        return {prefix for state in states for peer in state.peers for prefix in peer.allowed_ips}

    def routed_while_well(self) -> set[str]:
        """The prefixes that the overlay device had routes to in the last good state."""
        if self.good is None or self.good.device != self.mesh.overlay_device:
            return set()
        return {each.dst for each in self.good.entries.routes}
