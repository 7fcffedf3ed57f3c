"""What stands in the place of a fabric where no host has WireGuard: all that it is asked for is nothing. Pure text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from netnslab.backends.model import Needs
from netnslab.overlay import Overlay
from netnslab.topology import Node, Topology
from netnslab.wireguard import KeyPair, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTunnel:
    """A pod network that comes with all it needs, its routes among that, and is its own fabric."""

    needs: Needs = field(default_factory=Needs)
    relay_device: str = ""
    ipip_device: str = ""
    device: str = ""
    carries_overlay: bool = True
    programs: tuple[Program, ...] = ()

    def has_device(self, topology: Topology, node: Node) -> bool:
        """Nobody has one."""
        del topology, node
        return False

    def configuration(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
        """Of no device."""
        del topology, node, keys
        return ""

    def device_lines(self, topology: Topology, node: Node) -> tuple[str, ...]:
        """Of no device."""
        del topology, node
        return ()

    def route_lines(self, topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
        """None: they come with the overlay's devices."""
        del topology, node, overlay
        return ()

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """All that is kept is in the cluster's API."""
        del topology, node, keys
        return {}
