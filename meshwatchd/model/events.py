"""Everything that can happen to the engine. One union, one queue, one journal."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.fault_codes import FaultCode
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.load import AnswersDropped, LoadMeasured
from meshwatchd.model.mtu import SizeAnswered, SizeUnsent
from meshwatchd.model.policy_state import PolicyState
from meshwatchd.model.service_check import ServiceSeen
from meshwatchd.model.snapshot import Snapshot


class ActivePath(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says about one pair of locations: the rank in use and how many moves led there.

    Attributes:
        relays: a fingerprint of the relays that the ranks stand for (`core.mesh.mesh_diff.relays_print`), 0 for none:
            ranks and pairs are positions in lists of which two nodes may have different versions for a moment.
        is_alarmed: the node has seen that something is wrong with the pair (`core.failover.attention`).
    """

    pair: int
    rank: int
    generation: int
    relays: int = 0
    is_alarmed: bool = False


class Banner(msgspec.Struct, frozen=True, kw_only=True):
    """What every packet of a node carries about itself, or of a mesh of many locations a part of it.

    `diagnosis.banner_windows` says which part.

    Attributes:
        view_up: bit `32 * (pair // 6) + 5 * (pair % 6) + k` set: WireGuard leg (k=0), own overlay to the members (k=1),
            relay path (k=2), own leader's underlay (k=3), IPIP leg to the own leader (k=4) is good.
        view_known: the same bits, set where `view_up` means anything.
        active: the path in use, for each pair of locations.
        is_admin_down: the node is taken out of service on purpose (RFC 5880's AdminDown): nobody's traffic is to rely
            on it, and its silence is no fault.
        has_misfit: the node's verdict on itself is that a device has a greater MTU than what is below it carries.
        window: 0 where it is all that there is to say; else one more than the place of the six pairs it is about.
    """

    view_up: int = 0
    view_known: int = 0
    active: tuple[ActivePath, ...] = ()
    is_admin_down: bool = False
    has_misfit: bool = False
    window: int = 0


class CoordinationKind(StrEnum):
    """Messages by which relays agree to move traffic."""

    PROPOSE = "propose"
    GRANT = "grant"
    REFUSE = "refuse"
    NOTICE = "notice"


class Reason(StrEnum):
    """Why a move is asked for, or refused; the position is the code on the wire."""

    NONE = "none"
    BROKEN = "broken"
    RESTORED = "restored"
    OPERATOR = "operator"
    MODE = "mode"
    BUDGET = "budget"
    BETTER_PATH = "better-path"
    STALE = "stale"
    NOT_GOOD = "not-good"
    ROLLED_BACK = "rolled-back"
    CHANGING = "changing"
    DRAINED = "drained"
    PINNED = "pinned"
    PAUSED = "paused"
    TOO_SMALL = "too-small"


class Coordination(msgspec.Struct, frozen=True, kw_only=True):
    """One coordination message.

    Attributes:
        rank: path to use after the move; 0 is failback.
        generation: the sender's count of moves of this pair after this one.
        nonce: chosen by the proposer, repeated in the answer.
        reason: why the move is asked for or refused.
        target: the node it is for.
        relays: as in `ActivePath`.
    """

    kind: CoordinationKind
    pair: int
    rank: int
    generation: int
    nonce: int
    target: NodeName
    reason: Reason = Reason.NONE
    relays: int = 0


class Tick(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """Time has passed; the engine's deadline is due.

    Attributes:
        heard_ns: everything that had arrived by then has been read and told; 0 stands for the present. An answer that
            came later may wait in a socket still, so that no wait which ends later is over.
    """

    heard_ns: int = 0


class Stalled(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """This process was not scheduled for a while: what is outstanding proves nothing.

    Attributes:
        late_ns: how much later than asked for the loop woke up.
    """

    late_ns: int


class SnapshotReceived(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """A complete dump of the kernel's state."""

    snapshot: Snapshot


class Provisioned(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The agent has put (or failed to put) our standing objects in place.

    Attributes:
        is_complete: all that was put last is in place.
        is_pending: what the engine asked for last has yet to be put: this tells nothing of which standby paths stand.
    """

    is_complete: bool
    errors: tuple[str, ...] = ()
    is_pending: bool = False


class ReplyReceived(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """An authenticated answer to a probe of ours.

    Attributes:
        rtt_ns: receive time minus send time on this node's monotonic clock.
        peer_epoch: the reflector's boot epoch.
    """

    session: SessionId
    seq: int
    rtt_ns: int
    peer_epoch: int
    banner: Banner


class RequestReceived(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """An authenticated probe of a peer, already reflected.

    Attributes:
        is_fresh_epoch: the peer's boot epoch was proven by an answer to a nonce of ours and the sequence was not seen
            before; only then may what it says be acted on.
        is_confirm: it belongs to a confirm burst: that it was sent tells nothing of how often the peer usually sends.
        size_bytes: of the whole IP packet, of a probe that measures sizes; 0 for all others.
    """

    peer: NodeName
    layer: Layer
    path: int
    flow: FlowClass
    is_fresh_epoch: bool
    banner: Banner
    is_confirm: bool = False
    coordination: Coordination | None = None
    size_bytes: int = 0


class OtherKeySeen(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """A request in a peer's name is signed with another key than this node signs with.

    Attributes:
        is_known: the key is accepted here and the request is proven: the two are at different steps of a rotation. An
            unknown key proves nothing, not even who sent the request.
    """

    peer: NodeName
    key_id: int
    is_known: bool = False


class LatenessMeasured(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """This process's own timers have lately been late by so much.

    Attributes:
        p99_ns: nanoseconds that one wake-up in a hundred exceeds.
    """

    p99_ns: int


class SendFailed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """A probe could not be handed to the kernel."""

    session: SessionId
    seq: int
    errno: int


class SwitchApplied(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The kernel acknowledged a change of override."""

    pair: int
    generation: int


class SwitchFailed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The kernel refused a change of override; it has been undone as far as it went."""

    pair: int
    generation: int
    error: str


class ObjectLost(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """Somebody removed an object of ours."""

    what: str


class FindingsReported(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """All that is wrong with this node's devices at present: what is not among them any more has ended."""

    findings: tuple[AuditFinding, ...] = ()


class PeerFault(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer has found in its own kernel, or passes on of a neighbour.

    Attributes:
        culprit: the node that has the fault.
        source: the peer that says so.
        is_own_leader: the source leads this node's location.
        blamed: the one node that probes blame for it; empty where that is the culprit, or follows from the fault.
        loses_tunnel_with_pods: what loses the culprit's pods loses all else of it.
    """

    fault: FaultCode
    culprit: NodeName
    source: NodeName
    is_own_leader: bool = False
    blamed: NodeName = NodeName("")
    loses_tunnel_with_pods: bool = False


class PeersTold(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """All that peers say is wrong in their kernels at present."""

    faults: tuple[PeerFault, ...] = ()


class RepairDone(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """A repair was carried out and looked at, or undone.

    Attributes:
        is_verified: the kernel holds what was to be put.
        error: why it does not; what was changed has been undone as far as it went.
    """

    request: int
    is_verified: bool
    error: str = ""


class MeshStirred(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The mesh's own agent is at work on this node: told at once, ahead of the snapshot that shows it.

    Attributes:
        what: as a sentence.
        is_rebuilding: its WireGuard device or peers were made anew; else something only went.
        is_seen_everywhere: it did as much on the other nodes, which see it in their own kernels.
    """

    what: str
    is_rebuilding: bool
    is_seen_everywhere: bool = False


class AgentLost(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The agent process is gone; the runtime restarts it.

    Attributes:
        exit_status: its code, or minus the signal that killed it.
        silent_ns: how long it had left the engine's pings unanswered, where the engine killed it for that; else 0.
    """

    exit_status: int
    silent_ns: int = 0


class OperatorVerb(StrEnum):
    """What an operator may ask for."""

    FAILOVER = "failover"
    FAILBACK = "failback"
    CONFIRM = "confirm"
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    PIN = "pin"
    UNPIN = "unpin"


class OperatorRequested(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """A request from meshwatchctl.

    Attributes:
        request: its number, repeated in the reply.
        location: the remote location whose path is to change; empty means the only one, or all for standing orders.
        to_rank: the path wanted, or None for the best standby.
        name: whose standing order it is.
        reason: of the order, in the operator's words.
        duration_ns: how long the order stands; with FAILOVER, how long it waits to be confirmed.
        is_from_root: False for a member of the operators' group, who is bound to more rules.
    """

    request: int
    verb: OperatorVerb
    location: str = ""
    to_rank: int | None = None
    is_dry_run: bool = False
    name: str = ""
    reason: str = ""
    duration_ns: int | None = None
    is_from_root: bool = True


class StateRestored(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """What an earlier process of this node has left for this one; comes before the first snapshot, or not at all."""

    state: PolicyState


Event = (
    Tick
    | Stalled
    | SnapshotReceived
    | Provisioned
    | ReplyReceived
    | RequestReceived
    | OtherKeySeen
    | LatenessMeasured
    | LoadMeasured
    | AnswersDropped
    | SendFailed
    | ServiceSeen
    | SwitchApplied
    | SwitchFailed
    | ObjectLost
    | MeshStirred
    | FindingsReported
    | PeersTold
    | RepairDone
    | AgentLost
    | OperatorRequested
    | SizeAnswered
    | SizeUnsent
    | StateRestored
)
