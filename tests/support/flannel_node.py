"""A node as flanneld leaves it: one route, one permanent neighbour and one FDB entry for each other node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from meshwatchd.core.audit.confirmation import without_consequences
from meshwatchd.core.audit.expected_entries import GoodState, good_state
from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import AuditFinding, Entries
from meshwatchd.model.discovery import Hello, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Forwarding, Link, Neighbour, Snapshot, Vxlan
from meshwatchd.model.topology import Location, Node

DEVICE = "flannel.1"
LOCAL = "n0"


def mac(number: int) -> str:
    """The MAC of a node's VTEP."""
    return f"22:aa:aa:aa:00:{number:02x}"


def mesh(count: int, *, profile: str = "flannel") -> MeshSettings:
    """So many nodes in one location; n0 is the one that looks."""
    nodes = tuple(
        Node(
            name=NodeName(f"n{number}"),
            location=LocationName("site"),
            node_ip=f"192.168.50.{10 + number}",
            pod_cidr=f"10.42.{number}.0/24",
            overlay_ip=f"10.42.{number}.0",
        )
        for number in range(count)
    )
    location = Location(name=LocationName("site"), leader=NodeName("n0"))
    return MeshSettings(profile=profile, wireguard_device="wg0", location=(location,), node=nodes)


def entries(count: int) -> Entries:
    """What flannel.1 of n0 holds in a mesh of so many nodes."""
    others = range(1, count)
    return Entries(
        neighbours=tuple(
            Neighbour(dev=DEVICE, address=f"10.42.{n}.0", lladdr=mac(n), is_permanent=True) for n in others
        ),
        forwarding=tuple(Forwarding(dev=DEVICE, lladdr=mac(n), dst=f"192.168.50.{10 + n}") for n in others),
        routes=tuple(
            DeviceRoute(dst=f"10.42.{n}.0/24", dev=DEVICE, table=254, protocol=3, via=f"10.42.{n}.0", is_onlink=True)
            for n in others
        ),
    )


def snapshot(
    held: Entries,
    *,
    lladdr: str = mac(0),
    is_up: bool = True,
    has_device: bool = True,
    dead_ends: tuple[DeviceRoute, ...] = (),
    vxlan: Vxlan | None = None,
) -> Snapshot:
    """A kernel with flannel.1 and wg0."""
    flannel = Link(name=DEVICE, index=6, kind="vxlan", is_up=is_up, mtu_bytes=1450, lladdr=lladdr, vxlan=vxlan)
    wireguard = Link(name="wg0", index=5, kind="wireguard", is_up=True, mtu_bytes=1420)
    return Snapshot(
        links=(wireguard, flannel) if has_device else (wireguard,),
        device_routes=held.routes,
        neighbours=held.neighbours,
        forwarding=held.forwarding,
        dead_ends=dead_ends,
    )


def good(count: int) -> GoodState:
    """What n0 held while all was well."""
    return good_state(snapshot(entries(count)), mesh(count), "boot")


def hello(number: int, lladdr: str, **more: Any) -> Hello:
    """What a node says of itself; `more` changes its view."""
    view = LocalView(
        profiles=("flannel",),
        node=NodeName(f"n{number}"),
        node_ip=f"192.168.50.{10 + number}",
        pod_cidr=f"10.42.{number}.0/24",
        overlay_ip=f"10.42.{number}.0",
        vtep_mac=lladdr,
    )
    return Hello(view=msgspec.structs.replace(view, **more))


def look(
    seen: Snapshot,
    count: int = 3,
    *,
    known: GoodState | None = None,
    hellos: Mapping[str, Hello] | None = None,
    unheard: Iterable[str] = (),
) -> tuple[AuditFinding, ...]:
    """What an audit of n0 tells, consequences left out."""
    view = View(
        snapshot=seen, mesh=mesh(count), node=LOCAL, hellos=hellos or {}, good=known, unheard=frozenset(unheard)
    )
    return without_consequences(audit(view))


def changed(held: Entries, **fields: object) -> Entries:
    """Entries with some replaced."""
    return msgspec.structs.replace(held, **fields)
