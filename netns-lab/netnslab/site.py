"""A lab's places and what it is made of, shared by building, using and drawing it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from netnslab.errors import LabError
from netnslab.inhabitant import Inhabitant
from netnslab.namespaces import NETWORK_ONLY, NODE_KINDS, Kind, Space
from netnslab.topology import Topology

WAN = "wan"

POD_PREFIX = "pod/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Who lives in a lab, by name; their namespaces are pinned in `pins`."""

    topology: Topology
    pins: Path

    def node(self, name: str) -> Inhabitant:
        """A machine: own network, mounts and host name."""
        self._check(name)
        return Inhabitant(name=name, ip=self.topology.nodes[name].node_ip, space=self._space(name, NODE_KINDS))

    def pod(self, node: str) -> Inhabitant:
        """The pod on a node: own network, the machine's files."""
        self._check(node)
        space = self._space(POD_PREFIX + node, NETWORK_ONLY)
        return Inhabitant(name=space.name, ip=self.topology.nodes[node].pod_ip, space=space)

    @property
    def wan(self) -> Inhabitant:
        """The switches, the routers and the Internet between them."""
        return Inhabitant(name=WAN, ip="", space=self._space(WAN, NETWORK_ONLY))

    def inhabitant(self, name: str) -> Inhabitant:
        """Anyone by name: `b3`, `pod/b3`, `wan`."""
        if name == WAN:
            return self.wan
        return self.pod(name.removeprefix(POD_PREFIX)) if name.startswith(POD_PREFIX) else self.node(name)

    def everyone(self) -> tuple[Inhabitant, ...]:
        """The wide area, all nodes, all pods."""
        names = tuple(self.topology.nodes)
        return (self.wan, *map(self.node, names), *map(self.pod, names))

    def _space(self, name: str, kinds: tuple[Kind, ...]) -> Space:
        return Space(name=name, directory=self.pins, kinds=kinds)

    def _check(self, node: str) -> None:
        if node not in self.topology.nodes:
            raise LabError(f"{self.topology.name} has no node {node!r}; nodes: {', '.join(self.topology.nodes)}")
