"""Facts about moves of traffic: what was proposed, done, proven, held back or undone."""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import NodeName


class OverrideRetired(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The path in use is no part of the mesh any more, and traffic has left it for one that is."""

    pair: int
    to_rank: int
    operations: tuple[str, ...]
    because: tuple[str, ...]


class FailoverProposed(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """This relay asks the other to move."""

    pair: int
    from_rank: int
    to_rank: int
    generation: int
    reason: str


class ProposalAnswered(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """This relay granted or refused the other's proposal."""

    pair: int
    to_rank: int
    peer: NodeName
    is_granted: bool
    reason: str


class FailoverApplied(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """This node's traffic to the other location takes another path; rank 0 in `to_rank` is failback."""

    pair: int
    from_rank: int
    to_rank: int
    generation: int
    relays: tuple[NodeName, NodeName]
    operations: tuple[str, ...]
    because: tuple[str, ...]


class FailoverVerified(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Probes that follow real traffic arrive over the new path.

    Attributes:
        small_only: peers that large packets do not reach.
    """

    pair: int
    rank: int
    received: int
    sent: int
    small_only: tuple[str, ...] = ()


class FailoverDoubted(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Too few probes that follow real traffic arrive over the new path, and still more than over the one it replaced.

    It stays: going back would be worse. From here on it is judged like any path in use.

    Attributes:
        received: of `sent` probes over the new path.
        left_received: of `left_sent` probes over the path that was left, since the move.
    """

    pair: int
    rank: int
    received: int
    sent: int
    left_received: int
    left_sent: int


class FailoverRolledBack(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The new path was worse; the change has been undone."""

    pair: int
    rank: int
    reason: str


class FailoverHeld(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The path is broken and nothing is done; says why."""

    pair: int
    reason: str


class FailoverAdvised(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """What would be done in enforce mode."""

    pair: int
    to_rank: int
    operations: tuple[str, ...]
    because: tuple[str, ...]


class PlanRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The kernel or the policy refused a change."""

    pair: int
    reason: str


class OverrideAdopted(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """At start an override of ours was found in the kernel and is kept."""

    pair: int
    rank: int


class PathSuppressed(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """A path has flapped so much that it is not come back to until its penalty has decayed."""

    pair: int
    rank: int
    penalty: int


class DetourTaken(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """This node's own leg to its leader is broken, and its traffic to other locations goes around it."""

    relay: NodeName
    via: str
    device: str
    operations: tuple[str, ...]
    because: tuple[str, ...]


class DetourLeft(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """This node's traffic goes by its own leg again."""

    relay: NodeName
    operations: tuple[str, ...]
    because: tuple[str, ...]
