"""What one engine holds: its parts, and the mesh and pairs of the moment.

The engine dispatches over it, a mesh update replaces the mesh in it, operators' requests and status read it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.core.diagnosis.banner_windows import shared_pairs
from meshwatchd.core.diagnosis.peer_views import PeerViews
from meshwatchd.core.failover.leg_detour import LegDetour
from meshwatchd.core.failover.leg_watch import LegParts
from meshwatchd.core.failover.pair_controller import PairController
from meshwatchd.core.failover.persistence import Memory
from meshwatchd.core.failover.storm import Storm
from meshwatchd.core.failover.topology_change_hold import HEARSAY_NS, HERE, Unrest
from meshwatchd.core.pmtu.pmtu import SizeWatch
from meshwatchd.core.probing.overload import Load
from meshwatchd.core.probing.packet_budget import Allowance, Use
from meshwatchd.core.probing.round_robin import GIVEN_UP_NS
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.core.session.session import Session
from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.events import Banner, MeshStirred
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.outputs import MeshUnsettled, Output
from meshwatchd.model.settings import MS, Settings
from meshwatchd.model.topology import Topology

REPEAT_NS = HEARSAY_NS // 2
"""How often others are told that the mesh's own agent is at work: one packet may be lost before they forget it."""

CALL_PAUSE_NS = 200 * MS
"""Neighbours are called once for all pairs that something speaks against at one time."""


class EngineState:
    """One engine's parts and its mesh.

    Attributes:
        topology: the mesh of the moment, None while there is none.
        controllers: one for each pair of locations, by the pair's index.
        leg: this node's own leg to its leader, and what goes around it.
        by_path: the controllers that look at a path's sessions; for segments, which are on no path, all of them.
        in_use, awake: numbers of the paths that carry traffic, and pairs that are looked at by everybody, as the
            schedule was told of them last.
        around: likewise the number of the detour that carries traffic; empty for none.
        shared_pairs: for peers of other locations the one pair that they and this node both have.
        readings: what peers advertised last in each window, and what of it this node understands; void with its pairs.
        clusters: the control planes of other clusters by name, as this node's agent of Cilium sees them.
        is_told: whether the banner that goes with probes is known to be up to date.
    """

    def __init__(self, settings: Settings, node: NodeName, rng: random.Random) -> None:
        self.settings = settings
        self.node = node
        self.rng = rng
        self.topology: Topology | None = None
        self.controllers: dict[int, PairController] = {}
        self.schedule = Schedule(settings, rng, node)
        self.views = PeerViews()
        self.findings = FindingBook(settings, node)
        self.unrest = Unrest()
        self.allowance = Allowance(settings.probe.packets_per_second)
        self.sizes = SizeWatch(settings, self.allowance)
        self.memory = Memory()
        self.storm = Storm(settings.policy.storm_locations)
        self.load = Load()
        self.leg = LegDetour(
            LegParts(
                settings=settings,
                schedule=self.schedule,
                allowance=self.allowance,
                orders=self.memory.orders,
                views=self.views,
                unrest=self.unrest,
                rng=rng,
            )
        )
        self.by_path: dict[int, tuple[PairController, ...]] = {}
        self.in_use: tuple[int, ...] = ()
        self.around: tuple[int, ...] = ()
        self.awake: tuple[int, ...] = ()
        self.shared_pairs: Mapping[NodeName, int] = {}
        self.readings: dict[tuple[NodeName, int], tuple[Banner, Banner]] = {}
        self.clusters: Mapping[str, ClusterControl] = {}
        self.is_told = True
        self._called_at = -CALL_PAUSE_NS
        self._spread_at, self._repeat_at = -REPEAT_NS, 0

    def take_over(self, topology: Topology, controllers: dict[int, PairController]) -> None:
        """Put another mesh and its pairs in force."""
        before = [each.watch.remote for each in self.controllers.values()]
        if before != [each.watch.remote for each in controllers.values()]:
            self.storm.begin(len(controllers))
            self.allowance.begin(len(controllers))
        self.topology = topology
        self.controllers = controllers
        self.by_path = {
            NO_PATH: tuple(controllers.values()),
            **{detour.number: () for detour in topology.detours},
            **{path.number: (controllers[path.pair],) for path in topology.local_paths()},
        }
        self.in_use = self.awake = ()
        self.shared_pairs, self.readings = shared_pairs(topology), {}
        near = topology.mesh.members(topology.local.location)
        self.findings.neighbours = frozenset(str(each.name) for each in near if each.name != self.node)

    def control_of(self, cluster: str) -> ClusterControl | None:
        """The control plane of another cluster; None where nothing is known of it."""
        return self.clusters.get(cluster)

    def is_shared(self, peer: NodeName, pair: int) -> bool:
        """Whether a peer means this node's pair by a number."""
        return self.shared_pairs.get(peer, pair) == pair

    def use_paths(self, now: int) -> None:
        """Probe the paths that carry traffic as what they are, and those of pairs in doubt as closely as can be."""
        pairs = self.controllers.values()
        in_use = tuple([controller.mover.active.number for controller in pairs])
        awake = tuple([number for number, each in self.controllers.items() if each.is_awake(now)])
        around = self.leg.numbers()
        if (in_use, awake, around) != (self.in_use, self.awake, self.around):
            self.around = around
            is_moved, woken = in_use != self.in_use, [number for number in awake if number not in self.awake]
            self.in_use, self.awake = in_use, awake
            primary = [controller.watch.primary.number for controller in pairs]
            looked_at = [path.number for pair in awake for path in self.controllers[pair].watch.paths]
            self.schedule.use_paths([*in_use, *primary, *around], now, awake=[*looked_at, NO_PATH] if awake else ())
            for number in woken:
                self._wake(self.controllers[number], now)
            if is_moved:
                self.sizes.use_paths(in_use, now)

    def look_below(self, session: Session, now: int) -> None:
        """A node's pods are cut off if the node itself answers: at rest nobody may have asked it for a minute.

        Nor what else passes between the same addresses.
        """
        if session.plan.layer is Layer.POD_NETWORK and now - session.last_heard <= GIVEN_UP_NS:
            for each in self.schedule.select(layer=Layer.POD_NETWORK, peer=session.plan.peer, is_advisory=True):
                self.schedule.look_closely(each, now)
            for each in self.schedule.select(layer=Layer.RELAY):
                if each.plan.peer == session.plan.peer and each.plan.path in self.in_use:
                    self.schedule.look_closely(each, now)

    def _wake(self, controller: PairController, now: int) -> None:
        """What was asked once in a while is to be known before it is needed, and neighbours may have seen nothing."""
        for path in controller.watch.paths:
            if path is not controller.mover.active:
                for session in self.schedule.select(path=path.number):
                    self.schedule.look_closely(session, now)
        if controller.attention.is_alarmed and now - self._called_at >= CALL_PAUSE_NS:
            self._called_at = now
            near = self.schedule.select(layer=Layer.UNDERLAY)
            granted = self.allowance.take(len(near), now, Use.REPEAT)
            self.schedule.confirm(near[:granted], now, rounds=1)

    def note_topology_change(self, stirred: MeshStirred, now: int) -> Iterator[Output]:
        """The mesh's own agent changes something on this node: every node that hears of it keeps still.

        What others see for themselves they are told by packets that leave anyway: more would slow the agent down.
        """
        is_known = stirred.is_seen_everywhere or self.unrest.is_told_by_others(now)
        if self.unrest.stirred(now, is_rebuilding=stirred.is_rebuilding):
            self._repeat_at, self.is_told = now + REPEAT_NS, False
            yield MeshUnsettled(what=stirred.what)
        if not is_known and self.unrest.bits(now) and now - self._spread_at >= REPEAT_NS:
            self.spread_banner(now)

    def repeat_unrest(self, now: int) -> None:
        """Few probes leave while the mesh's own agent is at work: the word of it would be forgotten between two."""
        if now >= self._repeat_at and self.unrest.bits(now):
            self.spread_banner(now)

    def spread_banner(self, now: int) -> None:
        """Probe every node past the tunnel once: the banner goes with each of these probes.

        What is done here is told to neighbours as well. What a neighbour does they hear from it, and relays pass it on
        to the other locations: each packet more would take processor from the agent.
        """
        is_here = bool(self.unrest.bits(now) & HERE)
        near = self.schedule.select(layer=Layer.UNDERLAY) if is_here else ()
        beyond: dict[NodeName, Session] = {}
        for controller in self.controllers.values():
            watch = controller.watch
            standbys = [path for path in watch.paths if not path.is_primary] if is_here or watch.is_decider else []
            for path in sorted(standbys, key=lambda path: not watch.group(path).is_good):
                for session in self.schedule.select(layer=Layer.RELAY, path=path.number, flow=FlowClass.FRESH):
                    beyond.setdefault(session.plan.peer, session)
        self._spread_at, self._repeat_at = now, now + REPEAT_NS
        granted = self.allowance.take(len(near) + len(beyond), now, Use.REPEAT)
        self.schedule.confirm((*near, *beyond.values())[:granted], now, rounds=1)
        self.is_told = False
