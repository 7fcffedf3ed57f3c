"""Which events belong to one incident, and for how long traffic was lost in it.

An incident is a time in which one thing was wrong, as an operator would count: the way to a location, or an object of
this node's kernel. Its number is a field of each of its events, so the events on disk are the only history there is,
and the files that are gone take whole incidents with them without renumbering others.

    way to a location   from the first verdict that is not OK to the one that is; a verdict of traffic that is lost ends
                        what merely warned, and begins another incident
    object of a kernel  from fault.raised to fault.cleared

A new engine knows of no fault, and so tells the end of none: whatever goes on ends with daemon.started. A fault that
persists is named again soon, and its incident goes on under its number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from meshwatchd.model.faults import Severity
from meshwatchd.model.settings import MINUTE, SECOND
from meshwatchd.model.topology import RANKS_PER_PAIR

Event = Mapping[str, object]

REOPEN_NS = MINUTE
"""What comes back within this time is the same incident: a path that flaps is one trouble, not sixty."""

MAX_OPEN = 256
"""Scopes that are remembered; each pair of locations and each broken object is one."""

LEAD_NS = 10 * SECOND
"""The first loss of an outage is not older than this: what was silent for longer was silent before."""

NO_PATH = 0xFFFF
"""The path of sessions that belong to none (core.probing.session_plan)."""

Scope = tuple[object, ...]


class Outage:
    """For how long traffic to one location was lost, by this node's probes.

    It begins when the first probe left that the path in use lost before a critical verdict. It ends when traffic takes
    another path, or when the verdict is not critical any more. So it is never told too long, and too short by no more
    than the time between two probes of that path. A move that is rolled back ends nothing. The start of another engine
    ends it, but where that finds the same within REOPEN_NS and nothing on the path in use has answered it meanwhile.

    Attributes:
        total_ns: of the outages that are over.
        since_ns: when the present one began; None while traffic flows.
    """

    def __init__(self) -> None:
        self.total_ns = 0
        self.since_ns: int | None = None
        self._rank = 0
        self._left_ns: int | None = None
        # When the outage began that the start of an engine has ended.
        self._cut_ns: int | None = None
        # It goes on by a warning alone, until the path in use answers.
        self._is_unanswered = False
        self._ended_ns = 0
        self._losses: dict[object, tuple[int, int]] = {}

    def lost_ns(self, now_ns: int) -> int:
        """All that was lost until an instant of CLOCK_MONOTONIC."""
        return self.total_ns + (0 if self.since_ns is None else max(0, now_ns - self.since_ns))

    def take(self, event: Event) -> None:
        """Learn of an event of this pair; others change nothing."""
        at_ns = instant(event)
        match event.get("event"):
            case "session.changed":
                self._note_session(event, at_ns)
            case "verdict.changed":
                self._note_verdict(event, at_ns)
            case "daemon.started":
                # What an earlier engine has seen of its sessions and moves says nothing about those of this one.
                self._losses.clear()
                self._left_ns, self._is_unanswered = None, False
                self._cut_ns = self._cut_ns if self.since_ns is None else self.since_ns
                self._end(at_ns)
            case "failover.applied" | "failback.applied":
                if self.since_ns is None and _number(event.get("to_rank")) and self._has_losses(at_ns):
                    # A node that follows the relays moves before it has a verdict of its own.
                    self.since_ns = self._first_loss_before(at_ns)
                self._left_ns, self._cut_ns, self._is_unanswered = self.since_ns, None, False
                self._end(at_ns)
                self._rank = _number(event.get("to_rank"))
            case "failover.rolled_back" if self._left_ns is not None and self.since_ns is None:
                self.total_ns -= max(0, self._ended_ns - self._left_ns)
                self.since_ns, self._left_ns = self._left_ns, None
            case _:
                pass

    def _note_verdict(self, event: Event, at_ns: int) -> None:
        severity = event.get("severity")
        if severity == Severity.CRITICAL:
            self._is_unanswered = False
            if self.since_ns is None and not self._resume(at_ns):
                self.since_ns = self._first_loss_before(at_ns)
            return
        if severity == Severity.OK:
            self._cut_ns, self._is_unanswered = None, False
        elif self._resume(at_ns):
            # A new engine only warns of what has never answered it; traffic is lost until something does.
            self._is_unanswered = True
        if not self._is_unanswered:
            self._left_ns = None
            self._end(at_ns)

    def _note_session(self, event: Event, at_ns: int) -> None:
        key, path = event.get("session"), _number(event.get("path"))
        if event.get("state") not in ("suspect", "down") or path == NO_PATH:
            self._losses.pop(key, None)
            if event.get("state") == "up" and path != NO_PATH and path % RANKS_PER_PAIR == self._rank:
                self._cut_ns = None
                if self._is_unanswered:
                    self._is_unanswered = False
                    self._end(at_ns)
            return
        first = at_ns - _number(event.get("silent_ns"))
        # A lucky probe between two lost ones does not make what was lost before it good.
        self._losses[key] = path % RANKS_PER_PAIR, min(first, self._losses.get(key, (0, first))[1])

    def _resume(self, at_ns: int) -> bool:
        """Go on with the outage that the start of an engine has ended; false where there is none."""
        began, self._cut_ns = self._cut_ns, None
        if began is None or at_ns - self._ended_ns > REOPEN_NS:
            return False
        self.total_ns -= max(0, self._ended_ns - began)
        self.since_ns = began
        return True

    def _has_losses(self, at_ns: int) -> bool:
        return self._first_loss_before(at_ns) < at_ns

    def _first_loss_before(self, at_ns: int) -> int:
        known = (lost for rank, lost in self._losses.values() if rank == self._rank)
        return min((lost for lost in known if at_ns - lost <= LEAD_NS), default=at_ns)

    def _end(self, at_ns: int) -> None:
        if self.since_ns is not None:
            self.total_ns += max(0, at_ns - self.since_ns)
            self._ended_ns, self.since_ns = at_ns, None


class _Scope:
    """What is known of one scope's latest incident.

    Attributes:
        is_cut: the start of an engine has ended it, and nobody has seen that it is over.
    """

    __slots__ = ("ended_ns", "is_critical", "is_cut", "number")

    def __init__(self, number: int, *, is_critical: bool) -> None:
        self.number, self.is_critical = number, is_critical
        self.ended_ns: int | None = None
        self.is_cut = False

    def goes_on(self, at_ns: int) -> bool:
        """Whether it is open, or a new engine has yet to say whether it is."""
        return self.ended_ns is None or (self.is_cut and at_ns - self.ended_ns <= REOPEN_NS)


class IncidentTracker:
    """Gives events the number of their incident, one event after the other.

    Attributes:
        outages: by the name of the remote location, since this node's start.
        moves: of traffic, by remote location and by where it went: "standby" or "primary".
        last: the highest number given.
    """

    def __init__(self) -> None:
        self.outages: dict[str, Outage] = {}
        self.moves: Counter[tuple[str, str]] = Counter()
        self.last = 0
        self._scopes: dict[Scope, _Scope] = {}
        self._ranks: dict[Scope, int] = {}
        # The last name of each pair: numbers shift with the mesh, and an agent that has just begun knows no names yet.
        self._remotes: dict[int, str] = {}
        self._boot: object = None

    def take(self, event: Event) -> int:
        """The number of the incident that an event belongs to; 0 for none.

        Args:
            event: as it goes to the event store; one that has a number already, because it comes from there, keeps it.
        """
        if event.get("boot", self._boot) != self._boot:
            # Instants of another boot mean nothing here, and what was open then ended unseen.
            self._boot = event.get("boot")
            self._scopes.clear()
            self._ranks.clear()
            self._remotes.clear()
            self.outages.clear()
            self.moves.clear()
        if event.get("event") == "daemon.started":
            self._cut(instant(event))
        self._measure(event)
        given = _number(event.get("incident"))
        number = self._number(event, given or self.last + 1)
        self.last = max(self.last, number, given)
        return given or number

    @property
    def open(self) -> int:
        """How many incidents go on."""
        return sum(scope.ended_ns is None for scope in self._scopes.values())

    def _cut(self, at_ns: int) -> None:
        """A new engine: it begins with no fault, and says nothing of what ended while there was none."""
        for scope in self._scopes.values():
            if scope.ended_ns is None:
                scope.ended_ns, scope.is_cut = at_ns, True
        for outage in self.outages.values():
            outage.take({"event": "daemon.started", "at_ns": at_ns})

    def _location(self, event: Event) -> str:
        """The remote location that an event is about; empty where nothing says it."""
        location, pair = event.get("location"), event.get("pair")
        if isinstance(location, str) and location:
            if isinstance(pair, int):
                self._remotes[pair] = location
            return location
        return self._remotes.get(pair, "") if isinstance(pair, int) else ""

    def _scope(self, event: Event) -> Scope:
        if str(event.get("event")).startswith(("fault.", "repair.")):
            return ("object", event.get("fault"), event.get("device"), event.get("subject"))
        location = self._location(event)
        return ("location", location) if location else ("pair", event.get("pair"))

    def _measure(self, event: Event) -> None:
        if location := self._location(event):
            self.outages.setdefault(location, Outage()).take(event)
            if event.get("event") in ("failover.applied", "failback.applied"):
                self.moves[location, "standby" if _number(event.get("to_rank")) else "primary"] += 1

    def _number(self, event: Event, new: int) -> int:
        name, at_ns = str(event.get("event")), instant(event)
        if name in ("verdict.changed", "fault.raised"):
            return self._judge(self._scope(event), event, new)
        if name == "fault.cleared":
            return self._end(self._scope(event), at_ns)
        if name.startswith("session."):
            return max((one.number for one in self._scopes.values() if one.goes_on(at_ns)), default=0)
        key = self._scope(event)
        scope = self._scopes.get(key)
        is_away = self._ranks.get(key, 0) > 0
        if name in ("failover.applied", "failback.applied"):
            self._ranks[key] = _number(event.get("to_rank"))
        # Where traffic is away still, how it comes back is a part of the story.
        return scope.number if scope is not None and (scope.ended_ns is None or is_away) else 0

    def _judge(self, key: Scope, event: Event, new: int) -> int:
        """A verdict or a finding: it begins an incident, goes on with it, or ends it."""
        scope, at_ns = self._scopes.get(key), instant(event)
        if event.get("severity") == Severity.OK:
            return self._end(key, at_ns)
        is_critical = event.get("severity") == Severity.CRITICAL
        if scope is not None and self._goes_on(scope, event, is_critical=is_critical):
            scope.ended_ns, scope.is_cut = None, False
            return scope.number
        self._scopes.pop(key, None)
        if len(self._scopes) >= MAX_OPEN:
            del self._scopes[next(iter(self._scopes))]
        self._scopes[key] = _Scope(new, is_critical=is_critical)
        return new

    @staticmethod
    def _goes_on(scope: _Scope, event: Event, *, is_critical: bool) -> bool:
        given = _number(event.get("incident"))
        if given:
            return given == scope.number
        if scope.ended_ns is not None and instant(event) - scope.ended_ns > REOPEN_NS:
            return False
        return scope.is_critical or not is_critical

    def _end(self, key: Scope, at_ns: int) -> int:
        scope = self._scopes.get(key)
        if scope is None or scope.ended_ns is not None:
            return 0
        scope.ended_ns = at_ns
        return scope.number


def instant(event: Event) -> int:
    """CLOCK_MONOTONIC of an event; 0 where it has none."""
    return _number(event.get("at_ns"))


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
