"""Nodes on Open vSwitch as upstream documents them: n1 of three, by Antrea, Kube-OVN or OVN-Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from meshwatchd.core.audit.expected_entries import GoodState, good_state
from meshwatchd.core.audit.view import View
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.discovery import DeviceLayer, Hello, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.open_vswitch import SWITCH_MESHES
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.snapshot import DeviceRoute, Link, Neighbour, Snapshot, Vxlan
from meshwatchd.model.topology import Location, Node, Topology
from meshwatchd.profiles import OVERLAY_MESH

NAMES = ("n1", "n2", "n3")
DEFAULT = (DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via="10.79.1.1"),)
TUNNEL = Link(name="genev_sys_6081", index=5, kind="geneve", is_up=True, mtu_bytes=65000)
VXLAN = Link(
    name="vxlan_sys_4789",
    index=5,
    kind="vxlan",
    is_up=True,
    mtu_bytes=65485,
    vxlan=Vxlan(vni=0, port=4789, is_external=True),
)


def _link(name: str, index: int, kind: str, *held: str, mtu_bytes: int = 1500, is_up: bool = True) -> Link:
    addresses = [each.partition("/") for each in held]
    return Link(
        name=name,
        index=index,
        kind=kind,
        is_up=is_up,
        mtu_bytes=mtu_bytes,
        addresses=tuple(text for text, _, _ in addresses),
        prefix_lengths=tuple(int(length) for _, _, length in addresses),
    )


CARD = _link("eth0", 2, "", "10.79.1.11/24")
SWITCH = _link("ovs-system", 3, "openvswitch", is_up=False)
GATEWAYS: Mapping[str, Link] = {
    "antrea": _link("antrea-gw0", 6, "openvswitch", "10.10.0.1/24", mtu_bytes=1450),
    "kube-ovn": _link("ovn0", 6, "openvswitch", "100.64.0.2/16", mtu_bytes=1400),
    "ovn-kubernetes": _link("ovn-k8s-mp0", 6, "openvswitch", "10.244.0.2/24", mtu_bytes=1400),
}


def _route(dst: str, dev: str, via: str = "", *, src: str = "", protocol: int = 4, onlink: bool = False) -> DeviceRoute:
    return DeviceRoute(
        dst=dst,
        dev=dev,
        table=254,
        protocol=protocol,
        via=via,
        src=src,
        scope=0 if via else 253,
        is_onlink=onlink,
    )


ROUTES: Mapping[str, tuple[DeviceRoute, ...]] = {
    "antrea": (
        _route("10.10.0.0/24", "antrea-gw0", src="10.10.0.1", protocol=2),
        _route("10.10.1.0/24", "antrea-gw0", "10.10.1.1", protocol=3, onlink=True),
        _route("10.10.2.0/24", "antrea-gw0", "10.10.2.1", protocol=3, onlink=True),
        _route("10.96.0.0/12", "antrea-gw0", "169.254.0.253", protocol=3, onlink=True),
    ),
    "kube-ovn": (
        _route("10.16.0.0/16", "ovn0", "100.64.0.1", src="10.79.1.11"),
        _route("100.64.0.0/16", "ovn0", src="100.64.0.2", protocol=2),
    ),
    "ovn-kubernetes": (
        _route("10.244.0.0/16", "ovn-k8s-mp0", "10.244.0.1", protocol=3),
        _route("10.244.0.0/24", "ovn-k8s-mp0", src="10.244.0.2", protocol=2),
        _route("169.254.169.3/32", "ovn-k8s-mp0", "10.244.0.1", protocol=3),
    ),
}
NEIGHBOURS = tuple(
    Neighbour(dev="ovn0", address=f"100.64.0.{last}", lladdr=f"0a:58:64:40:00:0{last}", is_permanent=False)
    for last in (1, 3, 4)
)
_PODS = {
    "antrea": lambda place: (f"10.10.{place}.0/24", f"10.10.{place}.1"),
    "kube-ovn": lambda place: (f"100.64.0.{place + 2}/32", f"100.64.0.{place + 2}"),
    "ovn-kubernetes": lambda place: (f"10.244.{place}.0/24", f"10.244.{place}.2"),
}


def snapshot(kind: str, **changes: object) -> Snapshot:
    """The kernel of n1."""
    seen = Snapshot(
        links=(CARD, SWITCH, TUNNEL, GATEWAYS[kind]),
        device_routes=ROUTES[kind],
        default_routes=DEFAULT,
        neighbours=NEIGHBOURS if kind == "kube-ovn" else (),
    )
    return msgspec.structs.replace(seen, **changes)


def without(seen: Snapshot, *names: str) -> Snapshot:
    """The same without devices, and without the routes into them."""
    return msgspec.structs.replace(
        seen,
        links=tuple(link for link in seen.links if link.name not in names),
        device_routes=tuple(route for route in seen.device_routes if route.dev not in names),
    )


def changed(seen: Snapshot, name: str, **changes: object) -> Snapshot:
    """The same with another state of one device."""
    links = (msgspec.structs.replace(link, **changes) if link.name == name else link for link in seen.links)
    return msgspec.structs.replace(seen, links=tuple(links))


def node(kind: str, name: str) -> Node:
    """One of the mesh."""
    place = NAMES.index(name)
    pods, own = _PODS[kind](place)
    return Node(
        name=NodeName(name),
        location=LocationName(f"site-{name}"),
        node_ip=f"10.79.1.{11 + place}",
        pod_cidr=pods,
        overlay_ip=own,
    )


def mesh(kind: str) -> MeshSettings:
    """All three, each a location of its own."""
    return MeshSettings(
        profile=kind,
        wireguard_device="",
        overlay_device=SWITCH_MESHES[kind].gateway,
        location=tuple(Location(name=LocationName(f"site-{name}"), leader=NodeName(name)) for name in NAMES),
        node=tuple(node(kind, name) for name in NAMES),
    )


def hello(kind: str, name: str, tunnel: str = "genev_sys_6081") -> Hello:
    """What a peer says of its devices."""
    layers = (DeviceLayer(kind="geneve", device=tunnel, mtu_bytes=65000),) if tunnel else ()
    view = LocalView(
        profiles=(kind,),
        node=NodeName(name),
        node_ip=node(kind, name).node_ip,
        pod_cidr=node(kind, name).pod_cidr,
        overlay_ip=node(kind, name).overlay_ip,
        overlay_device=SWITCH_MESHES[kind].gateway,
        layers=layers,
    )
    return Hello(view=view)


def good(kind: str) -> GoodState:
    """How n1 was while all was well."""
    return good_state(snapshot(kind), mesh(kind), "boot")


def view(kind: str, seen: Snapshot, *, was: GoodState | None = None, tunnel: str = "genev_sys_6081") -> View:
    """What an audit of n1 rests on."""
    hellos = {name: hello(kind, name, tunnel) for name in NAMES[1:]}
    device = SWITCH_MESHES[kind].gateway
    return View(snapshot=seen, mesh=mesh(kind), node="n1", hellos=hellos, good=was, seen_device=device)


def planner(kind: str, seen: Snapshot) -> Planner:
    """What n1 makes of its kernel."""
    topology = OVERLAY_MESH.recognise(seen, mesh(kind), NodeName("n1"))
    assert isinstance(topology, Topology), topology
    return Planner(topology, Settings(mesh=mesh(kind)))
