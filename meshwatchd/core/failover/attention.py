"""Whether a pair of locations is looked at by everybody at full pace, or by its scouts alone.

At rest a pair is watched just closely enough to notice that something is wrong (`probing.intervals`). Where traffic can
go, who is at fault and whether it is over are then asked by every node as often as the budgets allow, until nothing has
been wrong for a while. So nothing that is decided rests on what was seen at rest.

A node that is awake by what it has seen itself says so in its packets, and at once to its neighbours; a node that hears
it is awake as well, and does not pass it on.
"""

from __future__ import annotations

from meshwatchd.core.diagnosis.pair_evidence import PairWatch
from meshwatchd.core.failover.confirm_burst import CONFIRMED_NATS
from meshwatchd.core.probing.round_robin import GIVEN_UP_NS
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.core.session.session import Session
from meshwatchd.model.settings import SECOND

AWAKE_NS = 10 * SECOND
"""How long a pair is looked at by everybody after the last that was wrong."""


class Attention:
    """Of one pair on one node.

    Attributes:
        is_alarmed: whether this node has seen itself that something is wrong, as of the last review.
    """

    __slots__ = ("_alarmed_until", "_until", "is_alarmed")

    def __init__(self) -> None:
        self.is_alarmed = False
        self._until = self._alarmed_until = 0

    def is_awake(self, now: int) -> bool:
        """Whether this node asks at full pace."""
        return now < self._until

    def hear(self, now: int) -> None:
        """A peer is alarmed."""
        self._until = now + AWAKE_NS

    def missed(self, session: Session, now: int) -> bool:
        """A session missed an answer; whether that is the first sign of more than everyday loss.

        A segment is asked closely by itself, and what has been silent for long is no news.
        """
        is_grave = session.plan.path != NO_PATH and session.cusum.nats >= CONFIRMED_NATS
        if not is_grave or now - session.last_heard > GIVEN_UP_NS:
            return False
        was_alarmed = now < self._alarmed_until
        self._alarmed_until = self._until = now + AWAKE_NS
        return not was_alarmed

    def review(self, watch: PairWatch, now: int, *, is_steady: bool) -> None:
        """Look at what is known of the paths.

        Args:
            watch: of the pair.
            now: nanoseconds.
            is_steady: whether traffic is where it belongs and nobody is about to move it.
        """
        if not is_steady or any(self._is_wrong(watch, path.number, now) for path in watch.paths):
            self._alarmed_until = self._until = now + AWAKE_NS
        self.is_alarmed = now < self._alarmed_until

    def _is_wrong(self, watch: PairWatch, path: int, now: int) -> bool:
        """A standby that has been down for long is no news."""
        group = watch.groups[path]
        if group.is_down:
            return now - group.down_since <= GIVEN_UP_NS or path == watch.primary.number
        return group.nats >= CONFIRMED_NATS
