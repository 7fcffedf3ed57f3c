"""A world of two clusters whose workers send to their gateway over a leg of their own, as Submariner's do.

a2, a3 --overlay--> a1 ==tunnel== b1 <--overlay-- b2, b3      what leaves a cluster
a2, a3 <--underlay-- a1           b1 --underlay--> b2, b3     what comes in: by the network of the pods
"""

from __future__ import annotations

import msgspec

from meshwatchd.core.routes.planner import Planner
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.detour import DETOUR_PAIR, is_detour
from meshwatchd.model.ids import Layer, LocationName, NodeName
from meshwatchd.model.mesh_profile import SUBMARINER
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import MeshSettings, Settings, SubmarinerSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, RouteLookup, Snapshot, Vxlan
from meshwatchd.model.topology import Location, Node, Topology
from meshwatchd.profiles import PROFILES
from tests.sim.faults import Leg
from tests.sim.parts import Boot, Delivery, SimNode, Switched, Way, as_it_is
from tests.sim.routes import LOOP, MAX_HOPS, way_of
from tests.sim.world import NETLINK_NS, World
from tests.support.lab_mesh import settings_for

LEADERS = {"a": "a1", "b": "b1"}
REMOTE = {"a": ("10.245.0.0/16", "10.97.0.0/16"), "b": ("10.244.0.0/16", "10.96.0.0/16")}


def star_mesh() -> MeshSettings:
    """The `[mesh]` section of the lab's topology `submariner`."""
    locations = tuple(
        Location(name=LocationName(name), leader=NodeName(leader)) for name, leader in (("east", "a1"), ("west", "b1"))
    )
    nodes = tuple(_node(letter, number) for letter in "ab" for number in (1, 2, 3))
    return MeshSettings(
        profile=SUBMARINER,
        wireguard_device="submariner",
        overlay_device="vx-submariner",
        location=locations,
        node=nodes,
    )


def _node(letter: str, number: int) -> Node:
    net, lan = (244, "168.100") if letter == "a" else (245, "2.0")
    return Node(
        name=NodeName(f"{letter}{number}"),
        location=LocationName("east" if letter == "a" else "west"),
        node_ip=f"10.{net}.{number}.1",
        pod_cidr=f"10.{net}.{number}.0/24",
        overlay_ip=f"240.{lan}.1{number}",
        wireguard_ip=f"10.{net}.{number}.1" if number == 1 else None,
    )


def star_snapshot(name: str, mesh: MeshSettings, rules: tuple[Rule, ...] = (), *, without: str = "") -> Snapshot:
    """What a node's kernel shows; `without` is a prefix whose route it has lost."""
    nodes = {str(node.name): node for node in mesh.node}
    own, leader = nodes[name], nodes[LEADERS[name[0]]]
    links = (
        Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=("192.168.100.9",)),
        Link(name="cni0", index=3, kind="bridge", is_up=True, mtu_bytes=1500, addresses=(own.node_ip,)),
        Link(
            name="vx-submariner",
            index=4,
            kind="vxlan",
            is_up=True,
            mtu_bytes=1450,
            addresses=(own.overlay_ip,),
            vxlan=Vxlan(vni=100, port=4800),
        ),
    )
    near = (node for node in mesh.node if node.location == own.location and node.name != own.name)
    return Snapshot(
        links=links,
        rules=rules,
        device_routes=tuple(
            DeviceRoute(dst=prefix, dev="vx-submariner", table=254, protocol=4, via=leader.overlay_ip)
            for prefix in REMOTE[name[0]]
            if own is not leader and prefix != without
        ),
        near=tuple(RouteLookup(address=node.node_ip, dev="eth0", via=f"lan-of-{node.name}") for node in near),
    )


def star_topology(name: str, snapshot: Snapshot | None = None) -> Topology:
    """The mesh as a node recognises it."""
    mesh = star_mesh()
    topology = PROFILES[SUBMARINER].recognise(snapshot or star_snapshot(name, mesh), mesh, NodeName(name))
    assert isinstance(topology, Topology), topology
    return topology


def detouring(settings: Settings) -> Settings:
    """The same, where workers may go around their legs."""
    return msgspec.structs.replace(settings, submariner=SubmarinerSettings(leg_detour=True))


class StarRoutes:
    """The forwarding of all nodes: each leader has the tunnel, each worker its leg and maybe a detour."""

    def __init__(self, world: StarWorld) -> None:
        self._world = world

    def walk(self, source: str, target: str, wanted: int | None) -> tuple[Leg, ...]:
        """The legs from node to node: as probes of a path or detour go, or with `wanted` None as real traffic does."""
        legs: list[Leg] = []
        here = source
        for _ in range(MAX_HOPS):
            if here == target:
                return tuple(legs)
            legs += [Leg("forward", here, here)] if legs else []
            legs.append(self._hop(here, target, wanted, is_first=here == source))
            here = legs[-1].target
        return (*legs, LOOP)

    def _hop(self, here: str, target: str, wanted: int | None, *, is_first: bool) -> Leg:
        leader = LEADERS[here[0]]
        if here[0] == target[0]:
            return Leg("underlay", here, target)
        if here == leader:
            return Leg("tunnel", here, LEADERS[target[0]])
        # What a neighbour has handed over takes this node's own leg, whatever its own traffic does.
        relay = self._world.relay_of(here, wanted) if is_first else ""
        return Leg("underlay", here, relay) if relay else Leg("overlay", here, leader)


class StarWorld(World):
    """Six engines in two clusters.

    Attributes:
        is_on: whether workers may go around their legs.
        lost_routes: by node, the prefix that its agent has lost.
    """

    def __init__(self, *, seed: int = 1, is_on: bool = True) -> None:
        self.lost_routes: dict[str, str] = {}
        super().__init__(seed=seed, mesh=star_mesh(), adjust=detouring if is_on else as_it_is)
        self.routes = StarRoutes(self)  # type: ignore[assignment]  # asked for ways alone

    def relay_of(self, name: str, wanted: int | None) -> str:
        """By whom a worker sends; empty for its leg."""
        planner, rules = self._planner_of(name), self.nodes[name].rules
        for detour in planner.topology.detours:
            is_chosen = planner.detour(detour) in rules if wanted is None else wanted == detour.number
            if is_chosen:
                return detour.relay
        return ""

    def detours(self) -> dict[str, str]:
        """What each node that goes around its leg says of it."""
        said = {name: node.engine.state.leg.in_use for name, node in self.nodes.items()}
        return {name: str(detour.relay) for name, detour in said.items() if detour is not None}

    def in_kernels(self) -> dict[str, str]:
        """The same by what the kernels hold."""
        return {name: relay for name in self.names if (relay := self.relay_of(name, None))}

    def _planner_of(self, name: str) -> Planner:
        if name not in self._planners:
            settings = detouring(msgspec.structs.replace(settings_for(name), mesh=self.mesh))
            self._planners[name] = Planner(star_topology(name), settings)
        return self._planners[name]

    def _deliver(self, node: SimNode, delivery: Delivery) -> None:
        if not isinstance(delivery, Boot):
            super()._deliver(node, delivery)
            return
        node.is_running = True
        self._feed(node, ev.StateRestored(state=node.state))
        snapshot = star_snapshot(node.name, self.mesh, tuple(sorted(node.rules)))
        self._feed(node, ev.SnapshotReceived(snapshot=snapshot))

    def _switch(self, node: SimNode, command: out.ApplySwitch) -> None:
        assert command.pair == DETOUR_PAIR, "nothing else moves in a mesh without standbys"
        if node.refusal:
            self._post(NETLINK_NS, node.name, ev.SwitchFailed(pair=command.pair, generation=0, error=node.refusal))
            return
        node.rules = node.rules | set(command.switch.add)
        node.rules -= set(command.switch.delete)
        node.changes += 1
        self._forget_ways()
        proven = 0
        for detour in self._planner_of(node.name).topology.detours:
            if self._planner_of(node.name).detour(detour) in command.switch.add:
                proven = self.carried.get((node.name, detour.number), 0)
        change = command.switch
        self.switches.append(Switched(self.now, node.name, change.add, change.delete, True, ev.Reason.NONE, proven))
        self._post(NETLINK_NS, node.name, ev.SwitchApplied(pair=command.pair, generation=0))

    def _way_of(self, source: str, plan: out.SessionPlan) -> Way:
        way = way_of(self._walk, source, plan)
        if plan.layer is not Layer.RELAY:
            return way
        # Answers to probes of the leg take the leg of who answers; those to a detour's go as real traffic does.
        back = self._walk(plan.peer, source, None if is_detour(plan.path) else plan.path)
        return way._replace(back=back)
