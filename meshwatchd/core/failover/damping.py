"""Memory of moves and flaps: who moved often moves less readily, in three independent ways.

- The *hold-down* is the earliest failback after a failover. Each failover doubles the next one's, and a level is
  forgotten only after twice its own hold-down without a failover: a fault that comes back with the period of the
  hold-down meets a longer one each time, where a memory of fixed length would forget and begin anew (resonance). A
  random share is added, so that fifty locations do not come home in one instant.
- The *penalty* of a path (RFC 2439) grows by 1000 whenever the path is condemned, in use or not, and halves with every
  half-life. From `suppress` on the path is not come back to until the penalty has decayed below `reuse`.
- The *budgets* bound the moves of a minute and of a day whatever the reasons were.
"""

from __future__ import annotations

import math
from collections import deque

from meshwatchd.model.ids import NodeName
from meshwatchd.model.policy_state import PairRecord, PathPenalty
from meshwatchd.model.settings import MINUTE, PolicySettings
from meshwatchd.model.topology import Path

MAX_DOUBLINGS = 5
"""Hold-down stops growing at 32 times its setting: 16 minutes with the default of 30 s."""

FLAP_MEMORY_NS = 10 * MINUTE
"""For so long at least a failover lengthens the hold-down of the next."""

CALM_HOLD_DOWNS = 2
"""A level is forgotten after so many of its own hold-downs without a failover."""

FLAP_PENALTY = 1000.0
"""Of one flap. Only its proportion to `suppress` and `reuse` matters; 1000 is what router operators are used to."""

LONGEST_HALF_LIVES = 4
"""The longest a path that has become well stays suppressed: the penalty has a ceiling (RFC 2439 section 4.2)."""

FORGOTTEN_PENALTY = 1.0

DAY_NS = 24 * 60 * MINUTE

_Key = tuple[tuple[NodeName, NodeName], bool]
"""A path as it is called across restarts and other meshes: its relays, and whether it is the primary path. The spare
link between the leaders has the relays of that."""


class Damper:
    """Remembers what one pair of locations did, so that a flapping path is used less and less readily."""

    def __init__(self, settings: PolicySettings) -> None:
        self._hold_down_ns = settings.hold_down
        self._half_life_ns = settings.half_life
        self._suppress, self._reuse = settings.suppress, settings.reuse
        self._ceiling = settings.reuse * 2.0**LONGEST_HALF_LIVES
        self._jitter_share = settings.jitter_percent / 100
        self._minute_budget, self._day_budget = settings.actions_per_minute, settings.actions_per_day
        self._level = 0
        self._level_at = 0
        self._jitter = 0.0
        self._actions: deque[int] = deque(maxlen=settings.actions_per_day)
        self._penalties: dict[_Key, tuple[float, int]] = {}
        self._suppressed: set[_Key] = set()

    def record(self, now: int, *, is_failover: bool, dice: float = 0.0) -> None:
        """Note a move; `dice` in 0..1 is the chance that spreads failbacks."""
        self._actions.append(now)
        if is_failover:
            self._level = min(self._level_now(now) + 1, MAX_DOUBLINGS + 1)
            self._level_at = now
            self._jitter = dice * self._jitter_share

    def flapped(self, path: Path, now: int) -> None:
        """A path was condemned, in use or not."""
        penalty = min(self.penalty(path, now) + FLAP_PENALTY, self._ceiling)
        self._penalties[_key(path)] = (penalty, now)
        if penalty >= self._suppress:
            self._suppressed.add(_key(path))

    def penalty(self, path: Path, now: int) -> float:
        """The figure of merit of a path as of now; 0 is perfect."""
        return self._penalty_of(_key(path), now)

    def is_suppressed(self, path: Path, now: int) -> bool:
        """Whether a path has flapped too much to be come back to; ends when the penalty is below `reuse`."""
        if _key(path) not in self._suppressed:
            return False
        if self.penalty(path, now) > self._reuse:
            return True
        self._suppressed.discard(_key(path))
        return False

    def hold_down_ns(self, now: int) -> int:
        """How long after a failover the earliest failback may come."""
        hold_down_ns = self._hold_down_of(self._level_now(now))
        return hold_down_ns + int(hold_down_ns * self._jitter)

    def exhausted(self, now: int) -> str:
        """The span whose budget of moves is used up, "minute" or "day"; empty while moves are left in both."""
        if sum(1 for at in self._actions if now - at < MINUTE) >= self._minute_budget:
            return "minute"
        if sum(1 for at in self._actions if now - at < DAY_NS) >= self._day_budget:
            return "day"
        return ""

    def export(self, location: str, now: int, *, is_pinned: bool) -> PairRecord:
        """What a restart must not forget."""
        penalties = ((key, self._penalty_of(key, now)) for key in sorted(self._penalties))
        return PairRecord(
            location=location,
            level=self._level,
            level_at_ns=self._level_at,
            jitter=self._jitter,
            actions=tuple(at for at in self._actions if now - at < DAY_NS),
            is_pinned=is_pinned,
            penalties=tuple(
                PathPenalty(relays=relays, penalty=penalty, at_ns=now, is_primary=is_primary)
                for (relays, is_primary), penalty in penalties
                if penalty >= FORGOTTEN_PENALTY
            ),
        )

    def restore(self, record: PairRecord, now: int) -> None:
        """Take over what an earlier process knew, as far as one can know it; what is of the future is as of now."""
        self._level, self._level_at = min(max(0, record.level), MAX_DOUBLINGS + 1), min(record.level_at_ns, now)
        self._jitter = min(max(0.0, record.jitter), self._jitter_share)
        self._actions.extend(sorted(min(at, now) for at in record.actions))
        for each in record.penalties:
            key = each.relays, each.is_primary
            self._penalties[key] = (min(max(0.0, each.penalty), self._ceiling), min(each.at_ns, now))
            if self._penalty_of(key, now) >= self._suppress:
                self._suppressed.add(key)

    def _penalty_of(self, key: _Key, now: int) -> float:
        penalty, at = self._penalties.get(key, (0.0, now))
        return penalty * math.pow(2.0, -(now - at) / self._half_life_ns) if penalty else 0.0

    def _hold_down_of(self, level: int) -> int:
        return self._hold_down_ns << min(max(0, level - 1), MAX_DOUBLINGS)

    def _level_now(self, now: int) -> int:
        """Forget levels that have been calm for long enough, one after the other."""
        while self._level:
            memory_ns = max(FLAP_MEMORY_NS, CALM_HOLD_DOWNS * self._hold_down_of(self._level))
            if now - self._level_at < memory_ns:
                break
            self._level -= 1
            self._level_at += memory_ns
        return self._level


def _key(path: Path) -> _Key:
    return path.relays, path.is_primary
