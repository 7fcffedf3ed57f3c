"""The seam between the wide area and the pod network: who joins the nodes by WireGuard, and what that leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from netnslab.antrea import ANTREA
from netnslab.bgp import BGP
from netnslab.clustermesh import CLUSTER_MESH
from netnslab.errors import LabError
from netnslab.kilo import KILO
from netnslab.liqo import LIQO
from netnslab.native_wireguard import FLANNEL_NATIVE, HEXMESH
from netnslab.overlay import Overlay
from netnslab.submariner import SUBMARINER
from netnslab.topology import Node, Topology
from netnslab.wg_quick import WG_QUICK
from netnslab.wireguard import KeyPair, Program


class Fabric(Protocol):
    """Who makes the WireGuard device of every node, and its peers."""

    @property
    def device(self) -> str:
        """The WireGuard device, by the same name on every node that has it."""
        ...

    @property
    def carries_overlay(self) -> bool:
        """Whether the overlay device stands on the WireGuard device, and so can be made only after it."""
        ...

    @property
    def programs(self) -> tuple[Program, ...]:
        """Routing daemons, or what stands for an agent, to be started once the devices are up."""
        ...

    def has_device(self, topology: Topology, node: Node) -> bool:
        """Whether a node has the WireGuard device at all."""
        ...

    def configuration(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> str:
        """Key, port and peers for `wg setconf`."""
        ...

    def device_lines(self, topology: Topology, node: Node) -> tuple[str, ...]:
        """Lines for `ip -batch` that dress the existing device."""
        ...

    def route_lines(self, topology: Topology, node: Node, overlay: Overlay) -> tuple[str, ...]:
        """Lines for `ip -batch`, run after those: its routes and rules."""
        ...

    def files(self, topology: Topology, node: Node, keys: Mapping[str, KeyPair]) -> dict[Path, str]:
        """The files it is made from, by path, readable by root only."""
        ...


FABRICS: Mapping[str, Fabric] = MappingProxyType(
    {
        "kilo": KILO,
        "wg-quick": WG_QUICK,
        "submariner": SUBMARINER,
        "flannel-native": FLANNEL_NATIVE,
        "hexmesh": HEXMESH,
        "antrea": ANTREA,
        "liqo": LIQO,
        "wireguard-bgp": BGP,
        "cilium-clustermesh": CLUSTER_MESH,
    }
)


def fabric_of(topology: Topology) -> Fabric:
    """The fabric a topology asks for.

    Raises:
        LabError: nothing of that name exists.
    """
    try:
        return FABRICS[topology.fabric]
    except KeyError:
        known = ", ".join(FABRICS)
        raise LabError(f"topology {topology.name} wants fabric {topology.fabric!r}; known fabrics: {known}") from None
