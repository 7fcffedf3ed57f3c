"""Antrea, Kube-OVN and OVN-Kubernetes: pods on Open vSwitch, whose port in the host has the node's address among them.

    antrea-gw0   10.10.0.1/24       10.10.1.0/24 via 10.10.1.1 onlink       a route for each other node's pods
    ovn-k8s-mp0  10.244.0.2/24      10.244.0.0/16 via 10.244.0.1            one route for all
    ovn0         100.64.0.2/16      10.16.0.0/16 via 100.64.0.1             one for each subnet, which nodes share

From the port on packets are the switch's: it puts them into its tunnel by its own tables, which the kernel does not
show. Nobody relays, so that each node leads itself; where nothing but Antrea's routes, WireGuard's peers or neighbours
on ovn0 names other nodes, an address in `discovery.peers` does.

The agents own ports, routes and tables of the switch, and put nothing of ours into them: faults are named only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address

from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.open_vswitch import (
    ANTREA_MULTICLUSTER,
    ANTREA_WIREGUARD,
    SWITCH_MESHES,
    USERSPACE,
    tunnel_kind,
    tunnel_of,
)
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import reading

NAMES = {"antrea": "Antrea", "kube-ovn": "Kube-OVN", "ovn-kubernetes": "OVN-Kubernetes"}


def look_for(kind: str) -> Callable[[Snapshot, Sources, MeshSettings, NodeName], LocalView]:
    """The look of one maker's mesh; see `profiles.compose`."""

    def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
        """What the switch's port, its tunnel and the routes say of this node."""
        del sources, declared
        device = SWITCH_MESHES[kind].gateway
        gateway = snapshot.link(device)
        if gateway is None:
            text = f"there is no {device}: {NAMES[kind]} does not run here"
            return LocalView(profiles=(), node=node, why=(Finding(source=f"link {device}", text=text),))
        return _Node(kind, snapshot, node, gateway).view()

    return look


class _Node:
    """One look at one node."""

    def __init__(self, kind: str, snapshot: Snapshot, node: NodeName, gateway: Link) -> None:
        self._kind, self._mesh, self._name = kind, SWITCH_MESHES[kind], node
        self._snapshot, self._gateway, self._tunnel = snapshot, gateway, tunnel_of(snapshot)
        cable = snapshot.link(ANTREA_WIREGUARD) if kind == "antrea" else None
        self._cable = cable if cable is not None and reading.is_wireguard(snapshot, cable) else None
        own = ((text, net) for text, net in reading.networks_of(gateway) if not ip_address(text).is_link_local)
        self._address, self._network = next(((text, str(net)) for text, net in own), ("", ""))
        self._below = snapshot.underlay(self._cable.name if self._cable is not None else "")

    def view(self) -> LocalView:
        """All of it."""
        cable, address = self._cable, self._address
        return LocalView(
            profiles=(self._kind,),
            node=self._name,
            node_ip=self._node_ip(),
            pod_cidr=self._pods(),
            overlay_ip=address,
            overlay_ip6=next(iter(self._gateway.addresses_v6), ""),
            wireguard_ip=address if cable is not None else "",
            wireguard_device=cable.name if cable is not None else "",
            wireguard_mtu_bytes=cable.mtu_bytes if cable is not None else 0,
            overlay_device=cable.name if cable is not None else self._gateway.name,
            layers=tuple(self._layers()),
            candidates=tuple(Candidate(address=each) for each in self._others()),
            why=tuple(self._reasons()),
        )

    def _node_ip(self) -> str:
        """Of the card, or of the bridge that has taken its address (br-ex), where OVN has another one for services."""
        held = self._below.addresses if self._below is not None else ()
        return next((each for each in held if not ip_address(each).is_link_local), "")

    def _pods(self) -> str:
        """The prefix of this node's pods; where nodes share theirs, its own address, which is one among them."""
        if self._mesh.is_shared:
            return f"{self._address}/32" if self._address else ""
        return "" if self._network.endswith("/32") else self._network

    def _layers(self) -> Iterator[DeviceLayer]:
        carrier = self._cable or self._tunnel
        card = self._below.name if self._below is not None else ""
        over = carrier.name if carrier is not None else card
        gateway = self._gateway
        yield DeviceLayer(kind="openvswitch", device=gateway.name, mtu_bytes=gateway.mtu_bytes, over=over)
        if carrier is not None:
            kind = "wireguard" if carrier is self._cable else tunnel_kind(carrier.name)
            yield DeviceLayer(kind=kind, device=carrier.name, mtu_bytes=carrier.mtu_bytes, over=card)

    def _others(self) -> Iterator[str]:
        """Addresses of other nodes: their ports by Antrea's routes, on ovn0 by neighbours, their hosts by WireGuard."""
        for peer in reading.peers_of(self._snapshot, ANTREA_WIREGUARD) if self._cable is not None else ():
            if peer.host:
                yield peer.host
        routes = [route for route in self._snapshot.device_routes if route.dev == self._gateway.name]
        if self._mesh.is_shared:
            routers = {route.via for route in routes}
            for each in self._snapshot.neighbours:
                is_node = each.dev == self._gateway.name and each.lladdr and each.address not in routers
                if is_node and reading.is_in(each.address, self._network):
                    yield each.address
            return
        for route in routes:
            if route.via and reading.is_in(route.via, route.dst) and not reading.is_in(self._address, route.dst):
                yield route.via

    def _reasons(self) -> Iterator[Finding]:
        source, maker = f"link {self._gateway.name}", NAMES[self._kind]
        yield Finding(source=source, text=f"{self._gateway.name} is {maker}'s port of its switch in the host")
        if self._cable is not None:
            text = f"pods of other nodes are routed into {self._cable.name}: {maker} encrypts by WireGuard"
            yield Finding(source=f"link {self._cable.name}", text=text)
        elif self._tunnel is not None:
            text = f"{self._tunnel.name} is the switch's tunnel, which takes each packet's destination from its tables"
            yield Finding(source=f"link {self._tunnel.name}", text=text)
        elif self._gateway.kind == USERSPACE:
            yield Finding(source=source, text="the switch is a process, and its tunnel no device of the kernel")
        else:
            yield Finding(
                source="links", text="the switch has no tunnel device: pods of other nodes are not reached by it"
            )
        if not self._address:
            yield Finding(
                source=source, text=f"{self._gateway.name} has no address: how others reach this node is not known"
            )
        elif self._mesh.is_shared:
            text = (
                f"pods of all nodes share their networks: {self._address} is what this node has of its own among them"
            )
            yield Finding(source=source, text=text)
        if self._kind == "antrea" and self._snapshot.link(ANTREA_MULTICLUSTER) is not None:
            text = (
                "this node is its cluster's gateway to others, which Antrea replaces when its Node is not Ready and not"
                f" before: kubectl annotate node {self._name} multicluster.antrea.io/gateway- has another one take over"
            )
            yield Finding(source=f"link {ANTREA_MULTICLUSTER}", text=text)
        text = "this mesh has no standby: traffic is not moved, faults are named and reported"
        yield Finding(source=source, text=text)
