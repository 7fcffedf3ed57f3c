"""Whether a pair of locations is looked at by everybody at full pace, or by its scouts alone.

At rest a pair is watched just closely enough to notice that something is wrong (`probing.intervals`). Where traffic can
go, who is at fault and whether it is over are then asked by every node as often as the budgets allow, until nothing has
been wrong for a while. So nothing that is decided rests on what was seen at rest.

A path that was left is no reason to look for as long as it is broken: traffic on a standby is watched as at home, and
what was said about the path stands until somebody has looked again. Everybody looks when it answers, or when a node
falls silent that answered beside it.

A node that is awake by what it has seen itself says so in its packets, and at once to its neighbours; a node that hears
it is awake as well, and does not pass it on.
"""

from __future__ import annotations

from meshwatchd.core.diagnosis.pair_evidence import RECENT_NS, PairWatch
from meshwatchd.core.failover.confirm_burst import CONFIRMED_NATS
from meshwatchd.core.probing.round_robin import GIVEN_UP_NS
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.core.session.session import Session
from meshwatchd.core.session.shared_risk_group import Group
from meshwatchd.model.ids import Layer
from meshwatchd.model.settings import SECOND

AWAKE_NS = 10 * SECOND
"""How long a pair is looked at by everybody after the last that was wrong."""

HEARD_NS = 3 * SECOND
"""How long the word of a peer counts, which it repeats in each of its packets while it is alarmed."""

NEWS_NS = 5 * SECOND
"""How long a path that is down and carries nothing is news: what is at fault has been named by then."""


class Attention:
    """Of one pair on one node.

    Attributes:
        is_alarmed: whether this node has seen itself that something is wrong, as of the last review.
    """

    __slots__ = ("_alarmed_until", "_since", "_until", "is_alarmed")

    def __init__(self) -> None:
        self.is_alarmed = False
        self._since = self._until = self._alarmed_until = 0

    def is_awake(self, now: int) -> bool:
        """Whether this node asks at full pace."""
        return now < self._until

    def has_looked(self, now: int) -> bool:
        """Whether it has asked at full pace for as long as outcomes count in a diagnosis."""
        return self.is_awake(now) and now - self._since >= RECENT_NS

    def put_off(self, now: int) -> None:
        """Nobody looks at this moment, whoever is alarmed."""
        self._since = now

    def hear(self, now: int) -> None:
        """A peer is alarmed."""
        self._wake(now, HEARD_NS)

    def missed(self, session: Session, watch: PairWatch, now: int) -> bool:
        """A session missed an answer; whether that is the first sign of more than everyday loss.

        What has been silent for long is no news. A segment is asked closely by itself, but while a path stands
        condemned, a node that has answered since changes what can be said about it.
        """
        if session.cusum.nats < CONFIRMED_NATS or now - session.last_heard > GIVEN_UP_NS:
            return False
        if session.plan.path == NO_PATH:
            left = watch.group(watch.primary)
            is_news = session.plan.layer is Layer.UNDERLAY and left.is_down and session.last_heard > left.down_since
        else:
            is_news = not _is_old(watch.groups[session.plan.path], now)
        return is_news and self.alarm(now)

    def review(self, watch: PairWatch, now: int, *, in_use: int, is_moving: bool) -> None:
        """Look at what is known of the paths."""
        if is_moving or any(_is_wrong(group, now, is_used=path == in_use) for path, group in watch.groups.items()):
            self.alarm(now)
        self.is_alarmed = now < self._alarmed_until

    def alarm(self, now: int) -> bool:
        """Have everybody look; whether this node has not called them already."""
        is_first = now >= self._alarmed_until
        self._wake(now, AWAKE_NS)
        self._alarmed_until = self._until
        return is_first

    def _wake(self, now: int, length_ns: int) -> None:
        if now >= self._until:
            self._since = now
        self._until = max(self._until, now + length_ns)


def _is_wrong(group: Group, now: int, *, is_used: bool) -> bool:
    return (is_used or not _is_old(group, now)) if group.is_down else group.nats >= CONFIRMED_NATS


def _is_old(group: Group, now: int) -> bool:
    return group.is_down and now - group.down_since > NEWS_NS
