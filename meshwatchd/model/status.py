"""What `meshwatchctl status` shows: the engine's own picture of itself."""

from __future__ import annotations

import msgspec

from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity, Verdict, weight
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.mtu import SizeStatus
from meshwatchd.model.node_status import ReportedFault
from meshwatchd.model.policy_state import Order

UNWATCHED = "unwatched"
"""The state of a path that this node has no business on; redundancy is about the others."""


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One session.

    Attributes:
        address: where its probes go.
    """

    peer: NodeName
    layer: Layer
    path: int
    flow: FlowClass
    address: str
    state: str
    rtt_ns: int
    sent: int
    lost: int
    last_heard_ns: int


class CanaryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One canary as seen from this node.

    Attributes:
        state: of its session.
        depends_on: the fault that explains its silence; empty when it answers or is to blame itself.
        fault: what is wrong with a service that is asked for by its own protocol; empty where it is good, or nothing
            is known.
    """

    name: str
    node: NodeName
    kind: str
    address: str
    port: int
    state: str
    rtt_ns: int
    sent: int
    lost: int
    last_heard_ns: int
    depends_on: str
    fault: str = ""


class RateStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How often sessions of one kind are probed while nothing is suspected.

    Attributes:
        sessions: how many there are.
        interval_ns: between two probes of one of them.
        stretch: how many times slower than without `probe.packets_per_second`.
    """

    layer: Layer
    path: int
    flow: FlowClass
    sessions: int
    interval_ns: int
    stretch: float


class RestStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent while nothing is wrong, and which detection that is: by the schedule, not measured.

    Attributes:
        wan_kbit: all nodes of two locations together, hellos included, each way, on the wire.
        lan_kbit: this node and its neighbours, likewise.
        wan_limit_kbit, lan_limit_kbit: as configured; 0 for none.
        scouts_ns: between two probes of all scouts of a pair of locations over the path in use.
        turn_ns: between two of all other nodes; each has its turn in so many times the number of nodes.
        standby_ns: between two probes of a standby's relays.
        full_size_ns: between two packets of full size over the path in use.
        neighbour_ns: between two probes of one neighbour.
    """

    wan_kbit: float
    wan_limit_kbit: int
    lan_kbit: float
    lan_limit_kbit: int
    scouts_ns: int
    turn_ns: int
    standby_ns: int
    full_size_ns: int
    neighbour_ns: int


class PathStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One path as seen from this node: `good`, `suspect`, `down`, `unknown` or `unwatched`.

    Attributes:
        penalty: 1000 for each time it was condemned, halving with `policy.half_life`.
        is_suppressed: it has flapped too much to be come back to.
        is_next: traffic would move here if the path in use broke.
    """

    number: int
    rank: int
    relays: tuple[NodeName, NodeName]
    state: str
    is_active: bool
    is_local_relay: bool
    penalty: int = 0
    is_suppressed: bool = False
    is_next: bool = False


class PairStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic between this node's location and one other.

    Attributes:
        redundancy: of the standbys this node watches: "full", "reduced" (some are not good) or "none".
        is_chosen: an operator has moved traffic to the path in use: there is no coming back by itself.
    """

    pair: int
    location: str
    remote_location: str
    active_rank: int
    generation: int
    verdict: Verdict
    redundancy: str
    paths: tuple[PathStatus, ...]
    is_chosen: bool = False


class TunnelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One peer of a WireGuard device.

    Attributes:
        peer: its public key.
        endpoint: where packets to it go, empty where that is unknown.
        handshake_age_ns: None before the first handshake.
    """

    device: str
    peer: str
    endpoint: str
    handshake_age_ns: int | None
    rx_bytes: int
    tx_bytes: int


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """Where the mesh is known from.

    Attributes:
        origin: "declared" in the configuration, told by "hellos", from the "cache" of an earlier process while nobody
            was heard yet, or "nothing".
        nodes: that are known, this one included.
        unheard: nodes that have said nothing since this process began, a bounded number of them.
        problems: what stands in the way of a complete mesh, as sentences.
    """

    origin: str
    nodes: int
    unheard: tuple[NodeName, ...] = ()
    problems: tuple[str, ...] = ()


class FindingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that a look at this node's kernel found.

    Attributes:
        device, subject: where, and what of it.
        peer: the node at the other end, as far as known.
        culprit: the node that has the fault.
        repair: what is done about it: "none" (nothing can be), "advised", "started", "verified", "undone" or "held".
        commands: that would repair it.
    """

    fault: FaultCode
    layer: Layer
    severity: Severity
    device: str
    subject: str
    peer: str
    culprit: str
    since_ns: int
    because: tuple[str, ...]
    repair: str
    commands: tuple[str, ...]

    @property
    def is_of_few(self) -> bool:
        """Whether it loses some pods of one node alone (`AuditFinding.severity`), which is nobody else's concern."""
        return weight(self.severity) < weight(CATALOGUE[self.fault].severity)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole picture.

    Attributes:
        severity: of the worst verdict or finding; a node that watches no pair of locations is never OK.
        is_ready: every primary path has been judged.
        canaries: those that this node asks; they are no part of `sessions`.
        tunnels: added by the agent when somebody asks.
        knowledge: likewise; None where nothing is to be found out.
        sizes: what each layer of each path carries.
        findings: what a look at the kernel found.
        orders: operators' standing orders on this node.
        drained: nodes that say they are taken out of service.
        rejected: why the engine takes over no mesh; empty where it has one.
        collisions: objects of others where this node's would go, each with its remedy. While there are any the node
            watches and changes nothing, whatever its mode; but in mode enforce, traffic on a standby comes home.
        reported: faults that other nodes report; added by the agent when somebody asks.
        remarks: what limits this picture, as sentences; likewise.
        counters: rejected packets by reason, probes sent, wake-ups late, and the like.
        resident_bytes: memory of engine and agent together; 0 where that is not known.
        cpu_percent: of one core, both together, since the status before this one; None where that is not known.
        rest: what is sent while nothing is wrong; None where no mesh is watched.
        detour: how this node's traffic goes around its own leg to the leader; empty while it does not.
    """

    at_ns: int
    node: NodeName
    location: str
    role: str
    mode: str
    is_ready: bool
    severity: Severity
    pairs: tuple[PairStatus, ...]
    sessions: tuple[SessionStatus, ...]
    rates: tuple[RateStatus, ...] = ()
    counters: dict[str, int]
    canaries: tuple[CanaryStatus, ...] = ()
    tunnels: tuple[TunnelStatus, ...] = ()
    knowledge: Knowledge | None = None
    sizes: tuple[SizeStatus, ...] = ()
    findings: tuple[FindingStatus, ...] = ()
    orders: tuple[Order, ...] = ()
    drained: tuple[NodeName, ...] = ()
    rejected: str = ""
    collisions: tuple[str, ...] = ()
    reported: tuple[ReportedFault, ...] = ()
    remarks: tuple[str, ...] = ()
    resident_bytes: int = 0
    cpu_percent: float | None = None
    rest: RestStatus | None = None
    detour: str = ""

    @property
    def is_watching(self) -> bool:
        """Whether the traffic to any other location is watched."""
        return bool(self.pairs)

    @property
    def is_calm(self) -> bool:
        """Whether nothing is wrong with what is watched; there may be nothing."""
        return self.severity is Severity.OK or not self.is_watching


def path_rtt_ns(status: Status, path: PathStatus) -> int:
    """The median round trip over a path's end-to-end sessions that answer, in nanoseconds; 0 where none does."""
    measured = sorted(
        session.rtt_ns
        for session in status.sessions
        if session.layer is Layer.RELAY and session.path == path.number and session.rtt_ns > 0
        if session.state in {"up", "suspect"}
    )
    middle = len(measured) // 2
    return (measured[middle] + measured[~middle]) // 2 if measured else 0
