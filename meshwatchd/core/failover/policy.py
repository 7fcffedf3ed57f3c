"""Whether to move traffic, and where to: fast down, slow up, never towards what is not known to be good.

Nobody moves on the word of one path: the path in use is condemned by its own witnesses, the one to take has answered
since the doubt began, and the relay at its other end consents on its own evidence.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from meshwatchd.core.failover.damping import Damper
from meshwatchd.core.failover.storm import CALM_NS
from meshwatchd.core.session.shared_risk_group import Group
from meshwatchd.model.events import Reason
from meshwatchd.model.policy_state import Order
from meshwatchd.model.settings import MS, SECOND
from meshwatchd.model.topology import Path


class Stay(msgspec.Struct, frozen=True):
    """Leave traffic where it is. A non-empty reason says that something is wrong and nothing can be done."""

    reason: str = ""


class Move(msgspec.Struct, frozen=True):
    """Take another path."""

    target: Path
    reason: Reason


LOOK_AHEAD_NS = 5 * SECOND
"""How long everybody looks before traffic goes home."""

AGENT_PATIENCE_NS = 120 * MS
"""How long a path is waited for that broke while the mesh's own agent is at work: mostly it is back by then."""

Decision = Stay | Move


def _is_never(_path: Path) -> bool:
    return False


def _is_always() -> bool:
    return True


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What the decision about one pair rests on.

    Attributes:
        paths: those that may be used, the preferred first; banned ones are left out.
        home: the path to come back to: the mesh's own, or the one that is pinned.
        is_pinned: an operator has moved traffic here: there is no coming back by itself.
        is_drained: whether a relay of a path is being taken out of service.
        is_suppressed: whether a path has flapped too much to be come back to.
        pause: the order by which nothing moves by itself.
        shares_relay: whether a path enters the mesh by the same relay of this location as the path in use.
        is_unsettled: whether the mesh's own agent is rewriting the primary path at this moment.
        is_vouched_for: whether nodes behind both relays say that the primary path works.
        storm_since: when most locations went bad at once; 0 where they have not.
    """

    paths: tuple[Path, ...]
    group: Callable[[Path], Group]
    active: Path
    home: Path
    moved_at: int
    is_pinned: bool
    is_revertive: bool
    wait_to_restore_ns: int
    is_drained: Callable[[Path], bool] = _is_never
    is_suppressed: Callable[[Path], bool] = _is_never
    shares_relay: Callable[[Path], bool] = _is_never
    is_cramped: Callable[[Path], bool] = _is_never
    moves_for_size: bool = False
    pause: Order | None = None
    is_unsettled: bool = False
    is_vouched_for: Callable[[], bool] = _is_always
    storm_since: int = 0


def decide(situation: Situation, damper: Damper, now: int) -> Decision:
    """The move this node wants, if any.

    A path that an operator chose is kept until it breaks. A path is left only when it is condemned or its relay is
    drained, and only for one that answers now: each of its sessions has answered a probe sent after the suspicion
    began. Home is taken back only when it has been clean for the wait to restore, the hold-down is over, and it has not
    been flapping; and the primary path only on the word of nodes behind both of its relays, which cross the overlays
    that relays do not, and not while the mesh's own agent rewrites it. What breaks meanwhile is waited for a little.
    """
    group = situation.group(situation.active)
    if group.is_down:
        return _escape(situation, group.suspect_since or group.down_since, damper, now)
    if situation.is_drained(situation.active):
        return _make_way(situation, damper, now)
    if situation.moves_for_size and situation.is_cramped(situation.active):
        return _make_room(situation, damper, now)
    return _return_home(situation, damper, now)


def next_path(situation: Situation) -> Path | None:
    """Where traffic would move if the path in use broke at this instant; None where no other path is good."""
    return min(_usable(situation), key=lambda path: _drawbacks(situation, path), default=None)


def may_go_home(situation: Situation, damper: Damper, now: int) -> bool:
    """Whether traffic is away from a home that works, by the word of all who are asked, and may go there soon."""
    at = _home_at(situation, damper, now)
    return at is not None and now >= at - LOOK_AHEAD_NS and _is_vouched_for(situation)


def is_restored(primary: Group, wait_ns: int, now: int) -> bool:
    """Whether the own path has been clean for the given time."""
    return primary.is_good and now - primary.good_since >= wait_ns


def _return_home(situation: Situation, damper: Damper, now: int) -> Decision:
    at = _home_at(situation, damper, now)
    if at is None or now < at or not _is_vouched_for(situation) or damper.exhausted(now):
        return Stay()
    return Move(situation.home, Reason.RESTORED if situation.home.is_primary else Reason.PINNED)


def _home_at(situation: Situation, damper: Damper, now: int) -> int | None:
    """When the hold-down and the wait to restore are over; None while anything else keeps traffic where it is."""
    home, group = situation.home, situation.group(situation.home)
    is_wanted = situation.active is not home and situation.is_revertive and not situation.is_pinned
    is_held = situation.pause is not None or (home.is_primary and situation.is_unsettled)
    if not is_wanted or is_held or home not in situation.paths or not group.is_good:
        return None
    if situation.is_drained(home) or situation.is_suppressed(home) or situation.is_cramped(home):
        return None
    return max(situation.moved_at + damper.hold_down_ns(now), group.good_since + situation.wait_to_restore_ns)


def _is_vouched_for(situation: Situation) -> bool:
    return not situation.home.is_primary or situation.is_vouched_for()


def _escape(situation: Situation, since: int, damper: Damper, now: int) -> Decision:
    """Leave a condemned path. What flaps or is drained is taken only where nothing else answers."""
    candidates = [path for path in _usable(situation) if situation.group(path).verified_since(since)]
    if not candidates:
        return Stay("the path in use is broken and no other path answers")
    if situation.group(situation.active).is_reviving:
        # The fault of several paths ends at one instant, and whose probe is the first to be answered is chance.
        return Stay("the path in use answers again: waiting until it is known good or broken")
    if situation.active.is_primary and situation.is_unsettled and now - since < AGENT_PATIENCE_NS:
        return Stay()
    refusal = _refusal(situation, damper, now)
    if refusal:
        return Stay(refusal)
    calm = [path for path in candidates if _is_steady(situation, path, now)]
    if not calm:
        return Stay("most locations went bad at once, and no path avoids what they share: waiting until one is steady")
    best = min(calm, key=lambda path: _drawbacks(situation, path))
    return Move(best, Reason.BROKEN)


def _drawbacks(situation: Situation, path: Path) -> tuple[bool, bool, bool, int]:
    """What speaks against a path, the gravest first: one that loses large packets is better than one that flaps."""
    return situation.is_drained(path), situation.is_suppressed(path), situation.is_cramped(path), path.preference


def _make_room(situation: Situation, damper: Damper, now: int) -> Decision:
    """Leave a path that loses large packets for one that carries them."""
    usable = [path for path in _usable(situation) if not situation.is_cramped(path) and not situation.is_drained(path)]
    candidates = [path for path in usable if not situation.is_suppressed(path)]
    if not candidates or situation.is_pinned:
        return Stay()
    refusal = _refusal(situation, damper, now)
    return Stay(refusal) if refusal else Move(candidates[0], Reason.TOO_SMALL)


def _make_way(situation: Situation, damper: Damper, now: int) -> Decision:
    """Leave a path that still works, because one of its relays is about to go."""
    candidates = [path for path in _usable(situation) if not situation.is_drained(path)]
    if not candidates:
        return Stay("a relay of the path in use is drained and no other path is good")
    refusal = _refusal(situation, damper, now)
    return Stay(refusal) if refusal else Move(candidates[0], Reason.DRAINED)


def _usable(situation: Situation) -> list[Path]:
    """Paths that answer, but for the one in use."""
    groups = ((path, situation.group(path)) for path in situation.paths if path is not situation.active)
    return [path for path, group in groups if group.is_good and not group.is_suspect]


def _is_steady(situation: Situation, path: Path, now: int) -> bool:
    """In a storm a path through the relay that all condemned paths share has to prove itself for longer."""
    began = situation.storm_since
    if not began or not situation.shares_relay(path):
        return True
    return now - began >= CALM_NS and situation.group(path).verified_since(began + CALM_NS)


def _refusal(situation: Situation, damper: Damper, now: int) -> str:
    """Why nothing moves, whatever else is true."""
    if situation.pause is not None:
        return paused_by(situation.pause)
    spent = damper.exhausted(now)
    return f"too many moves in the last {spent}; routes stay as they are" if spent else ""


def paused_by(pause: Order) -> str:
    """Who has paused moves, and why."""
    return f"paused by {pause.name}: {pause.reason or 'no reason given'}"
