"""Messages between the engine process and the agent, one per SOCK_SEQPACKET datagram, msgpack encoded."""

from __future__ import annotations

import msgspec

from meshwatchd.model.events import (
    FindingsReported,
    MeshStirred,
    ObjectLost,
    OperatorRequested,
    PeersTold,
    Provisioned,
    RepairDone,
    SendFailed,
    SnapshotReceived,
    StateRestored,
)
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.outputs import EnsureProvision, Fact, Repair, ReplyOperator, SessionPlan
from meshwatchd.model.policy_state import PolicyState
from meshwatchd.model.service_check import ServiceSeen
from meshwatchd.model.status import Status


class FactFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """A fact with the instant the engine stated it (CLOCK_MONOTONIC, nanoseconds)."""

    at_ns: int
    fact: Fact


class StatusFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The engine's picture of itself: after a change, each second while anything is wrong, and for whoever asks."""

    status: Status


class ProvisionFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The engine asks for the standing objects."""

    command: EnsureProvision


class RepairFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The engine asks for a repair."""

    command: Repair


class OperatorReplyFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The engine's answer to an operator."""

    reply: ReplyOperator


class PingFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The engine asks whether the agent's loop goes round; an AliveFrame is the answer."""


class StateFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """What the next process of this node has to know."""

    state: PolicyState


class StopFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The engine stops in order, as it was told to, and closes the link; one that crashes just closes it."""


class AskFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The engine has a service asked for by its own protocol, once.

    Attributes:
        number: of the question; its answer has the same.
        at_ns: when it left the engine (CLOCK_MONOTONIC, nanoseconds).
        plan: what is asked, by a canary of kind dns, tls or http.
        seq: of the probe.
        source_port: the UDP port that DNS is asked from.
    """

    number: int
    at_ns: int
    plan: SessionPlan
    seq: int
    source_port: int


ToAgent = (
    FactFrame
    | StatusFrame
    | ProvisionFrame
    | RepairFrame
    | OperatorReplyFrame
    | StateFrame
    | PingFrame
    | StopFrame
    | AskFrame
)


AgentEvent = (
    SnapshotReceived
    | Provisioned
    | ObjectLost
    | MeshStirred
    | OperatorRequested
    | StateRestored
    | FindingsReported
    | PeersTold
    | RepairDone
)
"""What the agent has for the engine."""


class EventFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """An event the agent has for the engine."""

    event: AgentEvent


class AliveFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The answer to a PingFrame: the agent's loop goes round."""


class StatusAskedFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """Somebody looks: a StatusFrame of this moment is the answer."""


class KeysFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """How probes to some peers are signed from here on. No event: no journal must hold a secret."""

    bindings: tuple[PairBinding, ...]


class AnswerFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """What became of the question of that number; that nothing was seen is SendFailed(NOT_SEEN)."""

    number: int
    event: ServiceSeen | SendFailed


ToEngine = EventFrame | AliveFrame | StatusAskedFrame | KeysFrame | AnswerFrame

MAX_FRAME_BYTES = 4 * 1024 * 1024
