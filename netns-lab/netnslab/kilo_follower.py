"""Kilo's agents, played, that go by the annotations of Nodes: whoever moves `kilo.squat.ai/leader` moves the leader.

    store = Store((NODES, LEASES, EVENTS))
    with KiloFollower(KiloAgents(lab), lab.topology, store):
        ...                    # an annotation that is set in the store is followed as the real agents follow it

It puts the Nodes into the store with what an agent writes about itself, and says that they live each CHECK_IN_S, as an
agent does. Whom they take for a leader is squat/kilo 0.7.0's rule (pkg/mesh/topology.go, findLeader): the first by name
with the annotation, whatever its value, and a public endpoint; else with the annotation; else with a public endpoint;
else the first of all.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Protocol, Self

from netnslab.kube_api.objects import Json, Object, name_of, part, text
from netnslab.kube_api.resources import NODES
from netnslab.kube_api.store import Store
from netnslab.topology import Node, Topology

PREFIX = "kilo.squat.ai/"
CHECK_IN_S = 30.0
"""checkInPeriod (pkg/mesh/backend.go)."""

_PRIVATE = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/16")))
"""pkg/mesh/ip.go, isPublic."""


class Agents(Protocol):
    """What rewrites kernels (`kilo_agents.KiloAgents`)."""

    def elect(self, leader: str) -> object:
        """Let a node lead its location."""


class KiloFollower:
    """Follows the annotations for as long as the context lasts.

    Args:
        agents: of a lab that is as it was built.
        topology: of that lab.
        store: without Nodes.
    """

    def __init__(self, agents: Agents, topology: Topology, store: Store) -> None:
        self._agents, self._topology, self._store = agents, topology, store
        self._leaders = {location.name: location.leader for location in topology.locations.values()}
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="netnslab-kilo-follower", daemon=True)

    def __enter__(self) -> Self:
        for node in self._topology.nodes.values():
            self._store.create(NODES, node_object(self._topology, node))
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._is_ended.set()
        self._thread.join()

    @property
    def leaders(self) -> Mapping[str, str]:
        """Who leads each location, as the kernels have it."""
        return dict(self._leaders)

    def _follow(self) -> None:
        version, checked_in = 0, time.monotonic()
        while not self._is_ended.is_set():
            if time.monotonic() - checked_in >= CHECK_IN_S:
                checked_in = time.monotonic()
                self._check_in()
            nodes, seen = self._store.list(NODES, lambda _: True)
            if seen != version:
                version = seen
                self._elect(nodes)
            self._store.wait(version, 0.1)

    def _elect(self, nodes: Iterable[Object]) -> None:
        by_name = {name_of(node): node for node in nodes}
        for location in self._topology.locations.values():
            members = (by_name[node.name] for node in self._topology.members(location.name) if node.name in by_name)
            leader = leader_of(members)
            if leader and leader != self._leaders[location.name]:
                self._agents.elect(leader)
                self._leaders[location.name] = leader

    def _check_in(self) -> None:
        for name in self._topology.nodes:
            self._store.edit(NODES, name, "", _seen_now)


def leader_of(nodes: Iterable[Object]) -> str:
    """Whom Kilo's agents take for the leader of these nodes; empty for none of none."""
    ordered = sorted(nodes, key=name_of)
    marked = [node for node in ordered if f"{PREFIX}leader" in _annotations(node)]
    public = [node for node in ordered if _is_public(node)]
    both = [node for node in marked if node in public]
    return name_of(next(iter((*both, *marked, *public, *ordered)), {}))


def node_object(topology: Topology, node: Node) -> Object:
    """A Node as its agent and its kubelet describe it; who leads is left to names and endpoints."""
    annotations: Object = {
        f"{PREFIX}key": "k" * 43 + "=",
        f"{PREFIX}endpoint": f"{node.public_ip or node.node_ip}:{topology.wireguard.port}",
        f"{PREFIX}internal-ip": f"{node.node_ip}/24",
        f"{PREFIX}last-seen": str(time.time_ns() // 1_000_000_000),
    }
    addresses: list[Json] = [{"type": "InternalIP", "address": node.node_ip}]
    return {
        "metadata": {"name": node.name, "annotations": annotations},
        "spec": {"podCIDR": node.pod_cidr},
        "status": {"addresses": addresses, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _seen_now(before: Object) -> Object:
    metadata = part(before, "metadata")
    seen: Object = {f"{PREFIX}last-seen": str(time.time_ns() // 1_000_000_000)}
    return {**before, "metadata": {**metadata, "annotations": {**part(metadata, "annotations"), **seen}}}


def _annotations(node: Object) -> Object:
    return part(part(node, "metadata"), "annotations")


def _is_public(node: Object) -> bool:
    host = text(_annotations(node), f"{PREFIX}endpoint").rpartition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not any(address in network for network in _PRIVATE if network.version == address.version)
