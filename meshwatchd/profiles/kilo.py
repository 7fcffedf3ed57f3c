"""Kilo: how a node recognises that it is in a mesh of it.

What a node knows of itself stands in its kernel: kilo0 is up on leaders alone; a leader's routes into it carry the
node's address as their source; all other nodes have one gateway in common, their leader; what a leader delivers
to its neighbours is in table 1107. Names are in Kilo's graph only, and without it the location stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import KiloNode, Sources
from meshwatchd.profiles import reading
from meshwatchd.profiles.reading import IPIP_DEVICES

DEVICE = "kilo0"

DELIVERY_TABLE = 1107
"""Holds a leader's routes to the nodes of its own location (kiloTableIndex in Kilo's pkg/mesh/routes.go)."""


def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
    """What Kilo's devices, routes and graph say of this node; see `profiles.compose`."""
    link, reason = _device(snapshot, sources, declared)
    if link is None:
        return LocalView(profiles=(), node=node, why=(reason,))
    return _Node(snapshot, sources, node, link).view(reason)


def _device(snapshot: Snapshot, sources: Sources, declared: MeshSettings) -> tuple[Link | None, Finding]:
    """Kilo's device, and why it is or is not there."""
    link = snapshot.link(DEVICE)
    if link is not None:
        return link, Finding(source=f"link {DEVICE}", text=f"{DEVICE} is Kilo's device: this node is in a Kilo mesh")
    other = snapshot.link(declared.wireguard_device)
    if other is not None and sources.kilo is not None:
        text = f"Kilo runs here and has no {DEVICE}; {other.name} is its device as [mesh] wireguard_device says"
        return other, Finding(source="kilo graph", text=text)
    if other is not None and any(route.table == DELIVERY_TABLE for route in snapshot.device_routes):
        text = f"table {DELIVERY_TABLE} is Kilo's, and [mesh] wireguard_device says that {other.name} is its device"
        return other, Finding(source=f"table {DELIVERY_TABLE}", text=text)
    return None, Finding(source=f"link {DEVICE}", text=f"there is no {DEVICE}: this node is in no Kilo mesh")


_NO_NAME = re.compile(r"[^A-Za-z0-9.-]+")


class _Node:
    """One look at one node."""

    def __init__(self, snapshot: Snapshot, sources: Sources, node: NodeName, link: Link) -> None:
        self._snapshot, self._sources, self._link = snapshot, sources, link
        self._is_up = link.is_up
        self._static = tuple(reading.main_routes(snapshot, reading.PROTOCOL_STATIC))
        self._delivered = tuple(route for route in snapshot.device_routes if route.table == DELIVERY_TABLE)
        self._peers = reading.peers_of(snapshot, link.name) if link.is_up else ()
        self._gateway, self._gateway_device = self._common_gateway()
        self._node_ip = self._source_address()
        self._lan = reading.lan_of(snapshot, self._node_ip)
        self._in_graph = self._find_in_graph(node)
        self._granularity = self._judge_granularity()
        self._name = node

    def view(self, reason: Finding) -> LocalView:
        """All of it."""
        compatibility, said = self._compatibility()
        leads = self._is_up and self._granularity == "location"
        own = self._in_graph
        node_ip = self._node_ip or (own.node_ip if own is not None else "")
        return LocalView(
            profiles=("kilo",),
            node=self._name,
            location=self._location(),
            leader="" if self._is_up else self._gateway,
            is_leader=self._is_up,
            granularity=self._granularity,
            node_ip=node_ip,
            pod_cidr=own.pod_cidr if own is not None else "",
            overlay_ip=node_ip if compatibility == "none" else "",
            wireguard_ip=next(iter(self._link.addresses), "") if self._is_up else "",
            wireguard_ip6=next(iter(self._link.addresses_v6), "") if self._is_up else "",
            wireguard_device=self._link.name,
            overlay_device=self._ipip_device() or self._gateway_device if compatibility == "none" else "",
            ipip_device=self._ipip_device() if compatibility == "cilium" else "",
            wireguard_mtu_bytes=self._link.mtu_bytes,
            public_endpoint=self._public_endpoint(),
            layers=tuple(self._layers(compatibility)),
            candidates=tuple(self._candidates()),
            why=(reason, self._role(leads=leads), *self._why_granularity(), said, *self._why_location()),
        )

    # --- role and granularity ---

    def _common_gateway(self) -> tuple[str, str]:
        """The gateway that most of Kilo's routes have outside its own device: this node's leader, unless it leads."""
        tunnels = {link.name for link in self._snapshot.links if reading.is_wireguard(self._snapshot, link)}
        for gateway in self._snapshot.gateways:
            is_kilos = gateway.table == reading.MAIN_TABLE and gateway.protocol == reading.PROTOCOL_STATIC
            if is_kilos and gateway.via and gateway.dev not in {*tunnels, self._link.name} and ":" not in gateway.via:
                return gateway.via, gateway.dev
        return "", ""

    def _source_address(self) -> str:
        """What Kilo writes into its routes; where it does not, the address beside the common gateway."""
        own = reading.own_addresses(self._snapshot)
        told = (route.src for route in self._static if route.src in own and ":" not in route.src)
        device = self._snapshot.link(self._gateway_device)
        beside = (
            address
            for address, network in (reading.networks_of(device) if device is not None else ())
            if reading.is_in(self._gateway, str(network))
        )
        return next(told, "") or next(beside, "")

    def _judge_granularity(self) -> str:
        graph = self._sources.kilo
        if graph is not None and self._in_graph is not None:
            leaders = [each for each in graph.nodes if each.location == self._in_graph.location and each.is_leader]
            if len(leaders) > 1:
                return "cross"
            lonely = all(each.is_leader for each in graph.nodes)
            return "full" if lonely and self._in_graph.location == self._in_graph.name else "location"
        if not self._is_up or self._delivered:
            return "location"
        return self._judge_by_peers()

    def _judge_by_peers(self) -> str:
        """A leader that delivers to nobody: alone in its location, or all nodes lead."""
        if any(sum(not reading.host_address(prefix) for prefix in peer.allowed_ips) > 1 for peer in self._peers):
            return "location"
        if any(reading.is_in(address, self._lan) for peer in self._peers for address in _addresses(peer.allowed_ips)):
            return "full"
        neighbours = {route.dst for route in self._snapshot.device_routes if route.dev != self._link.name and route.via}
        beyond = {route.dst for route in self._static}
        is_alone = not {dst for dst in neighbours - beyond if not reading.host_address(dst)} - {self._own_pods()}
        return "location" if is_alone else "cross"

    def _own_pods(self) -> str:
        """What a route via this node's own address leads to: its own pods, with Cilium."""
        own = reading.own_addresses(self._snapshot)
        within = (route for route in self._snapshot.device_routes if route.via in own)
        return next((route.dst for route in within if reading.is_in(route.via, route.dst)), "")

    def _role(self, *, leads: bool) -> Finding:
        name = self._link.name
        if leads:
            text = f"{name} is up: this node leads its location"
        elif self._is_up:
            text = f"{name} is up, as on every node with {self._granularity} granularity"
        elif self._gateway:
            text = f"{name} is down and most of Kilo's routes lead to {self._gateway}: that is this location's leader"
        else:
            text = f"{name} is down and Kilo has no routes: it has not found its nodes yet"
        return Finding(source=f"link {name}", text=text)

    def _why_granularity(self) -> Iterator[Finding]:
        if self._sources.kilo is not None and self._in_graph is not None:
            yield Finding(source="kilo graph", text=f"its segments are those of {self._granularity} granularity")
        elif self._delivered:
            count = len({route.dst for route in self._delivered})
            text = f"this leader delivers to {count} other nodes of its location: granularity is location"
            yield Finding(source=f"table {DELIVERY_TABLE}", text=text)
        elif self._is_up:
            text = f"no table {DELIVERY_TABLE}; by the AllowedIPs of {len(self._peers)} peers: {self._granularity}"
            yield Finding(source=f"peers of {self._link.name}", text=text)
        metrics = self._sources.kilo_metrics
        if metrics is not None and metrics.is_leader != self._is_up:
            says = "leads" if metrics.is_leader else "does not lead"
            text = f"Kilo says that this node {says}, its device says otherwise: it is changing, or its agent is stuck"
            yield Finding(source="kilo metrics", text=text)

    # --- what is below ---

    def _ipip_device(self) -> str:
        used = [self._gateway_device, *(route.dev for route in self._delivered)]
        present = (name for name in IPIP_DEVICES if self._snapshot.link(name) is not None)
        return next((name for name in used if name in IPIP_DEVICES), "") or next(present, "")

    def _compatibility(self) -> tuple[str, Finding]:
        """Whose overlay Kilo relies on inside a location: "flannel", "cilium", or "none".

        Who leads may have a static route of its administrators, to a private network, that looks like Kilo's.
        """
        delivers = next((route.dev for route in self._delivered), "")
        device = (delivers or self._gateway_device) if self._is_up else (self._gateway_device or delivers)
        is_guess = not device or (self._is_up and not delivers)
        if device.startswith("flannel") or (is_guess and self._has("flannel.")):
            shown = device if device.startswith("flannel") else "flannel's device"
            text = f"inside the location packets go by {shown}: Kilo's compatibility is flannel"
            return "flannel", Finding(source=f"routes into {shown}", text=text)
        if self._has("cilium_host"):
            shown = device or self._ipip_device() or "cilium_host"
            text = f"inside the location packets go by {shown} to Cilium's addresses: Kilo's compatibility is cilium"
            return "cilium", Finding(source=f"routes into {shown}", text=text)
        if device:
            text = f"inside the location packets go by {device} to node addresses: Kilo is the CNI itself"
            return "none", Finding(source=f"routes into {device}", text=text)
        return "", Finding(source="links", text="neither flannel, Cilium nor IPIP carries packets inside the location")

    def _has(self, prefix: str) -> bool:
        return any(link.name.startswith(prefix) for link in self._snapshot.links)

    def _layers(self, compatibility: str) -> Iterator[DeviceLayer]:
        below = self._snapshot.underlay(self._link.name)
        name = below.name if below is not None else ""
        yield DeviceLayer(kind="wireguard", device=self._link.name, mtu_bytes=self._link.mtu_bytes, over=name)
        ipip = self._snapshot.link(self._ipip_device()) if compatibility in {"cilium", "none"} else None
        if ipip is not None:
            over = "cilium_host" if compatibility == "cilium" else name
            yield DeviceLayer(kind="ipip", device=ipip.name, mtu_bytes=ipip.mtu_bytes, over=over)

    # --- names and addresses ---

    def _find_in_graph(self, name: NodeName) -> KiloNode | None:
        graph = self._sources.kilo
        if graph is None:
            return None
        by_address = (each for each in graph.nodes if self._node_ip and each.node_ip == self._node_ip)
        return graph.node(name) or next(by_address, None)

    def _location(self) -> LocationName:
        """As names are written in hellos; empty where another location would have the same."""
        graph, own = self._sources.kilo, self._in_graph
        if graph is None or own is None:
            return LocationName("")
        others = {each.location for each in graph.nodes} - {own.location}
        name = _written(own.location)
        return LocationName("" if name in map(_written, others) else name)

    def _why_location(self) -> Iterator[Finding]:
        if self._in_graph is not None:
            name = self._location()
            text = f"this node is {self._in_graph.name} in {self._in_graph.location}"
            if name != self._in_graph.location:
                text += f", which is written {name}" if name else ", which cannot be written as a name"
        elif self._sources.kilo is not None:
            text = f"there is neither a node {self._name} nor one at {self._node_ip or 'an address of ours'} in it"
        else:
            text = "Kilo's agent does not answer: the location has no name, its leader's address stands for it"
        yield Finding(source="kilo graph", text=text)

    def _public_endpoint(self) -> str:
        told = reading.host_of(self._in_graph.endpoint) if self._in_graph is not None else ""
        if told and (reading.is_public(told) or not told.replace(".", "").isdigit()):
            return told
        return self._node_ip if reading.is_public(self._node_ip) else ""

    def _candidates(self) -> Iterator[Candidate]:
        for route in self._delivered:
            yield Candidate(address=reading.host_address(route.dst), is_local=True)
        if self._gateway and not self._is_up:
            yield Candidate(address=self._gateway, is_local=True)
        graph = self._sources.kilo
        for each in graph.nodes if graph is not None else ():
            is_local = self._in_graph is not None and each.location == self._in_graph.location
            yield Candidate(address=each.node_ip, is_local=is_local and self._granularity != "full")
        for address in [*_addresses(route.dst for route in self._static), *self._allowed()]:
            if not self._is_wireguard_address(address):
                yield Candidate(address=address)

    def _allowed(self) -> Iterator[str]:
        return (address for peer in self._peers for address in _addresses(peer.allowed_ips))

    def _is_wireguard_address(self, address: str) -> bool:
        """Whether it is a leader's on its own device: it moves from node to node, and node addresses do not."""
        graph = self._sources.kilo
        if graph is not None and reading.is_in(address, graph.wireguard_cidr):
            return True
        return any(reading.is_in(address, str(network)) for _, network in reading.networks_of(self._link))


def _written(location: str) -> str:
    """A location by what names are made of: labels of Kubernetes may have underscores, annotations anything."""
    return _NO_NAME.sub("-", location).strip(".-")


def _addresses(prefixes: Iterable[str]) -> Iterator[str]:
    return reading.hosts_in(prefixes)
