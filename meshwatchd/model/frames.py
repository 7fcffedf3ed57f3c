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
    SnapshotReceived,
    StateRestored,
)
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.outputs import EnsureProvision, Fact, Repair, ReplyOperator
from meshwatchd.model.policy_state import PolicyState
from meshwatchd.model.status import Status


class FactFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """A fact with the instant the engine stated it (CLOCK_MONOTONIC, nanoseconds)."""

    at_ns: int
    fact: Fact


class StatusFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """The engine's picture of itself, each second and after every change."""

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


ToAgent = FactFrame | StatusFrame | ProvisionFrame | RepairFrame | OperatorReplyFrame | StateFrame | PingFrame


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


class KeysFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="frame", tag=True):
    """How probes to some peers are signed from here on. No event: no journal must hold a secret."""

    bindings: tuple[PairBinding, ...]


ToEngine = EventFrame | AliveFrame | KeysFrame

MAX_FRAME_BYTES = 4 * 1024 * 1024
