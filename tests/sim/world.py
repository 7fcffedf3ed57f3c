"""An in-memory mesh under a virtual clock: real engines, imaginary packets.

Packets walk legs, and faults are predicates over legs and flow classes, named like the lab's. Time advances
only to the next deadline or delivery, so that an engine that forgets to declare a deadline stands still and is found.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from meshwatchd.adapters.storage.journal.writer import Journal
from meshwatchd.core.engine import Engine
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.mtu import ConfigureSizes, SendSizeProbe, SizeUnsent
from meshwatchd.model.plan import Rule
from meshwatchd.model.settings import MS, SECOND, MeshSettings, Mode, PolicySettings, Settings
from meshwatchd.model.topology import Topology
from meshwatchd.profiles import OVERLAY_MESH, PROFILES
from tests.sim.faults import Fault, Leg, Slow
from tests.sim.parts import JITTER_NS, Boot, Delivery, Reply, Request, SimNode, Switched, Told, Wake, Way, as_it_is
from tests.sim.routes import LOOP, Routes, legs_of, way_of
from tests.sim.sizes import SizeRequest, SizeTraffic
from tests.support.lab_mesh import declared_mesh, settings_for, snapshot_of

NETLINK_NS = 50_000

QUIET = (out.SessionChanged, out.SessionSuspected, out.SuspicionCleared)
SETTLED = (FaultCode.NONE, FaultCode.UNDETERMINED)  # verdicts that accuse nobody

_TICK, _NO_WORD = ev.Tick(), ev.Banner()
_JITTER_BITS = JITTER_NS.bit_length()
_NO_WAY = None, Way((), (), 0, 0)

Adjust = Callable[[Settings], Settings]


class World:
    """Many engines, one clock.

    Args:
        seed: of everything random in it.
        mode: of every node.
        modes: of single nodes.
        policy: of every node.
        adjust: makes more of every node's settings.
        mesh: another mesh than the lab's.
        engines: nodes that run a daemon; the others answer, and their kernels follow the last of these in their
            location.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        mode: Mode = Mode.ENFORCE,
        modes: Mapping[str, Mode] | None = None,
        policy: PolicySettings | None = None,
        adjust: Adjust = as_it_is,
        mesh: MeshSettings | None = None,
        engines: Sequence[str] = (),
    ) -> None:
        self.seed = seed
        self.mesh = mesh or declared_mesh()
        self.locations = {str(node.name): str(node.location) for node in self.mesh.node}
        self.names = tuple(engines or sorted(self.locations))
        self.rng = random.Random(seed)
        self.now = 1000 * SECOND
        self.faults: list[Fault] = []
        self.told: list[Told] = []
        self.switches: list[Switched] = []
        self.replies: list[tuple[str, out.ReplyOperator]] = []
        self.sent = 0
        self.journals: dict[str, Journal] = {}
        self.carried: dict[tuple[str, int], int] = {}
        self._heap: list[tuple[int, int, str, Delivery]] = []
        self._ways: dict[int, tuple[out.SessionPlan | None, Way]] = {}
        self._walks: dict[tuple[str, str, int | None], tuple[Leg, ...]] = {}
        # Kernels of nodes without a daemon follow what daemons believe, and may change with each of their words.
        self.has_followers = bool(engines)
        self._followed: dict[str, frozenset[Rule]] = {}
        self._count = 0
        self.loops: list[str] = []
        self.settings = {
            name: adjust(
                msgspec.structs.replace(
                    settings_for(name, mode=(modes or {}).get(name, mode), policy=policy), mesh=self.mesh
                )
            )
            for name in self.names
        }
        self._planners: dict[str, Planner] = {}
        self.routes = Routes(self._planner_of, self._rules_of)
        self.nodes = {name: SimNode(name, self._engine(name)) for name in self.names}
        self.sizes = SizeTraffic(passes=self._passes, way=partial(legs_of, self._walk), rng=random.Random(seed))
        for node in self.nodes.values():
            self._post(self.rng.randrange(50 * MS), node.name, Boot())

    # -- control -----------------------------------------------------------------------------------------------

    def run(self, duration_ns: int) -> None:
        """Let the world run for a while."""
        end = self.now + duration_ns
        at = self._next()
        while at is not None and at <= end:
            self.now = max(self.now, at)
            at = self._step()
        self.now = end

    def run_until(self, predicate: Callable[[], bool], *, limit_ns: int) -> bool:
        """Run until the predicate holds; False when the limit comes first."""
        end = self.now + limit_ns
        while not predicate():
            at = self._next()
            if at is None or at > end:
                self.now = end
                return predicate()
            self.now = max(self.now, at)
            self._step()
        return True

    def kill(self, name: str) -> None:
        """End a daemon; its kernel state stays and its node goes on forwarding."""
        self.nodes[name].is_running = False

    def restart(self, name: str, *, down_ns: int = 300 * MS) -> None:
        """Kill a daemon and start it anew; kernel state stays."""
        node = self.nodes[name]
        node.is_running, node.due, node.plans, node.sizes, node.banner = False, None, {}, {}, ev.Banner()
        node.engine = self._engine(name)
        self._post(down_ns, name, Boot())

    def stall(self, name: str, duration_ns: int) -> None:
        """Do not schedule a daemon for a while; its sockets fill meanwhile."""
        self.nodes[name].held = []
        self._post(duration_ns, name, Wake(duration_ns))

    def operate(self, name: str, request: ev.OperatorRequested) -> out.ReplyOperator:
        """Ask as meshwatchctl would."""
        self._feed(self.nodes[name], request)
        return self.replies[-1][1]

    # -- what happened -----------------------------------------------------------------------------------------

    def facts(self, kind: type[out.Fact], *, node: str | None = None, since: int = 0) -> list[Told]:
        """Everything told of one kind, in order."""
        return [t for t in self.told if isinstance(t.fact, kind) and node in (None, t.node) and t.at >= since]

    def active_ranks(self) -> dict[str, int]:
        """The rank each node believes to be in use."""
        controllers = {name: node.engine.state.controllers.get(0) for name, node in self.nodes.items()}
        return {name: each.mover.active.rank for name, each in controllers.items() if each is not None}

    def are_on(self, rank: int, *, but: str = "") -> bool:
        """Whether every node (but one) believes that rank to be in use and its kernel says the same."""
        return all(
            node.controller.mover.active.rank == rank
            and node.rules == set(node.controller.context.planner.override(node.controller.mover.active))
            for node in self.nodes.values()
            if node.name != but
        )

    def verdict(self, name: str) -> str:
        """The fault a node names, with its culprit."""
        if not self.nodes[name].engine.state.controllers:
            return "not started"
        verdict = self.nodes[name].controller.verdicts.current
        return f"{verdict.fault}@{verdict.culprit}" if verdict.culprit else str(verdict.fault)

    def verdicts(self) -> dict[str, str]:
        """What every node says."""
        return {name: self.verdict(name) for name in self.names}

    def accusations(self, *, since: int = 0, node: str | None = None) -> set[tuple[str, str]]:
        """Every (fault, culprit) that was stated, but for verdicts that accuse nobody."""
        facts = [told.fact for told in self.facts(out.VerdictChanged, since=since, node=node)]
        verdicts = [fact.verdict for fact in facts if isinstance(fact, out.VerdictChanged)]
        return {(str(v.fault), v.culprit) for v in verdicts if v.fault not in SETTLED}

    def rules(self) -> dict[str, set[Rule]]:
        """A copy of every kernel's overrides."""
        return {name: set(node.rules) for name, node in self.nodes.items()}

    def carries(self, source: str, target: str, flow: FlowClass = FlowClass.FRESH) -> bool:
        """Whether a real packet would arrive and its answer come back, by the kernel state of every hop."""
        there = self._walk(source, target, None)
        back = self._walk(target, source, None)
        return self._passes(there, flow) and self._passes(back, flow)

    def story(self, *, since: int = 0) -> str:
        """What was told, one line each, for the reader of a failed test."""
        lines = [f"seed {self.seed}, verdicts {self.verdicts()}, ranks {self.active_ranks()}"]
        for at, node, fact in self.told:
            if at >= since and not isinstance(fact, QUIET):
                fields = {name: str(getattr(fact, name)) for name in fact.__struct_fields__ if name != "operations"}
                if isinstance(fact, out.VerdictChanged):
                    fields = {"was": fact.previous, "is": fact.verdict.fault, "at": fact.verdict.culprit}
                lines.append(f"{(at - 1000 * SECOND) / MS:10.1f} ms  {node}  {type(fact).__name__} {fields}")
        return "\n".join(lines)

    def walk(self, source: str, target: str) -> tuple[Leg, ...]:
        """The way of real traffic by the kernel state of every hop; its last leg is LOOP where it would circle."""
        return self._walk(source, target, None)

    # -- machinery ---------------------------------------------------------------------------------------------

    def _planner_of(self, name: str) -> Planner:
        if name not in self._planners:
            settings = msgspec.structs.replace(settings_for(name), mesh=self.mesh)
            topology = OVERLAY_MESH.recognise(snapshot_of(name, mesh=self.mesh), self.mesh, NodeName(name))
            assert isinstance(topology, Topology), topology
            if self._planners:
                # A thousand nodes need no mesh each.
                shared = next(iter(self._planners.values())).topology.mesh
                topology = msgspec.structs.replace(topology, mesh=shared)
            self._planners[name] = Planner(topology, settings)
        return self._planners[name]

    def _rules_of(self, name: str) -> Container[Rule]:
        """A kernel's overrides; those of a node without a daemon are as a daemon would have them."""
        if name in self.nodes:
            return self.nodes[name].rules
        if name not in self._followed:
            self._followed[name] = frozenset(self._as_its_fellow_has_them(name))
        return self._followed[name]

    def _word_of(self, name: str, sender: str) -> ev.Banner:
        """What a node without a daemon says of its paths: what the last daemon of its location does."""
        fellow = self._fellow(name)
        return _NO_WORD if fellow is None else fellow.says_to(sender)

    def _fellow(self, name: str) -> SimNode | None:
        return next((self.nodes[n] for n in reversed(self.names) if self.locations[n] == self.locations[name]), None)

    def _as_its_fellow_has_them(self, name: str) -> Iterator[Rule]:
        fellow = self._fellow(name)
        for controller in () if fellow is None else fellow.engine.state.controllers.values():
            yield from self._planner_of(name).override(controller.mover.active)

    def _engine(self, name: str) -> Engine:
        return Engine(
            settings=self.settings[name],
            node=NodeName(name),
            rng=random.Random(self.rng.getrandbits(32)),
            epoch=self.now,
            profiles=PROFILES,
        )

    def _post(self, delay_ns: int, name: str, delivery: Delivery) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay_ns, self._count, name, delivery))

    def _next(self) -> int | None:
        at = self._heap[0][0] if self._heap else None
        for node in self.nodes.values():
            due = node.due
            if due is not None and (at is None or due < at) and node.is_running and node.held is None:
                at = due
        return at

    def _step(self) -> int | None:
        """Everything that happens at this instant; returns the next one, as `_next` would."""
        heap, now, nodes = self._heap, self.now, self.nodes
        while heap and heap[0][0] <= now:
            _, _, name, delivery = heapq.heappop(heap)
            node = nodes.get(name)
            if node is None:
                if isinstance(delivery, Request):
                    self._answer(name, self._word_of(name, delivery.sender), 1, delivery)
            # Nearly all deliveries are probes and their answers.
            elif type(delivery) is Request and node.is_running and node.held is None:
                self._reflect(node, delivery)
            elif type(delivery) is Reply and node.is_running and node.held is None:
                if delivery.epoch == node.engine.epoch:
                    self._feed(node, delivery.event)
            else:
                self._deliver(node, delivery)
        at = None
        for node in nodes.values():
            due = node.due
            if due is None or not node.is_running or node.held is not None:
                continue
            if due <= now:
                self._feed(node, _TICK)
                due = node.due
            if due is not None and (at is None or due < at):
                at = due
        return heap[0][0] if heap and (at is None or heap[0][0] <= at) else at

    def _deliver(self, node: SimNode, delivery: Delivery) -> None:
        match delivery:
            case Boot():
                node.is_running = True
                self._feed(node, ev.StateRestored(state=node.state))
                self._feed(node, ev.SnapshotReceived(snapshot=snapshot_of(node.name, rules=node.rules, mesh=self.mesh)))
            case Wake(late_ns):
                held, node.held = node.held or [], None
                for late in held:
                    self._deliver(node, late)
                self._feed(node, ev.Stalled(late_ns=late_ns))
            case _ if not node.is_running:
                pass
            case _ if node.held is not None:
                node.held.append(delivery)
            case SizeRequest():
                reply, heard = self.sizes.reflect(node.counts, delivery, self.now)
                if reply is not None:
                    self._post(reply[0], delivery.sender, Reply(delivery.epoch, reply[1]))
                self._feed(node, heard)
            case Request():
                self._reflect(node, delivery)
            case Reply():
                if delivery.epoch == node.engine.epoch:
                    self._feed(node, delivery.event)
            case _:
                self._feed(node, delivery)

    def _feed(self, node: SimNode, event: ev.Event) -> None:
        engine = node.engine
        outputs = engine.handle(event, self.now)
        if self.journals and node.name in self.journals:
            self.journals[node.name].note(event, self.now, outputs, is_asked=True)
        for output in outputs:
            if type(output) is out.SendProbe:
                self._send(node, output)
            else:
                self._effect(node, output)
        node.due = engine.deadline()
        if event is not _TICK and (engine.early_at() or self.now + 1) <= self.now:
            self._feed(node, _TICK)  # as the loop does for who is awake

    def _effect(self, node: SimNode, output: out.Output) -> None:
        match output:
            case out.ConfigureSessions():
                node.plans = {plan.session: plan for plan in output.sessions}
                node.windows, node.parts = output.windows, None
                node.say(node.banner)
            case ConfigureSizes():
                node.sizes = {plan.session: plan for plan in output.plans}
            case SendSizeProbe():
                way = self.sizes.send(node.name, node.sizes[output.session], output)
                if isinstance(way, SizeUnsent):
                    self._post(0, node.name, way)
                elif way is not None:
                    origin = node.name, node.engine.epoch, node.says_to(way[1].peer), self.now
                    self._post(way[0], way[1].peer, SizeRequest(*origin, output, way[1]))
            case out.SetBanner():
                node.say(output.banner)
            case out.ApplySwitch():
                self._switch(node, output)
            case out.EnsureProvision():
                self._post(5 * MS, node.name, ev.Provisioned(is_complete=True))
            case out.Repair():
                pass  # this world has no devices to repair
            case out.ReplyOperator():
                self.replies.append((node.name, output))
            case out.SaveState():
                node.state = output.state
            case out.SendProbe():
                self._send(node, output)
            case _:
                self.told.append(Told(self.now, node.name, output))
                if self.has_followers and not isinstance(output, QUIET):
                    self._forget_ways()

    def _switch(self, node: SimNode, command: out.ApplySwitch) -> None:
        key = {"pair": command.pair, "generation": command.generation}
        if node.refusal:
            self._post(NETLINK_NS, node.name, ev.SwitchFailed(**key, error=node.refusal))
            return
        before = set(node.rules)
        node.rules |= set(command.switch.add)
        node.rules -= set(command.switch.delete)
        node.changes += 1
        self._forget_ways()
        controller, change = node.engine.state.controllers[command.pair], command.switch
        intent = controller.mover.intent
        assert intent is not None, "a change is made with an intent"
        is_good, inverse = controller.watch.group(intent.target).is_good, change.inverse()
        assert node.rules - set(inverse.delete) | set(inverse.add) == before, f"{change} cannot be undone"
        proven = self.carried.get((node.name, intent.target.number), 0)
        self.switches.append(Switched(self.now, node.name, change.add, change.delete, is_good, intent.reason, proven))
        self._note_loops()
        self._post(NETLINK_NS, node.name, ev.SwitchApplied(**key))

    def _note_loops(self) -> None:
        """At every instant of every move: no packet between two daemons' nodes circles."""
        for source in self.names:
            for target in self.names:
                if self.locations[source] != self.locations[target] and self._walk(source, target, None)[-1] is LOOP:
                    self.loops.append(f"{self.now}: {source} to {target}")

    def _send(self, node: SimNode, probe: out.SendProbe) -> None:
        self.sent, plan = self.sent + 1, node.plans[probe.session]
        way = self._way_of(node.name, plan)
        if self._passes(way.there, plan.flow, plan, probe):
            request = Request(node.name, node.engine.epoch, probe, plan, node.says_to(plan.peer), self.now)
            self._post(self._delay(way.there, way.there_ns), plan.peer, request)

    def _reflect(self, node: SimNode, request: Request) -> None:
        self._answer(node.name, node.says_to(request.sender), node.engine.epoch, request)
        plan, probe = request.plan, request.probe
        if plan.canary is not None:
            return
        event = ev.RequestReceived(
            peer=NodeName(request.sender),
            layer=plan.layer,
            path=plan.path,
            flow=plan.flow,
            is_fresh_epoch=True,
            is_confirm=probe.is_confirm,
            banner=request.banner,
            coordination=probe.coordination,
        )
        self._feed(node, event)

    def _answer(self, name: str, banner: ev.Banner, epoch: int, request: Request) -> None:
        plan, probe = request.plan, request.probe
        way = self._way_of(request.sender, plan)
        if self._passes(way.back, plan.flow, plan, probe):
            delay = self._delay(way.back, way.back_ns)
            if plan.layer is Layer.RELAY:
                self.carried[request.sender, plan.path] = self.now
            reply = ev.ReplyReceived(
                session=probe.session,
                seq=probe.seq,
                rtt_ns=self.now + delay - request.sent_at,
                peer_epoch=epoch,
                banner=banner if plan.canary is None else _NO_WORD,
            )
            self._post(delay, request.sender, Reply(request.epoch, reply))

    def _delay(self, legs: tuple[Leg, ...], usual_ns: int) -> int:
        # As randrange draws it, without its checks of arguments.
        draw = self.rng.getrandbits
        jitter_ns = draw(_JITTER_BITS)
        while jitter_ns >= JITTER_NS:
            jitter_ns = draw(_JITTER_BITS)
        delay = usual_ns + jitter_ns
        for fault in self.faults:
            if isinstance(fault, Slow):
                delay += sum(fault.delay_ns(leg, self.rng) for leg in legs)
        return delay

    def _passes(
        self,
        legs: tuple[Leg, ...],
        flow: FlowClass,
        plan: out.SessionPlan | None = None,
        probe: out.SendProbe | None = None,
        *,
        rng: random.Random | None = None,
    ) -> bool:
        if not self.faults or not legs:
            return not (legs and legs[-1] is LOOP)
        if legs[-1] is LOOP:
            return False
        dice, ends = rng or self.rng, None
        for leg in legs:
            if plan is not None and probe is not None and leg.kind == "overlay":
                ends = ends or ((plan.source, probe.source_port), (plan.destination, plan.port))
                leg = leg._replace(inner=ends)  # noqa: PLW2901 - the same leg, with what its faults may ask for
            for fault in self.faults:
                if fault(leg, flow, dice):
                    return False
        return True

    def _way_of(self, source: str, plan: out.SessionPlan) -> Way:
        """The way of a session's probes, which stays the same until somebody's overrides change."""
        # A plan belongs to one node. It is kept beside its way, so that nothing else can be found under its id.
        known, way = self._ways.get(id(plan), _NO_WAY)
        if known is not plan:
            way = way_of(self._walk, source, plan)
            self._ways[id(plan)] = plan, way
        return way

    def _walk(self, source: str, target: str, path: int | None) -> tuple[Leg, ...]:
        """The way of what crosses locations: where there is an IPIP device, each overlay leg carries IPIP."""
        legs = self._walks.get((source, target, path))
        if legs is None:
            legs = self.routes.walk(source, target, path)
            if self.settings[self.names[0]].mesh.ipip_device:
                wrapped = ((leg, leg._replace(kind="ipip")) if leg.kind == "overlay" else (leg,) for leg in legs)
                legs = tuple(leg for pair in wrapped for leg in pair)
            self._walks[source, target, path] = legs
        return legs

    def _forget_ways(self) -> None:
        """Somebody's kernel has changed."""
        self._ways.clear()
        self._walks.clear()
        self._followed.clear()
