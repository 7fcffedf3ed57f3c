"""Submariner: clusters whose gateways are joined by a cable, and whose workers send to their gateway by VXLAN.

    worker    <CIDR of another cluster> via 240.<gateway> dev vx-submariner     main table, static
    gateway   <CIDR of another cluster> dev <cable> src <CNI address>           table 150; 100 with the vxlan cable

Between clusters only pods and services are routed, so a node goes by its own address among its pods, which Submariner
calls the CNI address. Its address in vx-submariner is 240 and the last three octets of the node's own; clusters may
have that one in common. A cluster is a location, and its active gateway leads it; its name is in the API alone.

A worker whose own leg to the gateway is broken goes around it by the pods' network (`model.detour`): the gateway and
every other worker send on what comes to them by that, with the addresses that it has.

No standby of ours is safe here. Addresses of services are translated at the gateway of the cluster that has them, and
answers have to come by it (SUBMARINER-POSTROUTING spares them from any masquerade): between other nodes than the two
gateways they would go astray, while everything that is probed arrives.

Source: submariner 0.19, pkg/routeagent_driver/handlers/kubeproxy, pkg/vxlan, pkg/cable.
"""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import SUBMARINER, SUBMARINER_CLEAR_TEXT
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import reading

NAME = SUBMARINER
DEVICE = "vx-submariner"
WIREGUARD = "submariner"
CLEAR_TEXT = SUBMARINER_CLEAR_TEXT

GATEWAY_TABLES = (150, 100)
NETWORK = "240.0.0.0/8"

ANYBODY = "00:00:00:00:00:00"
"""The MAC of FDB entries for frames whose receiver is not known."""


def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
    """What Submariner's devices, routes and FDB say of this node; see `profiles.compose`."""
    del sources, declared
    link = snapshot.link(DEVICE)
    if link is None or link.vxlan is None:
        text = f"there is no {DEVICE}: Submariner does not run here"
        return LocalView(profiles=(), node=node, why=(Finding(source=f"link {DEVICE}", text=text),))
    return _Node(snapshot, node, link).view()


class _Node:
    """One look at one node."""

    def __init__(self, snapshot: Snapshot, node: NodeName, link: Link) -> None:
        self._snapshot, self._name, self._link = snapshot, node, link
        static = reading.main_routes(snapshot, reading.PROTOCOL_STATIC)
        self._routes = tuple(route for route in static if route.dev == DEVICE and reading.is_in(route.via, NETWORK))
        cables = (snapshot.link(name) for name in (WIREGUARD, CLEAR_TEXT))
        self._cable = next((cable for cable in cables if cable is not None and cable.is_up), None)
        self._table = tuple(route for route in snapshot.device_routes if self._is_gateways(route.table, route.dev))
        entries = (each.dst for each in snapshot.forwarding if each.dev == DEVICE and each.lladdr == ANYBODY)
        self._receivers = tuple(dict.fromkeys(address for address in entries if ":" not in address))
        self._is_gateway = self._judge_role()
        self._cni = self._find_cni()
        self._node_ip = self._source_address() or (next(iter(self._cni.addresses), "") if self._cni else "")

    def view(self) -> LocalView:
        """All of it; a role that nothing tells is left open."""
        cable = self._cable if self._is_gateway and self._cable is not None and self._is_tunnel() else None
        own = next(iter(self._link.addresses), "")
        assert self._link.vxlan is not None, "a device without is not looked at"
        return LocalView(
            profiles=(NAME,),
            node=self._name,
            leader="" if self._is_gateway else self._gateway(),
            is_leader=self._is_gateway,
            granularity="location",
            node_ip=self._node_ip,
            pod_cidr=self._pods(),
            overlay_ip=own,
            wireguard_ip=self._node_ip if cable is not None else "",
            vtep_mac=self._link.lladdr,
            vtep_port=self._link.vxlan.port,
            vtep_vni=self._link.vxlan.vni,
            wireguard_device=cable.name if cable is not None else "",
            wireguard_mtu_bytes=cable.mtu_bytes if cable is not None else 0,
            overlay_device=DEVICE,
            layers=tuple(self._layers()),
            candidates=tuple(self._candidates()),
            why=tuple(self._reasons()),
        )

    # --- role ---

    def _is_gateways(self, table: int, device: str) -> bool:
        return table in GATEWAY_TABLES and device in {WIREGUARD, CLEAR_TEXT}

    def _is_tunnel(self) -> bool:
        return self._cable is not None and self._cable.name == WIREGUARD

    def _judge_role(self) -> bool:
        """Routes by way of another node are a worker's, whatever a former life as a gateway has left behind."""
        if self._routes:
            return False
        return self._cable is not None or bool(self._table) or len(self._receivers) > 1

    def _gateway(self) -> str:
        """Where a worker sends: the gateway of its routes, else the lone receiver of its frames."""
        vias = [route.via for route in self._routes]
        if vias:
            return max(vias, key=vias.count)
        return f"240.{self._receivers[0].partition('.')[2]}" if len(self._receivers) == 1 else ""

    # --- addresses ---

    def _source_address(self) -> str:
        own = reading.own_addresses(self._snapshot)
        return next((route.src for route in self._table if route.src in own), "")

    def _find_cni(self) -> Link | None:
        source = self._source_address()
        holder = next((link for link in self._snapshot.links if source and source in link.addresses), None)
        lan = self._snapshot.underlay()
        is_cni = holder is not None and (lan is None or holder.name != lan.name)
        return holder if is_cni else reading.pod_device(self._snapshot)

    def _pods(self) -> str:
        """The network of the CNI's device that holds this node's address there."""
        for address, network in reading.networks_of(self._cni) if self._cni is not None else ():
            if address == self._node_ip and network.prefixlen < 32:
                return str(network)
        return ""

    # --- what is below, and where others are ---

    def _layers(self) -> Iterator[DeviceLayer]:
        below = self._snapshot.underlay(DEVICE)
        over = below.name if below is not None else ""
        yield DeviceLayer(kind="vxlan", device=DEVICE, mtu_bytes=self._link.mtu_bytes, over=over)
        if self._is_gateway and self._cable is not None:
            kind = "wireguard" if self._is_tunnel() else "vxlan"
            yield DeviceLayer(kind=kind, device=self._cable.name, mtu_bytes=self._cable.mtu_bytes, over=over)

    def _candidates(self) -> Iterator[Candidate]:
        """Nodes of the cluster by the FDB; the gateway of another one by the cable's peer, at its address outside."""
        for entry in self._snapshot.forwarding:
            if entry.dev == DEVICE:
                yield Candidate(address=entry.dst, is_local=True)
            elif entry.dev == CLEAR_TEXT:
                yield Candidate(address=entry.dst)
        for peer in reading.peers_of(self._snapshot, WIREGUARD):
            if host := peer.host:
                yield Candidate(address=host)

    # --- reasons ---

    def _reasons(self) -> Iterator[Finding]:
        yield Finding(source=f"link {DEVICE}", text=f"{DEVICE} is the route agent's: this node is in Submariner's mesh")
        yield self._role()
        if self._node_ip:
            text = f"between clusters pods alone are routed: this node goes by {self._node_ip}, its address among them"
            source = "table 150" if self._source_address() else f"link {self._cni.name if self._cni else ''}"
            yield Finding(source=source, text=text)
        else:
            text = "no device of a CNI has an address: how other clusters reach this node is not known"
            yield Finding(source="links", text=text)
        if self._is_gateway and self._cable is not None and not self._is_tunnel():
            text = f"the cable is {CLEAR_TEXT}: what crosses it between clusters is clear text"
            yield Finding(source=f"link {CLEAR_TEXT}", text=text)
        text = "this mesh has no standby; a worker whose leg is broken goes around it by its gateway or a neighbour"
        yield Finding(source=f"link {DEVICE}", text=text)

    def _role(self) -> Finding:
        if self._is_gateway:
            what = f"its cable is {self._cable.name}" if self._cable is not None else "its cable has no device"
            return Finding(source=f"routes into {DEVICE}", text=f"this node is the active gateway, {what}")
        gateway = self._gateway()
        if self._routes:
            text = f"{len(self._routes)} prefixes of other clusters lead to {gateway}: that is the active gateway"
            return Finding(source=f"routes into {DEVICE}", text=text)
        text = f"no route leads to another cluster; frames go to {gateway or 'nobody'}"
        return Finding(source=f"FDB of {DEVICE}", text=text)
