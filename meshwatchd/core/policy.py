"""Whether to move traffic, and where to: fast down, slow up, never towards what is not known to be good."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from meshwatchd.core.group import Group
from meshwatchd.model.events import Reason
from meshwatchd.model.settings import MINUTE, PolicySettings
from meshwatchd.model.topology import Path
from meshwatchd.model.units import parse_duration

MAX_DOUBLINGS = 5
"""Hold-down stops growing at 32 times its setting: 16 minutes with the default of 30 s."""

FLAP_MEMORY_NS = 10 * MINUTE
"""A failover older than this no longer lengthens the hold-down."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Leave traffic where it is. A non-empty reason says that something is wrong and nothing can be done."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """Take another path."""

    target: Path
    reason: Reason


Decision = Stay | Move


class Damper:
    """Remembers moves, so that a flapping path is used less and less readily."""

    def __init__(self, settings: PolicySettings) -> None:
        self._hold_down_ns = parse_duration(settings.hold_down)
        self._budget = settings.actions_per_minute
        self._failovers: deque[int] = deque(maxlen=64)
        self._actions: deque[int] = deque(maxlen=64)

    def record(self, now: int, *, is_failover: bool) -> None:
        """Note a move."""
        self._actions.append(now)
        if is_failover:
            self._failovers.append(now)

    def hold_down_ns(self, now: int) -> int:
        """How long after a failover the earliest failback may come: doubled for every other recent failover."""
        recent = sum(1 for at in self._failovers if now - at < FLAP_MEMORY_NS)
        return self._hold_down_ns << min(max(0, recent - 1), MAX_DOUBLINGS)

    def is_exhausted(self, now: int) -> bool:
        """Whether the budget of moves in a minute is used up."""
        return sum(1 for at in self._actions if now - at < MINUTE) >= self._budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the decision about one pair rests on."""

    paths: tuple[Path, ...]
    group: Callable[[Path], Group]
    active: Path
    moved_at: int
    is_pinned: bool
    is_revertive: bool
    wait_to_restore_ns: int


def decide(situation: Situation, damper: Damper, now: int) -> Decision:
    """The move this node wants, if any.

    A path that an operator chose is kept until it breaks. A path is left only when it is condemned, and only for one
    that answers now: each of its sessions has answered a probe sent after the suspicion began. The own path is taken
    back only when it has been clean for the wait to restore and the hold-down is over.
    """
    group = situation.group(situation.active)
    if group.is_down:
        return _escape(situation, group.suspect_since or group.down_since, damper, now)
    primary = situation.paths[0]
    if situation.active is primary or situation.is_pinned or not situation.is_revertive:
        return Stay()
    if is_restored(situation.group(primary), situation.wait_to_restore_ns, now) and (
        now - situation.moved_at >= damper.hold_down_ns(now)
    ):
        return Move(primary, Reason.RESTORED)
    return Stay()


def is_restored(primary: Group, wait_ns: int, now: int) -> bool:
    """Whether the own path has been clean for the given time."""
    return primary.is_good and now - primary.good_since >= wait_ns


def _escape(situation: Situation, since: int, damper: Damper, now: int) -> Decision:
    candidates = [
        path
        for path in situation.paths
        if path is not situation.active
        and situation.group(path).is_good
        and not situation.group(path).is_suspect
        and situation.group(path).verified_since(since)
    ]
    if not candidates:
        return Stay("the path in use is broken and no other path answers")
    if damper.is_exhausted(now):
        return Stay("too many moves in the last minute; routes stay as they are")
    return Move(candidates[0], Reason.BROKEN)
