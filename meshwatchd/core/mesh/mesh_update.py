"""Takes over the mesh as the kernel and the other nodes show it: at the start, and whenever it becomes another one.

    snapshot -> profile -> topology --the same--> nothing
                                    --another---> sessions, pairs and standing objects that differ; all else goes on

A mesh that is not known yet is waited for: nothing is probed, and what is missing is said once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwatchd.core.audit.next_hops import next_hops
from meshwatchd.core.diagnosis.banner_windows import windows_of
from meshwatchd.core.diagnosis.pair_evidence import PairWatch
from meshwatchd.core.diagnosis.verdict_hold import VerdictKeeper
from meshwatchd.core.failover.damping import Damper
from meshwatchd.core.failover.pair_context import PairContext
from meshwatchd.core.failover.pair_controller import PairController
from meshwatchd.core.failover.state_machine import MoveStateMachine
from meshwatchd.core.failover.topology_change_hold import rewritten
from meshwatchd.core.mesh.agent_leave import note_agent
from meshwatchd.core.mesh.engine_state import EngineState
from meshwatchd.core.mesh.mesh_diff import differences, is_same, number
from meshwatchd.core.mesh.topology_builder import Recogniser, Surroundings
from meshwatchd.core.probing.detour_plan import kinds_of, lay_out, ports_answered
from meshwatchd.core.probing.rest_limits import rest_stretch, shape_of
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.core.routes.planner import Place, Planner
from meshwatchd.core.routes.policy_rules import by_pair, legacy_of, strays
from meshwatchd.model.detour import DETOUR_PAIR, Detour, is_detour
from meshwatchd.model.events import MeshStirred, Provisioned, SwitchApplied, SwitchFailed
from meshwatchd.model.failover_facts import OverrideAdopted, PlanRefused
from meshwatchd.model.faults import FaultCode, Severity, Verdict
from meshwatchd.model.ids import Layer
from meshwatchd.model.mesh_profile import Unrecognised
from meshwatchd.model.outputs import (
    ApplySwitch,
    CollisionFound,
    ConfigureSessions,
    DaemonStarted,
    EnsureProvision,
    Output,
    SessionPlan,
    TopologyChanged,
    TopologyRejected,
    VerdictChanged,
)
from meshwatchd.model.plan import Switch
from meshwatchd.model.settings import SECOND, Mode
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.topology import PathKey, Topology

GONE = -1
"""The pair of changes that nobody waits for: overrides that are nobody's, or lead to no location of the mesh."""

OLD_NEWS_NS = 5 * SECOND
"""A snapshot that comes so soon after a change of override may have been taken before it."""


class Takeover:
    """What one engine knows of its mesh, and how it came to know it.

    Attributes:
        planner: of the mesh of the moment, None while there is none.
        is_agent_new: the agent was started anew and has not been told what shall stand.
        held: devices and tables that had to stay as they are when standing objects were asked for last.
        standing: standby paths whose links and selectors are in place, with that place. Until then a probe of one goes
            by the mesh's own path, or by the path that had its number, and praises a path that does not exist.
        standing_detours: the same of ways around this node's leg.
    """

    def __init__(self, state: EngineState, recogniser: Recogniser) -> None:
        self.planner: Planner | None = None
        self.is_agent_new = False
        self.held: tuple[frozenset[str], frozenset[int]] | None = None
        self.standing: frozenset[tuple[PathKey, Place]] = frozenset()
        self.standing_detours: tuple[Detour, ...] = ()
        self._state = state
        self._recogniser = recogniser
        self._rejected = ""
        self._surroundings: Surroundings | None = None
        self._waiting: Snapshot | None = None
        self._snapshot: Snapshot | None = None
        self._switched_at = -OLD_NEWS_NS

    @property
    def rejection(self) -> str:
        """Why no mesh is in force; empty where one is, and before the first snapshot."""
        return self._rejected if self._state.topology is None else ""

    @property
    def collisions(self) -> tuple[str, ...]:
        """Objects of others where ours would go, while nothing is changed for them; with their remedies."""
        is_held = self._surroundings is not None and not self._surroundings.is_acting
        if self._snapshot is None or not is_held or self._state.settings.daemon.mode is not Mode.ENFORCE:
            return ()
        return tuple(each.what for each in self._snapshot.collisions)

    def observe(self, snapshot: Snapshot, now: int) -> Iterator[Output]:
        """Take in the state of the kernel."""
        is_switching = any(controller.is_switching for controller in self._state.controllers.values())
        if is_switching or self._state.leg.is_switching:
            # The kernel answers at once, and about the paths as they are.
            self._waiting = snapshot
            return
        before, self._snapshot = self._snapshot, snapshot
        change = "" if before is None else rewritten(before, snapshot, self._recogniser.settings.mesh)
        if change and self._state.topology is not None:
            stirred = MeshStirred(what=change, is_rebuilding=True, is_seen_everywhere=True)
            yield from self._state.note_topology_change(stirred, now)
        self._state.findings.next_hops = next_hops(snapshot, snapshot.mesh or self._recogniser.settings.mesh)
        self._state.clusters = {each.name: each for each in snapshot.clusters}
        topology = self._recogniser.recognise(snapshot)
        known = self._state.topology if isinstance(topology, Unrecognised) else topology
        if known is not None:
            yield from note_agent(self._state, known, now, before=before, after=snapshot)
        if isinstance(topology, Unrecognised):
            # In the middle of a change something may be missing for a moment; what is known stays in force.
            if self._state.topology is None or not self._state.unrest.bits(now):
                yield from self._reject(topology.reason)
            return
        if snapshot.collisions:
            what = tuple(collision.what for collision in snapshot.collisions)
            if self._rejected != str(what):
                self._rejected = str(what)
                yield CollisionFound(what=what)
        surroundings = Surroundings.of(self._recogniser.settings, snapshot, is_acting=self._may_act(snapshot))
        if not is_same(self._state.topology, topology) or surroundings != self._surroundings:
            self._surroundings = surroundings
            yield from self._begin(topology, snapshot, now)
        else:
            self._state.sizes.observe(snapshot, now)
            if self.is_agent_new and surroundings.is_acting:
                yield from self.provide(now, is_due=True)
            yield from self._compare(snapshot, now)
        self.is_agent_new = False

    def _may_act(self, snapshot: Snapshot) -> bool:
        """What stands already keeps standing: an object of somebody else that turns up later is told, no more.

        But for a rule that is asked before ours: with it a failover would move nothing, and peers would follow it.
        """
        was_acting = self._surroundings is not None and self._surroundings.is_acting
        is_in_vain = any(each.is_ahead for each in snapshot.collisions)
        is_free = not snapshot.collisions or (was_acting and not is_in_vain)
        return self._state.settings.daemon.mode is Mode.ENFORCE and is_free

    def _begin(
        self, topology: Topology, snapshot: Snapshot, now: int, *, is_provided: bool = False
    ) -> Iterator[Output]:
        """Take over a mesh; all that is the same as before goes on."""
        assert self._surroundings is not None, "a mesh is seen somewhere"
        is_acting, before, known = self._surroundings.is_acting, self._state.topology, self._state.schedule.sessions
        self.planner = planner = Planner(topology, self._recogniser.settings)
        plans = self._lay_out(planner, is_acting=is_acting)
        plans, kept = number(plans, topology, (each.plan for each in known), before)
        state = self._state
        carrying = {controller.mover.active.key for controller in state.controllers.values()}
        paths = topology.local_paths()
        state.schedule.rest = rest_stretch(planner.settings.probe, shape_of(topology))
        state.schedule.use_paths((path.number for path in paths if path.is_primary or path.key in carrying), now)
        state.schedule.start(plans, now, kinds_of(planner, plans), kept)
        controllers, switches = self._conduct(planner, now, is_acting=is_acting)
        gone = [each for each in state.controllers.values() if each not in controllers.values()]
        yield from _end_verdicts(gone)
        state.take_over(topology, controllers)
        if before is None:
            yield DaemonStarted(
                node=self._state.node,
                mode=self._state.settings.daemon.mode,
                profile=topology.profile,
                why=topology.why,
                sessions=len(plans),
            )
            yield from state.findings.repeat()
        elif not is_same(before, topology):
            yield TopologyChanged(
                what=differences(before, topology),
                why=topology.why,
                kept=len(kept),
                begun=len(plans) - len(kept),
                ended=len(known) - len(kept),
            )
        for sentence in planner.withheld:
            yield PlanRefused(pair=-1, reason=sentence)
        state.findings.forget_misfits(now)
        yield ConfigureSessions(
            sessions=plans,
            nodes=tuple(node.name for node in topology.mesh.nodes),
            tunnel=self._recogniser.settings.mesh.wireguard_device if _leads(topology) else "",
            windows=windows_of(topology),
            external=self._surroundings.external,
            ports=ports_answered(planner),
        )
        yield from state.sizes.start(planner, tuple(each for each in plans if not is_detour(each.path)), snapshot, now)
        yield from state.leg.change(planner, now, is_enforcing=is_acting)
        for rules in (controller.overrides() for controller in gone):
            if rules and is_acting:
                yield ApplySwitch(pair=GONE, generation=0, switch=Switch(delete=rules))
        if before is None:
            yield from self._adopt(snapshot, now)
        if is_acting and not is_provided:
            yield from self.provide(now, is_due=True)
        for pair, switch in switches.items():
            if is_acting and switch != Switch():
                yield ApplySwitch(pair=pair, generation=controllers[pair].mover.generation, switch=switch)
        self._state.use_paths(now)

    def _lay_out(self, planner: Planner, *, is_acting: bool) -> tuple[SessionPlan, ...]:
        paths = planner.topology.local_paths()
        places = {path.number: (path.key, planner.place_of(path)) for path in paths}
        # What changes its number, and with that its link and its table, has yet to be put where it belongs.
        self.standing &= frozenset(places.values())
        probed = {NO_PATH, *(path.number for path in paths if path.is_primary or places[path.number] in self.standing)}
        detours = planner.topology.detours
        plans = lay_out(planner, has_standby=is_acting, has_detours=is_acting and detours == self.standing_detours)
        return tuple(plan for plan in plans if plan.path in probed or is_detour(plan.path))

    def provisioned(self, event: Provisioned, now: int) -> Iterator[Output]:
        """The standing objects are in place, or what of them the kernel will have: standby paths can be probed.

        While they are pending the kernel is as it was, and so is what is known to stand in it.
        """
        for error in event.errors:
            yield PlanRefused(pair=-1, reason=error)
        if event.is_pending:
            return
        topology, snapshot, planner = self._state.topology, self._snapshot, self.planner
        if topology is None or snapshot is None or planner is None:
            return
        if self._surroundings is None or not self._surroundings.is_acting:
            return
        standing = frozenset((path.key, planner.place_of(path)) for path in planner.paths if not path.is_primary)
        detours = planner.topology.detours
        if standing != self.standing or detours != self.standing_detours:
            self.standing, self.standing_detours = standing, detours
            yield from self._begin(topology, snapshot, now, is_provided=True)

    def _conduct(
        self, planner: Planner, now: int, *, is_acting: bool
    ) -> tuple[dict[int, PairController], dict[int, Switch]]:
        """A controller for each pair, and the change of its policy rules that another mesh makes necessary.

        A controller that is there already goes on with the paths that the pair has.
        """
        topology = planner.topology
        self._state.views.retain({node.name for node in topology.mesh.nodes})
        paths = topology.local_paths()
        home = topology.local.location
        known = {each.watch.remote: each for each in self._state.controllers.values() if each.watch.home == home}
        controllers, switches = {}, {}
        for pair in sorted({path.pair for path in paths}):
            of_pair = tuple(path for path in paths if path.pair == pair)
            controller = known.get(of_pair[0].other_location(home))
            watch = PairWatch(topology, self._state.schedule, of_pair, None if controller is None else controller.watch)
            if controller is None:
                controller = PairController(self._context(watch, planner, is_acting=is_acting), now)
                self._state.memory.recall(controller, now)
            else:
                switches[int(pair)] = controller.change(watch, planner, now, is_enforcing=is_acting)
            controllers[int(pair)] = controller
        return controllers, switches

    def _context(self, watch: PairWatch, planner: Planner, *, is_acting: bool) -> PairContext:
        return PairContext(
            watch=watch,
            mover=MoveStateMachine(watch.primary, watch.paths),
            damper=Damper(self._state.settings.policy),
            verdicts=VerdictKeeper(watch.index),
            schedule=self._state.schedule,
            planner=planner,
            settings=self._state.settings,
            rng=self._state.rng,
            views=self._state.views,
            is_enforcing=is_acting,
            unrest=self._state.unrest,
            explain=self._state.findings.explain,
            control=self._state.control_of,
            is_detoured=self._state.leg.is_carrying,
            sizes=self._state.sizes,
            orders=self._state.memory.orders,
            storm=self._state.storm,
            allowance=self._state.allowance,
        )

    def switched(self, event: SwitchApplied | SwitchFailed, now: int) -> Iterator[Output]:
        """The kernel has answered; what had to wait for that goes on."""
        controller = self._state.controllers.get(event.pair)
        self._switched_at = now
        if event.pair == DETOUR_PAIR:
            leg = self._state.leg
            yield from leg.switched(now) if isinstance(event, SwitchApplied) else leg.refused(event.error, now)
        elif controller is None:
            pass  # the pair is gone
        elif isinstance(event, SwitchApplied):
            yield from controller.switched(event.generation, now)
        else:
            yield from controller.refused(event.generation, event.error, now)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            yield from self.observe(waiting, now)
        if self.held:
            yield from self.provide(now)

    def provide(self, now: int, *, is_due: bool = False) -> Iterator[Output]:
        """Ask for the standing objects, but for what stands in the way of traffic that has not left yet."""
        holds = [controller.holds(now) for controller in self._state.controllers.values()]
        devices = frozenset(device for each, _ in holds for device in each)
        tables = frozenset(table for _, each in holds for table in each)
        held = (devices, tables) if devices or tables else None
        if self.planner is not None and (is_due or held != self.held):
            self.held = held
            yield EnsureProvision(provision=self.planner.provision(devices, tables))

    def _adopt(self, snapshot: Snapshot, now: int) -> Iterator[Output]:
        """Keep the overrides of an earlier process: a restart must not move traffic.

        One that leads over no path of the mesh is left as soon as another path is known to work.
        """
        assert self.planner is not None, "adoption follows planning"
        assert self._surroundings is not None, "a mesh is seen somewhere"
        leg = self._state.leg
        leg.adopt(snapshot.rules, now)
        left = tuple(each for each in snapshot.rules if self.planner.is_of_detour(each) and each not in leg.rules())
        if left and self._surroundings.is_acting:
            # Before its table goes, and at once: nobody watches what it leads by.
            yield ApplySwitch(pair=DETOUR_PAIR, generation=0, switch=Switch(delete=left))
        for pair, found in by_pair(self.planner, snapshot.rules).items():
            path = self.planner.overridden_by(found[0])
            if path is None:
                legacy = legacy_of(found, snapshot, self._state.settings.kernel.device_prefix)
                self._state.controllers[pair].part(None, legacy, now)
                continue
            self._state.controllers[pair].adopt(path, now)
            yield OverrideAdopted(pair=path.pair, rank=path.rank)
            if found[1:] and self._surroundings.is_acting:
                yield ApplySwitch(pair=GONE, generation=0, switch=Switch(delete=found[1:]))

    def _compare(self, snapshot: Snapshot, now: int) -> Iterator[Output]:
        """Put right what differs of the overrides: nobody has told of it, as while the agent was away."""
        if self.planner is None or self._surroundings is None or not self._surroundings.is_acting:
            return
        if now - self._switched_at < OLD_NEWS_NS:
            return
        controllers = self._state.controllers.values()
        for controller in controllers:
            yield from controller.switchover.compare(snapshot.rules, now)
        yield from self._state.leg.compare(snapshot.rules, now)
        claimed = [*self._state.leg.rules(), *(rule for each in controllers for rule in each.overrides())]
        if unwanted := strays(self.planner, snapshot.rules, claimed):
            yield ApplySwitch(pair=GONE, generation=0, switch=Switch(delete=unwanted))

    def _reject(self, reason: str) -> Iterator[Output]:
        if reason != self._rejected:
            self._rejected = reason
            yield TopologyRejected(reason=reason)


def _end_verdicts(gone: Iterable[PairController]) -> Iterator[Output]:
    """The end of what is wrong with pairs that are watched no more: nobody else would ever say it.

    Each says which location it means. Whoever reads this may count pairs as in the next mesh already.
    """
    for watch, current in ((each.watch, each.verdicts.current) for each in gone):
        if current.fault is not FaultCode.NONE:
            why = f"another mesh is in force, in which this node does not watch the way to {watch.remote}"
            yield VerdictChanged(
                verdict=Verdict(
                    fault=FaultCode.NONE, layer=Layer.SELF, severity=Severity.OK, pair=watch.index, because=(why,)
                ),
                previous=current.fault,
                location=watch.remote,
            )


def _leads(topology: Topology) -> bool:
    """Whether this node's own sessions cross the mesh's tunnel, with no leader before it."""
    return any(path.is_primary and topology.is_relay(path) for path in topology.local_paths())
