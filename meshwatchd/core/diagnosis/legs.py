"""What the sessions over one leg say of it: alive, dead, or nothing yet."""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.session.class_sessions import ISOLATED_NATS
from meshwatchd.core.session.cusum import HIT_NATS, MISS_NATS, QUARTER, TRIP_NATS
from meshwatchd.core.session.session import Session
from meshwatchd.core.session.shared_risk_group import DISTURBED_NATS

ALIVE_AFTER_HITS = 3
"""Answers since suspicion began that make a leg alive: one may have ridden on a remembered outer flow."""

ALIVE_RATIO = 4
"""Answers for each miss on a leg that is alive: more than chance leaves when new flows die."""

DEAD_NATS = 2 * MISS_NATS + HIT_NATS
"""Evidence since suspicion began that makes a leg dead for the classifier: two misses and an answer at most.

It is weighed against healthy loss, not counted: where half of the new flows ride on remembered ones, misses hardly ever
outnumber answers for long.
"""


SURE_NATS = TRIP_NATS
"""A leader accuses its own overlay although its own path is fine, and nothing else speaks for it: so on what it takes
to condemn a path, fifteen misses of its members in a row or their worth. Every member's session has to be disturbed,
and with n of them chance gets that far with the probability exp(-T) * sum((T - n D)^k / k!, k < n), T being this and D
DISTURBED_NATS: 1e-9 a probe for two members, 3e-9 at most. Half of it is reached every few hours where 5 % of all
packets are lost."""

TOLD_NATS = TRIP_NATS / 2
"""The same once traffic has left the path: that somebody had condemned it, which chance does not do, speaks for it."""


MOST_NEIGHBOURS = 4
"""Of one cluster, that a node asks about its own overlay."""

MOST_MEMBERS = 6
"""Of a location, that a leader asks about its overlay."""


def leg(sessions: tuple[Session, ...], since: int) -> Leg:
    """The state of a leg from its sessions' outcomes since an instant.

    With no instant (nothing is suspected) the sessions' standing states decide.
    """
    if not since:
        return standing(sessions)
    outcomes = [session.since(since) for session in sessions if session.is_proven]
    hits, misses = sum(won for won, _ in outcomes), sum(lost for _, lost in outcomes)
    if hits >= ALIVE_AFTER_HITS and hits >= ALIVE_RATIO * misses:
        return Leg.ALIVE
    if misses * MISS_NATS + hits * HIT_NATS >= DEAD_NATS:
        return Leg.DEAD
    return Leg.UNKNOWN


def is_lossy(sessions: Iterable[Session], since: int) -> bool:
    """Whether the latest outcomes since an instant speak for a leg that loses a quarter, rather than everyday loss.

    A leg that loses so much changes between alive and dead with every few seconds.
    """
    outcomes = [session.since(since) for session in sessions if session.is_proven]
    return sum(won * QUARTER.hit_nats + lost * QUARTER.miss_nats for won, lost in outcomes) > 0


def standing(sessions: tuple[Session, ...]) -> Leg:
    """All sessions disturbed is dead, one of them calm is alive, in between nobody can say."""
    is_dead = False
    is_in_doubt = False
    for session in sessions:
        if not session.is_proven:
            continue
        if session.cusum.nats < ISOLATED_NATS:
            return Leg.ALIVE
        is_dead = True
        is_in_doubt = is_in_doubt or session.cusum.nats < DISTURBED_NATS
    return Leg.DEAD if is_dead and not is_in_doubt else Leg.UNKNOWN


def members_leg(sessions: tuple[Session, ...], since: int, *, has_moved: bool) -> Leg:
    """A leader's overlay to its members; what speaks against it the sessions gather, whatever suspicions come and go.

    Args:
        sessions: to the members.
        since: when outcomes that speak for it begin to count; 0 for always.
        has_moved: traffic has left the path.
    """
    if standing(sessions) is Leg.DEAD:
        nats = sum(session.cusum.nats for session in sessions)
        return Leg.DEAD if nats >= (TOLD_NATS if has_moved else SURE_NATS) else Leg.UNKNOWN
    found = leg(sessions, since)
    return found if found is Leg.ALIVE else Leg.UNKNOWN


def any_leg(sessions: Iterable[Session], since: int) -> Leg:
    """What several sessions say of what they have in common, where each may have a fault of its own at its end.

    One of them alive is enough: old flows pass, whatever has become of the node at the end of another.
    """
    legs = {leg((session,), since) for session in sessions if session.is_proven}
    if Leg.ALIVE in legs:
        return Leg.ALIVE
    return Leg.DEAD if legs == {Leg.DEAD} else Leg.UNKNOWN


def neighbours_asked(sessions: Iterable[Session], node: str, most: int = MOST_NEIGHBOURS) -> tuple[Session, ...]:
    """The sessions to a few neighbours of a node, those behind it by name: they tell whether its overlay works.

    A burst to all of a large location would cost more than it tells, and all of them would have to be silent.
    """
    every = tuple(sessions)
    names = sorted({session.plan.peer for session in every} - {node})
    behind = [*(name for name in names if name > node), *names][:most]
    return tuple(session for session in every if session.plan.peer in behind)
