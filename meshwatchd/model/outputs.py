"""What the engine says: commands ask for an effect, facts tell something."""

from __future__ import annotations

import msgspec

from meshwatchd.model.audit import RepairPlan
from meshwatchd.model.audit_facts import (
    FaultCleared,
    FaultRaised,
    RepairAdvised,
    RepairHeld,
    RepairStarted,
    RepairUndone,
    RepairVerified,
)
from meshwatchd.model.bisection import Flows, Place
from meshwatchd.model.canary import Canary
from meshwatchd.model.events import Banner, Coordination
from meshwatchd.model.failover_facts import (
    DetourLeft,
    DetourTaken,
    FailoverAdvised,
    FailoverApplied,
    FailoverDoubted,
    FailoverHeld,
    FailoverProposed,
    FailoverRolledBack,
    FailoverVerified,
    OverrideAdopted,
    OverrideRetired,
    PathSuppressed,
    PlanRefused,
    ProposalAnswered,
)
from meshwatchd.model.faults import Direction, Verdict
from meshwatchd.model.generation import GenerationAccepted, GenerationRefused
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.load import EngineOverloaded, EngineRelieved, ProbesFreed, ProbesHeld
from meshwatchd.model.mtu import ConfigureSizes, SendSizeProbe, SizeMeasured
from meshwatchd.model.plan import Provision, Switch
from meshwatchd.model.policy_state import Order, PolicyState
from meshwatchd.model.port_map import STRANGE_PORT
from meshwatchd.model.process_facts import AgentRestarted, ClockStalled, ConfigRefused, ConfigReloaded
from meshwatchd.model.stamp import StampRefused
from meshwatchd.model.tunnel_facts import (
    AllowedIpsMoved,
    EndpointMoved,
    HandshakeRenewed,
    HandshakeStale,
    TunnelKeyChanged,
    TunnelPeersChanged,
)


class SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the packet adapter must know to send the probes of one session.

    Attributes:
        source, destination: addresses of one family, IPv4 or IPv6, not link-local; the source of a canary is the
            kernel's to choose, and empty.
        port: destination port.
        device: by which the probes leave whatever the routes say (IPv4 only); empty leaves it to the routes.
        canary: what a session of Layer.POD asks, and one of Layer.POD_NETWORK where no reflector answers: by TCP, or by
            UDP at a port that is not ours; None for all others.
    """

    session: SessionId
    peer: NodeName
    layer: Layer
    path: int
    flow: FlowClass
    source: str
    destination: str
    port: int
    device: str = ""
    canary: Canary | None = None

    @property
    def is_ip6(self) -> bool:
        """Whether its probes are IPv6."""
        return ":" in self.destination

    @property
    def is_advisory(self) -> bool:
        """Whether it may warn only: no canary and no pod judges a path, and no route of ours is IPv6."""
        return self.canary is not None or self.is_ip6 or self.layer is Layer.POD_NETWORK

    @property
    def is_of_closed_port(self) -> bool:
        """Whether the kernel of whoever is asked says that a UDP port is closed, and does so seldom."""
        return self.port == STRANGE_PORT and self.layer is Layer.POD_NETWORK


class ConfigureSessions(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Take over a table of sessions: those whose plan stays the same go on, all others begin anew or end.

    Attributes:
        nodes: every node of the mesh, who may ask this one; empty leaves it as it is.
        windows: which part of the banner each of them is told (`diagnosis.banner_windows`); empty where all are
            told everything.
        tunnel: the mesh's WireGuard device where this node's own sessions cross it; empty on one that does not lead.
        external: indices of the devices that no answer may leave by, whatever came in by them: it would be lost.
        ports: on which others are answered, beside those that sessions of this node have.
    """

    sessions: tuple[SessionPlan, ...]
    nodes: tuple[NodeName, ...] = ()
    windows: dict[NodeName, int] = {}
    tunnel: str = ""
    external: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()


class SendProbe(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Send one probe from `source_port`; a port that somebody else has is reported as SendFailed(EADDRINUSE)."""

    session: SessionId
    seq: int
    source_port: int
    is_confirm: bool = False
    coordination: Coordination | None = None


class SetBanner(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """From here on every packet, request or reply, carries this."""

    banner: Banner


class EnsureProvision(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Make the standing objects of ours equal to these (agent)."""

    provision: Provision


class ApplySwitch(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Change the override at once (engine process, prepacked netlink)."""

    pair: int
    generation: int
    switch: Switch


class Repair(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Put entries of an overlay device, see whether they hold, and undo it if they do not (agent)."""

    request: int
    plan: RepairPlan


class ReplyOperator(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Answer an operator's request."""

    request: int
    is_accepted: bool
    text: str
    operations: tuple[str, ...] = ()


class SaveState(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=True):
    """Keep this for the next process of this node (agent)."""

    state: PolicyState


Command = (
    ConfigureSessions
    | SendProbe
    | SetBanner
    | EnsureProvision
    | ApplySwitch
    | Repair
    | ReplyOperator
    | SaveState
    | ConfigureSizes
    | SendSizeProbe
)


class DaemonStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The engine has a topology and starts probing."""

    node: NodeName
    mode: str
    profile: str
    why: tuple[str, ...]
    sessions: int


class TopologyChanged(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The mesh is another one, and the engine has taken it over.

    Attributes:
        what: one sentence for each thing that is different, the first of them.
        why: as in `Topology`.
        kept, begun, ended: how many sessions go on, are new, and are gone.
    """

    what: tuple[str, ...]
    why: tuple[str, ...]
    kept: int
    begun: int
    ended: int


class MeshUnsettled(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The mesh's own agent is rewriting it, as in a change of leader: nobody is accused, nothing is moved meanwhile."""

    what: str


class TopologyRejected(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """No profile could make a topology of what the kernel and the configuration say."""

    reason: str


class DaemonReady(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The primary path has been good long enough to be judged."""

    pair: int


class SessionChanged(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A session went up or down; `silent_ns`: since the first probe left of those in a row that were missed."""

    session: SessionId
    peer: NodeName
    layer: Layer
    path: int
    flow: FlowClass
    state: str
    rtt_ns: int
    silent_ns: int = 0


class SessionSuspected(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The first suspicious miss of a path; a confirm burst is on its way."""

    peer: NodeName
    layer: Layer
    path: int
    log_likelihood: float


class SuspicionCleared(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The confirm burst found nothing wrong."""

    path: int


class VerdictChanged(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The diagnosis changed; `fault` none means recovery.

    Attributes:
        location: the remote one, where the pair is gone and its number does not say it; empty elsewhere.
    """

    verdict: Verdict
    previous: str
    location: str = ""


class OrderGiven(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """An operator's order stands from here on, or was found standing at start."""

    order: Order


class OrderEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A standing order is over: taken back, expired, or confirmed."""

    order: Order
    is_expired: bool


class CollisionFound(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Somebody else's object sits where ours would go; nothing is changed."""

    what: tuple[str, ...]


class ObjectReasserted(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """An object of ours was removed by somebody and put back."""

    what: str


class KeyMismatched(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Packets that name a peer as their maker are signed with a key that this node does not know.

    The claim is unproven: its likely cause is a step of a key rotation that one of the two has missed.
    """

    peer: NodeName
    key_id: int


class PathBisected(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A bisection told where packets to a node die; as in `bisection.BisectResult`.

    Attributes:
        pair: whose verdict asked for it; -1 for an operator.
        fault: that verdict's.
    """

    pair: int
    fault: str
    peer: NodeName
    place: Place
    candidates: tuple[Place, ...]
    direction: Direction
    flows: Flows
    because: tuple[str, ...]
    duration_ns: int


TunnelFact = EndpointMoved | AllowedIpsMoved | HandshakeStale | HandshakeRenewed | TunnelPeersChanged | TunnelKeyChanged
"""What the agent states of WireGuard devices; all other facts but PathBisected are the engine's."""

Fact = (
    DaemonStarted
    | TopologyChanged
    | OverrideRetired
    | MeshUnsettled
    | TopologyRejected
    | DaemonReady
    | SessionChanged
    | SessionSuspected
    | SuspicionCleared
    | VerdictChanged
    | FailoverProposed
    | ProposalAnswered
    | FailoverApplied
    | FailoverVerified
    | FailoverDoubted
    | FailoverRolledBack
    | FailoverHeld
    | FailoverAdvised
    | GenerationRefused
    | GenerationAccepted
    | PlanRefused
    | OverrideAdopted
    | DetourTaken
    | DetourLeft
    | PathBisected
    | OrderGiven
    | OrderEnded
    | PathSuppressed
    | CollisionFound
    | ObjectReasserted
    | ClockStalled
    | EngineOverloaded
    | EngineRelieved
    | ProbesHeld
    | ProbesFreed
    | AgentRestarted
    | ConfigReloaded
    | ConfigRefused
    | KeyMismatched
    | StampRefused
    | FaultRaised
    | FaultCleared
    | RepairAdvised
    | RepairStarted
    | RepairVerified
    | RepairUndone
    | RepairHeld
    | EndpointMoved
    | AllowedIpsMoved
    | HandshakeStale
    | HandshakeRenewed
    | TunnelPeersChanged
    | TunnelKeyChanged
    | SizeMeasured
)

Output = Command | Fact
