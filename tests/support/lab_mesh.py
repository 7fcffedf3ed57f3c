"""The lab's kilo-flannel mesh as values: declared, seen by a kernel, recognised.

    onprem 192.168.100.0/24              cloud 10.2.0.0/24
      a1 leader   .11  10.244.1.0/24       b1 leader   .11  10.244.4.0/24
      a2 standby  .12  10.244.2.0/24       b2 standby  .12  10.244.5.0/24
      a3 member   .13  10.244.3.0/24       b3 member   .13  10.244.6.0/24

Path 0 is a1-b1 over kilo0, path 1 a1-b2 over mw0, path 2 a2-b1 over mw1, path 3 a2-b2 over mw2, path 4 a1-b1 over mw3.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.canary import Canary
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import SECOND, DaemonSettings, MeshSettings, Mode, PolicySettings, Settings
from meshwatchd.model.snapshot import ForeignObject, Link, Snapshot, Vxlan
from meshwatchd.model.topology import Location, Mesh, Node, Topology, build_mesh
from meshwatchd.profiles import OVERLAY_MESH

NAMES = ("a1", "a2", "a3", "b1", "b2", "b3")
LEADERS = ("a1", "b1")


def declared_mesh() -> MeshSettings:
    """The `[mesh]` section of the lab."""
    locations = (
        Location(name=LocationName("onprem"), leader=NodeName("a1"), standbys=(NodeName("a2"),)),
        Location(name=LocationName("cloud"), leader=NodeName("b1"), standbys=(NodeName("b2"),)),
    )
    return MeshSettings(location=locations, node=tuple(_node(number) for number in range(6)))


def big_mesh(ours: int, theirs: int) -> Mesh:
    """Two locations a and b of so many nodes; a0 and b0 lead, a1 and b1 stand by."""
    locations = [
        Location(name=LocationName(side), leader=NodeName(f"{side}0"), standbys=(NodeName(f"{side}1"),))
        for side in "ab"
    ]
    nodes = [
        Node(
            name=NodeName(f"{side}{number}"),
            location=LocationName(side),
            node_ip=f"10.{index}.{number // 250}.{number % 250 + 1}",
            pod_cidr=f"10.{100 + index * 8 + number // 250}.{number % 250}.0/24",
            overlay_ip=f"10.{100 + index * 8 + number // 250}.{number % 250}.0",
        )
        for index, (side, count) in enumerate((("a", ours), ("b", theirs)))
        for number in range(count)
    ]
    return build_mesh(locations, nodes)


def led_by(leader: str) -> MeshSettings:
    """The `[mesh]` section where another relay of its location leads, and who led stands by."""
    mesh = declared_mesh()
    locations = tuple(
        msgspec.structs.replace(
            each, leader=NodeName(leader), standbys=tuple(name for name in each.relays() if name != leader)
        )
        if leader in each.standbys
        else each
        for each in mesh.location
    )
    return msgspec.structs.replace(mesh, location=locations)


def _node(number: int) -> Node:
    side, index = divmod(number, 3)
    letter, location, prefix = (("a", "onprem", "192.168.100"), ("b", "cloud", "10.2.0"))[side]
    return Node(
        name=NodeName(f"{letter}{index + 1}"),
        location=LocationName(location),
        node_ip=f"{prefix}.{11 + index}",
        pod_cidr=f"10.244.{number + 1}.0/24",
        overlay_ip=f"10.244.{number + 1}.0",
        wireguard_ip=f"10.4.0.{2 - side}" if index == 0 else None,
        standby_public_key=f"key-of-{letter}{index + 1}" if index < 2 else None,
        standby_endpoint=(f"203.0.113.1{index + 1}", f"198.51.100.2{index + 1}")[side] if index < 2 else None,
    )


def settings_for(name: str, *, mode: Mode = Mode.ENFORCE, policy: PolicySettings | None = None) -> Settings:
    """One node's configuration, impatient enough for a test."""
    return Settings(
        daemon=DaemonSettings(node=name, mode=mode),
        mesh=declared_mesh(),
        policy=policy or PolicySettings(hold_down=5 * SECOND, wait_to_restore=2 * SECOND),
    )


def with_ipip(settings: Settings) -> Settings:
    """The same mesh where Kilo encapsulates on the way to the leader."""
    return msgspec.structs.replace(settings, mesh=msgspec.structs.replace(settings.mesh, ipip_device="tunl0"))


def with_ip6(settings: Settings) -> Settings:
    """The same mesh with IPv6 addresses beside all others."""
    nodes = tuple(
        msgspec.structs.replace(
            node,
            node_ip6=f"fd00:2::{number}",
            overlay_ip6=f"fd00:244::{number}",
            wireguard_ip6=f"fd00:4::{number}" if node.wireguard_ip else None,
        )
        for number, node in enumerate(settings.mesh.node, 1)
    )
    return msgspec.structs.replace(settings, mesh=msgspec.structs.replace(settings.mesh, node=nodes))


def with_canaries(settings: Settings, *canaries: Canary) -> Settings:
    """The same mesh with something to ask behind its nodes."""
    return msgspec.structs.replace(settings, probe=msgspec.structs.replace(settings.probe, canary=canaries))


def snapshot_of(
    name: str,
    *,
    rules: Iterable[Rule] = (),
    collisions: tuple[ForeignObject, ...] = (),
    mesh: MeshSettings | None = None,
) -> Snapshot:
    """What the node's kernel shows while the mesh runs."""
    mesh = mesh or declared_mesh()
    own = next(node for node in mesh.node if node.name == name)
    leads = any(location.leader == name for location in mesh.location)
    links = (
        Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=(own.node_ip,)),
        Link(name="kilo0", index=5, kind="wireguard", is_up=leads, mtu_bytes=1420),
        Link(name="flannel.1", index=6, kind="vxlan", is_up=True, mtu_bytes=1450, addresses=(own.overlay_ip,)),
        Link(name="tunl0", index=7, kind="ipip", is_up=True, mtu_bytes=1480),
    )
    return Snapshot(links=links, rules=tuple(sorted(rules, key=repr)), collisions=collisions)


def topology_of(name: str) -> Topology:
    """The mesh as that node recognises it."""
    topology = OVERLAY_MESH.recognise(snapshot_of(name), declared_mesh(), NodeName(name))
    assert isinstance(topology, Topology), topology
    return topology


def planner_of(name: str) -> Planner:
    """The node's planner with default settings."""
    return Planner(topology_of(name), settings_for(name))


def direct_settings(name: str) -> Settings:
    """Flannel over wg0 on three nodes: each is a location of its own, and nobody relays."""
    nodes = tuple(
        Node(
            name=NodeName(f"n{number}"),
            location=LocationName(f"n{number}"),
            node_ip=f"10.8.0.{number}",
            pod_cidr=f"10.42.{number}.0/24",
            overlay_ip=f"10.42.{number}.0",
            wireguard_ip=f"10.8.0.{number}",
        )
        for number in (1, 2, 3)
    )
    locations = tuple(Location(name=node.location, leader=node.name) for node in nodes)
    mesh = MeshSettings(wireguard_device="wg0", location=locations, node=nodes)
    return Settings(daemon=DaemonSettings(node=name), mesh=mesh)


def direct_snapshot() -> Snapshot:
    """What such a node's kernel shows: flannel.1 is bound to wg0."""
    links = (
        Link(name="wg0", index=5, kind="wireguard", is_up=True, mtu_bytes=1420),
        Link(
            name="flannel.1", index=6, kind="vxlan", is_up=True, mtu_bytes=1370, vxlan=Vxlan(vni=1, port=8472, lower=5)
        ),
    )
    return Snapshot(links=links)


def direct_topology(name: str) -> Topology:
    """That mesh as a node recognises it."""
    topology = OVERLAY_MESH.recognise(direct_snapshot(), direct_settings(name).mesh, NodeName(name))
    assert isinstance(topology, Topology), topology
    return topology
