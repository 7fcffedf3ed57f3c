"""A world whose mesh changes: leaders, nodes and locations come and go, in kernels at once and in daemons later.

Here every node's kernel is kept apart: which standby links there are and whom they lead to, which routes each table
holds, which selectors stand. Packets walk by that and by what Kilo has programmed, not by what any daemon believes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.ids import FlowClass, LocationName, NodeName
from meshwatchd.model.plan import Provision, Route, Rule
from meshwatchd.model.port_map import path_port
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import (
    MS,
    SECOND,
    DaemonSettings,
    MeshSettings,
    Mode,
    MtuSettings,
    PolicySettings,
    Settings,
)
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.topology import Location, Node
from tests.sim.clones import made_once
from tests.sim.faults import Fault, Leg
from tests.sim.parts import Boot, SimNode, Switched
from tests.sim.routes import LOOP, MAX_HOPS
from tests.sim.world import NETLINK_NS, World

PROVISION_NS = 20 * MS
"""From the engine's word to standing objects: the agent is another process, and makes devices."""

Places = Mapping[str, tuple[str, ...]]
"""The nodes of each location: its leader, its standbys, and after an empty name its members."""

LAB: Places = {"cloud": ("b1", "b2", "", "b3"), "onprem": ("a1", "a2", "", "a3")}


def mesh_of(places: Places) -> MeshSettings:
    """The mesh with these nodes; a node's addresses follow from its name alone."""
    locations, nodes = [], []
    for name, listed in places.items():
        relays = listed[: listed.index("")]
        locations.append(
            Location(
                name=LocationName(name),
                leader=NodeName(relays[0]),
                standbys=tuple(NodeName(each) for each in relays[1:]),
            )
        )
        nodes += [_node(each, name, is_leader=each == relays[0]) for each in listed if each]
    return MeshSettings(location=tuple(locations), node=tuple(nodes))


def _node(name: str, location: str, *, is_leader: bool) -> Node:
    side, index = ord(name[0]), int(name[1:])
    return Node(
        name=NodeName(name),
        location=LocationName(location),
        node_ip=f"10.{side}.0.{index}",
        pod_cidr=f"10.{side}.{index}.0/24",
        overlay_ip=f"10.{side}.{index}.0",
        wireguard_ip=f"10.4.0.{side}" if is_leader else None,
        standby_public_key=f"key-of-{name}",
        standby_endpoint=f"198.51.{side}.{index}",
    )


@dataclass
class Kernel:
    """Standing objects of one node.

    Attributes:
        links: peer and port of each standby device.
        routes: by table and destination.
        rules: standing ones.
    """

    links: dict[str, tuple[str, int]] = field(default_factory=dict)
    routes: dict[tuple[int, str], Route] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

    def provide(self, wanted: Provision) -> None:
        """What the agent makes of a Provision."""
        links = {link.device: (link.peer, link.listen_port) for link in wanted.links}
        self.links = {name: to for name, to in self.links.items() if name in wanted.kept_devices} | links
        kept = {key: route for key, route in self.routes.items() if key[0] in wanted.kept_tables}
        self.routes = kept | {(route.table, route.dst): route for route in wanted.routes}
        self.rules = wanted.rules


class Forwarding:
    """The ways of packets, by every node's own kernel."""

    def __init__(self, world: ChangingWorld) -> None:
        self._world = world

    def walk(self, source: str, target: str, wanted: int | None) -> tuple[Leg, ...]:
        """The legs from node to node: a probe's of a path, or with `wanted` None those of real traffic."""
        legs: list[Leg] = []
        here = source
        for _ in range(MAX_HOPS):
            if here == target:
                return tuple(legs)
            if legs:
                legs.append(Leg("forward", here, here))
            leg = self._hop(here, target, wanted)
            if leg is None:
                break
            legs.append(leg)
            here = leg.target
        return (*legs, LOOP)

    def _hop(self, here: str, target: str, wanted: int | None) -> Leg | None:
        nodes = self._world.addresses
        if nodes[here].location == nodes[target].location:
            return Leg("overlay", here, target)
        route = self._look_up(here, f"{nodes[target].node_ip}/32", wanted)
        if route is None:
            return self._by_kilo(here, target)
        if route.via is not None:
            (relay,) = (name for name, node in nodes.items() if node.overlay_ip == route.via)
            return Leg("overlay", here, relay)
        peer, port = self._world.kernels[here].links.get(route.dev, ("", 0))
        is_mutual = (here, port) in self._world.kernels[peer].links.values() if peer else False
        return Leg("tunnel", here, peer, 1) if is_mutual else None

    def _look_up(self, here: str, dst: str, wanted: int | None) -> Route | None:
        kernel, node = self._world.kernels[here], self._world.nodes[here]
        base = self._world.settings[here].kernel.priority_base
        if wanted is not None:
            port = path_port(self._world.settings[here].probe.port, wanted)
            for rule in kernel.rules:
                if rule.dport == (port, port):
                    return kernel.routes.get((rule.table, dst)) if rule.goto is None else None
        for rule in sorted(node.rules):
            if rule.priority >= RuleWindow(first=base).override(0) and (rule.table, dst) in kernel.routes:
                return kernel.routes[rule.table, dst]
        return None

    def _by_kilo(self, here: str, target: str) -> Leg | None:
        nodes, leaders = self._world.addresses, self._world.leaders
        leader = leaders[nodes[here].location]
        if leader != here:
            return Leg("overlay", here, leader)
        return Leg("tunnel", here, leaders[nodes[target].location])


class ChangingWorld(World):
    """Engines that learn of their mesh by snapshots.

    Args:
        seed: of everything random in it.
        places: the mesh at the start.
        later: nodes that are there and in no mesh yet.
        mode: of every node.

    Attributes:
        leaders: by whom Kilo's routes lead, by location.
        dead_tunnels_until: until when Kilo's tunnels of a location pass nothing.
    """

    def __init__(self, *, seed: int = 1, places: Places = LAB, later: Places | None = None, mode: Mode = Mode.ENFORCE):
        self.seed = seed
        self.rng = random.Random(seed)
        self.now = 1000 * SECOND
        self.faults: list[Fault] = []
        self.told = []
        self.switches = []
        self.replies = []
        self.sent = 0
        self.journals = {}
        self._heap = []
        self._count = 0
        self._ways, self._walks = {}, {}
        self.carried = {}
        self.has_followers, self._followed = False, {}
        self.mesh = mesh_of(places)
        everybody = mesh_of({**places, **(later or {})})
        self.addresses: dict[str, Node] = {node.name: node for node in everybody.node}
        self.locations = {str(node.name): str(node.location) for node in everybody.node}
        self.names = tuple(sorted(self.addresses))
        self.loops = []
        self.leaders: dict[str, str] = {location.name: location.leader for location in everybody.location}
        policy = PolicySettings(hold_down=5 * SECOND, wait_to_restore=2 * SECOND)
        self.settings = {
            name: Settings(daemon=DaemonSettings(node=name, mode=mode), policy=policy, mtu=MtuSettings(enabled=False))
            for name in self.addresses
        }
        self.kernels: dict[str, Kernel] = {name: Kernel() for name in self.addresses}
        self.known: dict[str, MeshSettings | None] = dict.fromkeys(self.addresses)
        self.links: dict[str, int] = dict.fromkeys(self.addresses, 5)
        self.routes = Forwarding(self)  # type: ignore[assignment]
        self.nodes = {name: SimNode(name, self._engine(name)) for name in self.addresses}
        for node in self.mesh.node:
            self.known[node.name] = self.mesh
            self._post(self.rng.randrange(50 * MS), node.name, Boot())

    def _post(self, delay_ns: int, name: str, delivery: Any) -> None:
        super()._post(delay_ns, name, delivery)

    def change(self, places: Places, *, after_ns: int = 0, within_ns: int = 500 * MS) -> None:
        """The mesh becomes another one: in Kilo's routes at once, in each daemon some time later.

        Args:
            places: from here on.
            after_ns: the earliest that a daemon knows, which is what it waits for a flag to settle.
            within_ns: the daemons know one after the other in this time.
        """
        self._forget_ways()
        before, self.mesh = self.mesh, mesh_of(places)
        self.leaders |= {location.name: location.leader for location in self.mesh.location}
        self.addresses |= {node.name: node for node in self.mesh.node}
        for name in sorted({node.name for node in (*before.node, *self.mesh.node)}):
            self._post(after_ns + self.rng.randrange(1, within_ns), name, Learn(self.mesh))

    def stir(self, name: str, *, is_rebuilding: bool) -> None:
        """Kilo touches kilo0 on a node; its agent hears of it from the kernel."""
        self._post(2 * MS, name, ev.MeshStirred(what="kilo0 was touched", is_rebuilding=is_rebuilding))

    def snapshot(self, name: str) -> Snapshot:
        """What the agent of a node tells."""
        is_up = name in self.leaders.values()
        return Snapshot(
            links=(
                Link(name="kilo0", index=self.links[name], kind="wireguard", is_up=is_up, mtu_bytes=1420),
                Link(name="flannel.1", index=6, kind="vxlan", is_up=True, mtu_bytes=1450),
            ),
            rules=tuple(sorted(self.nodes[name].rules)),
            routes=tuple(self.kernels[name].routes.values()),
            mesh=self.known[name],
        )

    def loses(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Pairs of nodes between which real traffic does not pass at this moment."""
        return [(one, other) for one, other in pairs if not self.carries(one, other, FlowClass.FRESH)]

    def crossings(self, *locations: str) -> list[tuple[str, str]]:
        """Nodes of different locations, among these."""
        nodes = [node for node in self.mesh.node if node.location in locations]
        return [(one.name, other.name) for one in nodes for other in nodes if one.location < other.location]

    def verdicts(self) -> dict[str, str]:
        """What every node says of each of its pairs."""
        return {
            name: ", ".join(
                f"{c.watch.remote}: {c.verdicts.current.fault}@{c.verdicts.current.culprit}"
                for c in node.engine.state.controllers.values()
            )
            for name, node in self.nodes.items()
        }

    def pair(self, name: str, remote: str) -> int:
        """The index of a node's pair with a location."""
        return next(index for index, c in self.nodes[name].engine.state.controllers.items() if c.watch.remote == remote)

    def _deliver(self, node: SimNode, delivery: Any) -> None:
        if isinstance(delivery, Boot):
            node.is_running = True
            self._feed(node, ev.SnapshotReceived(snapshot=self.snapshot(node.name)))
        elif isinstance(delivery, Learn):
            self.known[node.name] = delivery.mesh
            self._feed(node, ev.SnapshotReceived(snapshot=self.snapshot(node.name)))
        elif isinstance(delivery, Provide):
            self._forget_ways()
            self.kernels[node.name].provide(delivery.provision)
            self._feed(node, ev.Provisioned(is_complete=True))
        else:
            super()._deliver(node, delivery)

    def _effect(self, node: SimNode, output: out.Output) -> None:
        if isinstance(output, out.EnsureProvision):
            self._post(PROVISION_NS, node.name, Provide(output.provision))
        else:
            super()._effect(node, output)

    def _switch(self, node: SimNode, command: out.ApplySwitch) -> None:
        node.rules |= set(command.switch.add)
        node.rules -= set(command.switch.delete)
        node.changes += 1
        self._forget_ways()
        self.switches.append(
            Switched(self.now, node.name, command.switch.add, command.switch.delete, True, ev.Reason.NONE)
        )
        self._post(NETLINK_NS, node.name, ev.SwitchApplied(pair=command.pair, generation=command.generation))


class Learn(msgspec.Struct, frozen=True):
    """The agent has found out which mesh it is."""

    mesh: MeshSettings


class Provide(msgspec.Struct, frozen=True):
    """The agent has put standing objects in place."""

    provision: Provision


def settled_world(*, seed: int = 1, places: Places = LAB, later: Places | None = None) -> ChangingWorld:
    """A world in which every daemon of the mesh is ready and every session has been up."""
    return _settled_world(seed, tuple(places.items()), tuple((later or {}).items()))


@made_once
def _settled_world(
    seed: int, places: tuple[tuple[str, tuple[str, ...]], ...], later: tuple[tuple[str, tuple[str, ...]], ...]
) -> ChangingWorld:
    world = ChangingWorld(seed=seed, places=dict(places), later=dict(later))
    world.run(3 * SECOND)
    names = [node.name for node in world.mesh.node]
    assert all(c.is_ready for name in names for c in world.nodes[name].engine.state.controllers.values()), world.story()
    return world
