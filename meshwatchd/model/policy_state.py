"""What policy remembers across restarts: operators' standing orders, and what pairs of locations did lately.

Instants are CLOCK_MONOTONIC nanoseconds of this boot; whoever keeps them across a boot shifts them (see `shifted`).
Pairs and paths go by the names of locations and relays: indices change with the mesh.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from meshwatchd.model.ids import NodeName


class OrderKind(StrEnum):
    """What an operator's standing order does.

    PAUSE: no move is made or granted but those that operators ask for.
    DRAIN: this node says AdminDown in every packet: its silence is no fault, and nobody's traffic relies on it.
    PIN: a path other than the mesh's own is the one to come back to.
    CONFIRM: an operator's failover is undone unless it is confirmed in time.
    """

    PAUSE = "pause"
    DRAIN = "drain"
    PIN = "pin"
    CONFIRM = "confirm"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One standing order. It has an owner's name, and it expires.

    Attributes:
        location: the remote location it is about; empty for all of them.
        rank: PIN: the path to use; CONFIRM: the path to go back to; as it was when that was said.
        relays: of that path: ranks are positions, which another leader changes. Empty where rank 0 is meant, the mesh's
            own path whichever that is, and in orders of versions before this field.
        reason: in the operator's words.
        is_chosen: CONFIRM: people chose the path to go back to as well, and traffic stays on it.
    """

    kind: OrderKind
    name: str
    until_ns: int
    location: str = ""
    rank: int | None = None
    reason: str = ""
    relays: tuple[NodeName, ...] = ()
    is_chosen: bool = False


class PathPenalty(msgspec.Struct, frozen=True, kw_only=True):
    """How much a path has flapped: a figure of merit in the sense of RFC 2439, as of an instant.

    Attributes:
        is_primary: whether it is the mesh's own path, whose relays the spare link between the leaders has as well;
            versions before this field kept one penalty for both.
    """

    relays: tuple[NodeName, NodeName]
    penalty: float
    at_ns: int
    is_primary: bool = True


class PairRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one pair of locations did.

    Attributes:
        location: the remote one.
        level: recent failovers that count towards the hold-down, as of `level_at_ns`.
        jitter: share of the hold-down by which this one is longer.
        actions: instants of the moves of the last day.
        is_pinned: an operator has chosen the path in use.
    """

    location: str
    level: int = 0
    level_at_ns: int = 0
    jitter: float = 0.0
    actions: tuple[int, ...] = ()
    is_pinned: bool = False
    penalties: tuple[PathPenalty, ...] = ()


class PolicyState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a restart must not forget."""

    orders: tuple[Order, ...] = ()
    pairs: tuple[PairRecord, ...] = ()

    def shifted(self, by_ns: int) -> PolicyState:
        """The same with all instants moved, as from one boot's clock to another's."""
        replace = msgspec.structs.replace
        return PolicyState(
            orders=tuple(replace(order, until_ns=order.until_ns + by_ns) for order in self.orders),
            pairs=tuple(
                replace(
                    pair,
                    level_at_ns=pair.level_at_ns + by_ns,
                    actions=tuple(at + by_ns for at in pair.actions),
                    penalties=tuple(replace(each, at_ns=each.at_ns + by_ns) for each in pair.penalties),
                )
                for pair in self.pairs
            ),
        )
