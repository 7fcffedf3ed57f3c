"""What the parts that handle one pair of locations share."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator

import msgspec

from meshwatchd.core.diagnosis.owner_words import advise
from meshwatchd.core.diagnosis.pair_evidence import PairWatch
from meshwatchd.core.diagnosis.peer_views import PeerViews
from meshwatchd.core.diagnosis.verdict_hold import VerdictKeeper
from meshwatchd.core.failover.damping import Damper
from meshwatchd.core.failover.operator_holds import Orders
from meshwatchd.core.failover.state_machine import Intent, MoveStateMachine
from meshwatchd.core.failover.storm import Storm
from meshwatchd.core.failover.topology_change_hold import Unrest, is_agent_away
from meshwatchd.core.pmtu.pmtu import SizeWatch
from meshwatchd.core.probing.packet_budget import Allowance, Use
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.events import CoordinationKind
from meshwatchd.model.faults import Verdict
from meshwatchd.model.ids import NO_PATH, FlowClass, Layer, NodeName
from meshwatchd.model.outputs import SendProbe
from meshwatchd.model.policy_state import Order
from meshwatchd.model.settings import Mode, Settings
from meshwatchd.model.topology import Path


def _as_it_is(verdict: Verdict, _relays: Container[NodeName]) -> Verdict:
    return verdict


class PairContext(msgspec.Struct, kw_only=True):
    """One pair on one node: what is seen, where traffic is, and the means to probe and to speak.

    Watch, planner and whether this node enforces are replaced when the mesh changes; all else is for good.

    Attributes:
        orders, storm, allowance: of the whole node.
        is_enforcing: whether routes may be changed: the mode says so, and nobody else's objects are in the way. The way
            home is open in that mode whatever is in the way (`may_take`).
        unrest: whether the mesh is being rewritten at this moment.
        explain: gives a verdict on a path with these relays the name of what was found on a node, where that is its
            cause.
        control: what is known of the control plane of a cluster by its name.
        is_detoured: whether this node's traffic goes around its own leg, and arrives (`leg_detour`).
    """

    watch: PairWatch
    mover: MoveStateMachine
    damper: Damper
    verdicts: VerdictKeeper
    schedule: Schedule
    planner: Planner
    settings: Settings
    rng: random.Random
    views: PeerViews
    is_enforcing: bool
    sizes: SizeWatch
    unrest: Unrest = msgspec.field(default_factory=Unrest)
    explain: Callable[[Verdict, Container[NodeName]], Verdict] = _as_it_is
    control: Callable[[str], ClusterControl | None] = lambda _cluster: None
    is_detoured: Callable[[], bool] = lambda: False
    orders: Orders = msgspec.field(default_factory=Orders)
    storm: Storm = msgspec.field(default_factory=lambda: Storm(3))
    allowance: Allowance = msgspec.field(default_factory=lambda: Allowance(1_000))

    def name(self, verdict: Verdict, relays: Container[NodeName]) -> Verdict:
        """The verdict as it is told: by its cause, with what the mesh's makers would say."""
        return advise(self.explain(verdict, relays), self.planner.topology)

    @property
    def local_node(self) -> NodeName:
        """This node."""
        return self.planner.topology.local_node

    @property
    def number_in_use(self) -> int:
        """The path that carries this node's traffic; NO_PATH where a detour does."""
        return NO_PATH if self.is_detoured() else self.mover.active.number

    def may_take(self, path: Path) -> bool:
        """Whether this node may move its traffic to a path.

        The way home only removes a rule of ours, for which nobody's object can be in the wrong place: a node that may
        put nothing takes it, or its traffic would stay on a standby that everybody else has left, or that dies.
        """
        return self.is_enforcing or (path.is_primary and self.settings.daemon.mode is Mode.ENFORCE)

    def ordered(self, order: Order) -> Path | None:
        """The path that an order is about, as long as the mesh has it."""
        if order.relays:
            # A spare link has the relays of the primary path, which orders name by its rank alone.
            standbys = (path for path in self.watch.paths if not path.is_primary)
            return next((path for path in standbys if path.relays == order.relays), None)
        return next((path for path in self.watch.paths if path.rank == order.rank), None)

    def is_cramped(self, path: Path) -> bool:
        """Whether a path was proven to lose large packets."""
        return self.sizes.carries(path) is False

    def is_drained(self, path: Path, now: int) -> bool:
        """Whether a relay of a path is being taken out of service: this node by its orders, others by their word.

        While the mesh's own agent makes the primary path anew, a node to which the agent has just come back may come to
        relay it, and has no routes yet.
        """
        if any(self._is_drained(name, now) for name in path.relays):
            return True
        if not (path.is_primary and self.is_unsettled(now)):
            return False
        members = (node.name for place in path.locations for node in self.planner.topology.mesh.members(place))
        return any(self._is_agent_away(name, now) for name in members)

    def _is_drained(self, name: NodeName, now: int) -> bool:
        return self.orders.is_draining if name == self.local_node else self.views.is_admin_down(name, now)

    def is_excused(self, name: str, now: int) -> bool:
        """Whether people have taken a node out of service; one that its agent has left may be named."""
        return self.views.is_admin_down(name, now) and not self._is_agent_away(name, now)

    def _is_agent_away(self, name: str, now: int) -> bool:
        if name == self.local_node:
            return self.orders.is_agent_away
        return self.views.is_admin_down(name, now) and is_agent_away(self.views.said_by(name))

    def is_unsettled(self, now: int) -> bool:
        """Whether the mesh's own agent is at work on what the pair's primary path stands on."""
        return self.unrest.is_on(self.watch.remote, now)

    def agreement_path(self, target: Path) -> Path:
        """The path whose relays agree on a move to `target`.

        Failback is agreed by the relays of the path that is left: they hold the overrides.
        """
        return target if not target.is_primary else self.mover.active

    def partner(self, target: Path, now: int) -> NodeName | None:
        """The relay to agree with on a move, or None when this node has no say.

        A relay that is dead agrees to nothing: the way home from its path is agreed with the mesh's own leader instead,
        by what is left of its path, or by the other leader where nothing is.
        """
        path = self.agreement_path(target)
        if path.is_primary:
            return None
        far, home = path.relay_in(self.watch.remote), target.relay_in(self.watch.remote)
        if self.local_node in path.relays:
            return home if target.is_primary and self.views.is_lost(far, now) else far
        is_orphaned = target.is_primary and all(self.views.is_lost(name, now) for name in path.relays)
        return home if is_orphaned and self.local_node in target.relays else None

    def stands_in(self, target: Path, left: Path, sender: NodeName, now: int) -> bool:
        """Whether this leader answers for the dead relay of its location whose path is left for the mesh's own."""
        relay = left.relay_in(self.planner.topology.local.location)
        return (
            target.is_primary
            and not left.is_primary
            and self.local_node in target.relays
            and self.local_node != relay
            and self.views.is_lost(relay, now)
            and sender in (target.relay_in(self.watch.remote), left.relay_in(self.watch.remote))
        )

    def neighbours(self) -> Iterator[NodeName]:
        """The other nodes of this node's location."""
        topology = self.planner.topology
        members = topology.mesh.members(topology.local.location)
        return (member.name for member in members if member.name != self.local_node)

    def _is_neighbour(self, name: NodeName) -> bool:
        """Whether a node is in this node's location: asked for each message, so the mesh is not searched."""
        topology = self.planner.topology
        return topology.mesh.is_in(name, topology.local.location)

    def say(
        self,
        kind: CoordinationKind,
        to: NodeName,
        intent: Intent,
        now: int,
        *,
        over: Path | None = None,
        is_repeated: bool = False,
    ) -> Iterator[SendProbe]:
        """Send a message on a probe: to a neighbour over the underlay, to a relay over the path that is to be used.

        `over` names another path that is known to be good. Where this node holds no session on that path (it only
        observes), any other path to the relay has to do. What the node's allowance has no room for is as good as lost,
        which every message may be.
        """
        use = Use.REPEAT if is_repeated else Use.MUST
        sessions = self.schedule.select(peer=to, flow=FlowClass.FRESH)
        layer = Layer.UNDERLAY if self._is_neighbour(to) else Layer.RELAY
        usable = [session for session in sessions if session.plan.layer is layer]
        number = (over or intent.target).number
        on_path = [session for session in usable if session.plan.path == number]
        for session in (on_path or usable)[:1]:
            if not self.allowance.take(1, now, use):
                return
            message = self.mover.message(kind, to, intent=intent, relays=self.watch.relays_print)
            yield self.schedule.probe(session, now, is_confirm=True, coordination=message)
