"""A node of flannel's wireguard backend: c1 of three, each a location, a peer of each other one for its pods alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from meshwatchd.core.audit.expected_entries import GoodState, good_state
from meshwatchd.core.audit.native_peers import Known
from meshwatchd.core.audit.view import View
from meshwatchd.model.discovery import Hello, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, WireGuardPeer, WireGuardState
from meshwatchd.model.topology import Location, Node

DEVICE = "flannel-wg"
NAMES = ("c1", "c2", "d1")
ROUTE = DeviceRoute(dst="10.42.0.0/16", dev=DEVICE, table=254, protocol=3, scope=253)


def node(name: str) -> Node:
    """One of the mesh."""
    number = NAMES.index(name)
    return Node(
        name=NodeName(name),
        location=LocationName(f"site-{name}"),
        node_ip=f"172.31.{number}.11",
        pod_cidr=f"10.42.{number}.0/24",
        overlay_ip=f"10.42.{number}.0",
        wireguard_ip=f"10.42.{number}.0",
    )


MESH = MeshSettings(
    profile="flannel",
    wireguard_device=DEVICE,
    overlay_device=DEVICE,
    location=tuple(Location(name=LocationName(f"site-{name}"), leader=NodeName(name)) for name in NAMES),
    node=tuple(node(name) for name in NAMES),
)


def hello(name: str, *, at: str = "") -> Hello:
    """What a node says of itself: its key, and where it is reached."""
    view = LocalView(
        profiles=("flannel",),
        node=NodeName(name),
        node_ip=node(name).node_ip,
        overlay_device=DEVICE,
        wireguard_device=DEVICE,
    )
    return Hello(view=view, tunnel_public_key=f"KEY-{name}", tunnel_port=51820, standby_endpoint=at)


def peer(name: str, *allowed: str) -> WireGuardPeer:
    """A node as flannel writes it, or with other prefixes."""
    return WireGuardPeer(
        public_key=f"KEY-{name}",
        endpoint=f"203.0.113.{NAMES.index(name)}:51820",
        allowed_ips=allowed or (node(name).pod_cidr,),
        handshake_ns=1,
    )


def device(*peers: WireGuardPeer) -> WireGuardState:
    """That of c1."""
    return WireGuardState(device=DEVICE, public_key="KEY-c1", listen_port=51820, at_ns=1, peers=peers)


WELL = device(peer("c2"), peer("d1"))


def known(
    state: WireGuardState, *, was: WireGuardState | None = WELL, hellos: Mapping[str, Hello] | None = None
) -> Known:
    """What c1 knows."""
    return Known(state=state, was=was, mesh=MESH, node="c1", hellos=hellos or {})


def snapshot(
    routes: Iterable[DeviceRoute] = (ROUTE,), *, index: int = 7, is_up: bool = True, ends: Iterable[DeviceRoute] = ()
) -> Snapshot:
    """The kernel of c1, with such routes and dead ends."""
    own = node("c1")
    links = (
        Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=(own.node_ip,)),
        Link(
            name=DEVICE,
            index=index,
            kind="wireguard",
            is_up=is_up,
            mtu_bytes=1420,
            addresses=(own.overlay_ip,),
            prefix_lengths=(32,),
        ),
    )
    return Snapshot(links=links, device_routes=tuple(routes), dead_ends=tuple(ends), wireguard=(WELL,))


GOOD = good_state(snapshot(), MESH, "boot")


def view(seen: Snapshot, *, good: GoodState | None = GOOD, mesh: MeshSettings = MESH) -> View:
    """What an audit of c1 rests on."""
    return View(snapshot=seen, mesh=mesh, node="c1", hellos={}, good=good)


def elsewhere(mesh: MeshSettings = MESH) -> MeshSettings:
    """The same mesh of a third party's device."""
    return msgspec.structs.replace(mesh, wireguard_device="hex0", overlay_device="hex0")
